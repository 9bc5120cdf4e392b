"""Turns pydantic's errors into messages of this package: what was found and what to write."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, time
from difflib import get_close_matches
from itertools import zip_longest

from pydantic_core import ErrorDetails, PydanticCustomError

from sweeper.config.table import Flaw
from sweeper.errors import ProblemKind

_MISSING = "missing"
_UNKNOWN = "no such setting"
TEXT_IN_QUOTES = "write text in quotes"
_MAX_LETTERS = 80  # of quoted text in a message

# what was found, what to write; {value} is shown as in TOML, other names are pydantic's context
_WORDS = {
    "missing": (_MISSING, "write {name} = ..."),
    "int_type": ("{value} is not an integer", "write an integer"),
    "float_type": ("{value} is not a number", "write a number"),
    "bool_type": ("{value} is not true or false", "write true or false"),
    "string_type": ("{value} is not text", TEXT_IN_QUOTES),
    "tuple_type": ("{value} is not an array", "write an array, [...]"),
    "too_short": ("{value} is empty", "write {min_length} or more"),
    "greater_than": ("{value} is too small", "write a number above {gt}"),
    "greater_than_equal": ("{value} is too small", "write {ge} or more"),
    "less_than": ("{value} is too large", "write a number below {lt}"),
    "less_than_equal": ("{value} is too large", "write {le} or less"),
    "finite_number": ("{value} is not a finite number", "write a finite number"),
    "string_too_short": ("the text is empty", "write some text"),
    "string_too_long": ("the text is too long", "write {max_length} characters or fewer"),
    "string_pattern_mismatch": ("{value} cannot name a directory or a column", "{letters}"),
}
# what to write for the patterns of names
_LETTERS = {
    r"^\w+$": "write letters, digits and '_' only",
    r"^\w[\w-]*$": "write letters, digits, '_' and '-' only, and not '-' first",
    r"^[^\x00-\x1f]+$": "leave out control characters",
}

_KINDS = {
    "missing": ProblemKind.MISSING,
    "int_type": ProblemKind.NOT_AN_INTEGER,
    "float_type": ProblemKind.NOT_A_NUMBER,
    "finite_number": ProblemKind.NOT_A_NUMBER,
    "bool_type": ProblemKind.NOT_A_BOOLEAN,
    "string_type": ProblemKind.NOT_TEXT,
    "greater_than": ProblemKind.TOO_SMALL,
    "greater_than_equal": ProblemKind.TOO_SMALL,
}

# settings of other tables or programs, and what they are called here
_OTHER_NAMES = {
    "target": "y",
    "features": "x",
    **dict.fromkeys(("optimizer", "opt", "optim", "optimizer_name"), "optimizer.name"),
    **dict.fromkeys(("learning_rate", "learning_rate_init", "step_size"), "lr"),
    **dict.fromkeys(("n_layers", "num_layers", "layers", "n_hidden_layers"), "depth"),
    **dict.fromkeys(("hidden_size", "hidden_dim", "n_units", "units", "hidden"), "width"),
    **dict.fromkeys(("wd", "l2", "alpha"), "weight_decay"),
    **dict.fromkeys(("n_epochs", "num_epochs", "max_epochs", "max_iter"), "epochs"),
    **dict.fromkeys(("batch", "bs"), "batch_size"),
    **dict.fromkeys(("dropout_rate", "p_dropout", "drop"), "dropout"),
    **dict.fromkeys(("act", "act_fn", "nonlinearity"), "activation"),
}
# the names here of Optuna's samplers and pruners, by those of their classes
_OF_OPTUNA = {
    **{
        f"{name}sampler": name for name in ("tpe", "random", "cmaes", "gp", "qmc", "grid", "nsgaii")
    },
    **{f"{name}pruner": name for name in ("median", "percentile", "hyperband", "threshold")},
    **{f"{name}pruner": name for name in ("patient", "wilcoxon")},
    "successivehalvingpruner": "asha",
    "noppruner": "none",
    "nsgaiiisampler": "optuna.samplers:NSGAIIISampler",
    "bruteforcesampler": "optuna.samplers:BruteForceSampler",
}
# what to call a value of a setting, if not by the name of the setting
_NOUNS = {"metrics": "metric", "source": "data source"}


def refusal(found: str, hint: str, kind: ProblemKind | None = None) -> PydanticCustomError:
    """The error of a value that a setting does not take; "{value}" in `found` stands for it."""
    return PydanticCustomError("refused", "refused", {"found": found, "hint": hint, "kind": kind})


def missing(key: str, hint: str, why: str = "") -> Flaw:
    """The flaw that nothing is written at a `key` that needs a value; `why` continues the text."""
    found = f"{_MISSING}, {why}" if why else _MISSING
    return Flaw(key, found, hint, kind=ProblemKind.MISSING)


def flaw_of(error: ErrorDetails, under: str, known: Sequence[str] = ()) -> Flaw:
    """The flaw that pydantic found in the table `under`; `known` are settings to suggest."""
    key = ".".join([under, *_path(error["loc"])])
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            setting = [under, *(name for name in error["loc"] if isinstance(name, str))]
            return unknown_setting(key, ".".join(setting), known)
        case "literal_error":
            options = str(context["expected"]).replace(" or ", ", ").replace("'", "")
            return unknown_name(key, error["input"], options)
        case "refused":
            found = context["found"].replace("{value}", format_value(error["input"]))
            return Flaw(key, found, context["hint"], kind=context["kind"], value=error["input"])
        case "one_of":
            return unknown_name(key, error["input"], context["options"])
        case "model_type":
            found = f"{format_value(error['input'])} is not a table"
            return Flaw(key, found, _as_table(key, error["input"], known))
        case name if name in _WORDS:
            found, hint = _WORDS[name]
            value = None if name == "missing" else error["input"]
            words = {
                **context,
                "value": format_value(value),
                "name": key.rpartition(".")[2],
                "letters": _LETTERS.get(context.get("pattern", ""), "write other text"),
            }
            kind = _KINDS.get(name)
            return Flaw(key, found.format(**words), hint.format(**words), kind=kind, value=value)
        case _:
            return Flaw(key, f"{format_value(error['input'])} is not allowed", error["msg"])


def _as_table(key: str, value: object, known: Sequence[str]) -> str:
    """How to write the table at `key`; `value` was given for it, probably for its first setting."""
    names = [_last(one) for one in known if one.rpartition(".")[0] == key]
    if "name" in names and isinstance(value, str):
        name = value if ":" in value else value.lower()
        return f"write {{ name = {json.dumps(_OF_OPTUNA.get(name, name))} }}"
    return f"write a table with {', '.join(names)}" if names else "write a table"


# what some users write to leave a setting out, and the values that leave it out of a trial
_WORDS_FOR_NONE = ("none", "null", "off", "")
_OTHERS_FOR_NONE = ("False", "inf", "-inf", "nan", "0", "0.0")
_VALUES_FOR_NONE = {
    "clip_norm": "1e9",
    "clip_value": "1e9",
    "ema": "0.0",
    "label_smoothing": "0.0",
    "dropout": "0.0",
    "weight_decay": "0.0",
    "momentum": "0.0",
    "gradient_penalty": "0.0",
    "warmup": "0.0",
}
_SIZES = 'split text such as "64-32" in your own function'


def with_way(flaw: Flaw) -> Flaw:
    """The flaw, with a better hint if the value was meant as "none" or as several sizes."""
    words = flaw.key.split(".")
    is_searched = words[0] == "search"
    is_of_entry = is_searched and words[-1] in ("choices", "or", "low", "high")
    setting = words[-2] if is_of_entry else words[-1]
    is_of_number = flaw.kind in (ProblemKind.NOT_A_NUMBER, ProblemKind.TOO_SMALL)
    if is_of_number and _is_meant_as_none(flaw.value):
        value = _VALUES_FOR_NONE.get(setting)
        if words[-1] in ("choices", "or") and is_searched and value:
            return replace(flaw, hint=f"write {value} for none")
        if value and not is_searched and str(flaw.value) not in ("0", "0.0"):
            return replace(flaw, hint=f"{flaw.hint}, or remove it")
    if flaw.kind is ProblemKind.NOT_A_SCALAR and is_array(flaw.value) and "model" in words[:2]:
        by_size = "search model.depth and model.width, or " if setting == "width" else ""
        return replace(flaw, hint=f"{by_size}{_SIZES}")
    return flaw


def _is_meant_as_none(value: object) -> bool:
    if isinstance(value, str):
        return value.lower() in _WORDS_FOR_NONE
    return str(value) in _OTHERS_FOR_NONE


def without_repeats(errors: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """The errors without arrays that are only too short because of their invalid items."""
    return [
        error
        for error in errors
        if error["type"] != "too_short"
        or error.get("ctx", {}).get("actual_length") == len(error["input"])
    ]


def _path(loc: Sequence[str | int]) -> Iterator[str]:
    """The keys of a location; indices only for tables in arrays."""
    for part, inner in zip_longest(loc, loc[1:]):
        if isinstance(part, str) or isinstance(inner, str):
            yield str(part)


def unknown_setting(
    key: str, setting: str, known: Sequence[str], elsewhere: Sequence[str] = ()
) -> Flaw:
    """The flaw of naming a `setting` that does not exist, at `key`.

    It may also be meant to be one of those `elsewhere`.
    """
    near = nearest(setting, [*known, *elsewhere])
    table = setting.rpartition(".")[0]
    if near:
        around, _, name = near.rpartition(".")
        meant = f"{key.rpartition('.')[0]}.{name}" if table and table == around else near
        return Flaw(key, _UNKNOWN, f"did you mean '{near}'?", meant, ProblemKind.UNKNOWN_SETTING)
    there = ", ".join(_last(one) for one in known if one.rpartition(".")[0] == table)
    listed = f"[{table}] has {there}" if there and table else f"there are {', '.join(known)}"
    return Flaw(key, _UNKNOWN, listed, kind=ProblemKind.UNKNOWN_SETTING)


def keys_around(key: str) -> Iterator[str]:
    """A dotted key and those of the tables around it."""
    while key:
        yield key
        key = key.rpartition(".")[0]


def without_consequences(flaws: Sequence[Flaw], kinds: Mapping[str, str]) -> list[Flaw]:
    """The flaws without those that only follow from a misspelt setting.

    The intended setting is missing, or its table is taken for one of another kind, or nothing is
    drawn for a setting. `kinds` are the settings that determine the kind, by table.
    """
    meant = {flaw.meant for flaw in flaws if flaw.meant}
    meant |= {key.removeprefix("search.") for key in meant}
    unread = {flaw.key for flaw in flaws} | meant
    by = {name: f"{name}.{setting}" for name, setting in kinds.items()}
    of_another_kind = {name for name, setting in by.items() if setting in meant}

    def is_consequence(flaw: Flaw) -> bool:
        table = flaw.key.removeprefix("search.").partition(".")[0]
        if (
            flaw.kind in (ProblemKind.MISSING, ProblemKind.UNKNOWN_SETTING)
            and table in of_another_kind
        ):
            return flaw.meant != by[table]
        return flaw.kind is ProblemKind.MISSING and (
            not meant.isdisjoint(keys_around(flaw.key))
            or not unread.isdisjoint(keys_around(f"search.{flaw.key}"))
        )

    return [flaw for flaw in flaws if not is_consequence(flaw)]


def unknown_name(key: str, value: object, options: str, noun: str | None = None) -> Flaw:
    """The flaw of a name at `key` that is not one of `options`, which are names of a `noun`."""
    found = f"no {noun or _noun(key)} {format_value(value)}"
    if isinstance(value, str) and '"' not in options and value in options.split(", "):
        return Flaw(key, f"{format_value(value)} is text", f"write {value} without quotes")
    # a form such as "module:function" is not a name to suggest
    by_lower = {name.lower(): name for name in options.split(", ") if '"' not in name}
    hint = f"write one of {options}"
    if "constant" in by_lower and value in ("none", "off"):
        hint = "did you mean 'constant'?"
    elif isinstance(value, str) and (known := _OF_OPTUNA.get(value.lower())):
        hint = f"did you mean '{known}'?"
    elif isinstance(value, str) and (near := _near_names(value.lower(), by_lower)):
        hint = f"did you mean '{by_lower[near[0]]}'?"
    return Flaw(key, found, hint, kind=ProblemKind.UNKNOWN_NAME, value=value)


def _near_names(name: str, known: Collection[str]) -> Sequence[str]:
    """The known name nearest to a name, if one is near; that of a class is near to none."""
    if name.endswith(("sampler", "pruner")):
        return []
    return get_close_matches(name, known, n=1)


def format_value(value: object) -> str:
    """A TOML value, formatted for messages."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float() | date() | time():
            return str(value)
        case str():
            return f"'{value if len(value) <= _MAX_LETTERS else value[:_MAX_LETTERS] + ' ...'}'"
        case dict():
            return "a table"
        case _:
            return "an array"


def is_array(value: object) -> bool:
    """Whether a value is an array of TOML."""
    return isinstance(value, list | tuple)


def _noun(key: str) -> str:
    """What the value at `key` names: `study.sampler.name` names a sampler."""
    parent, _, last = key.rpartition(".")
    if parent.startswith("train.losses."):
        return "loss"
    return _last(parent) if last in {"name", "kind"} else _NOUNS.get(last, last.replace("_", " "))


def nearest(setting: str, known: Sequence[str]) -> str | None:
    """The one of the `known` settings that was probably meant: of its table first, then others."""
    table, _, name = setting.rpartition(".")
    siblings = {_last(one): one for one in known if one.rpartition(".")[0] == table}
    other = _OTHER_NAMES.get(name)
    if other in siblings:
        return siblings[other]
    namesakes = [one for one in known if _last(one) in (name, other) or one == other]
    close_by = (siblings[near] for near in get_close_matches(name, siblings, n=1))
    if table:
        # settings inside another table, such as the bound of a constraint, belong only to it
        reach = [
            one for one in known if not siblings or one.count(".") == 1 or _is_below(one, table)
        ]
        namesakes = [one for one in reach if one in namesakes]
        # names in a smaller table would only be near because of the table's own
        distinct = [one for one in reach if one.count(".") == 1 or one not in siblings.values()]
        far = get_close_matches(setting, distinct, n=1, cutoff=0.8)
        return next(iter((*close_by, *namesakes, *far)), None)
    # a setting of any table, written without it
    forms = {form: one for one in reversed(known) for form in (one, _last(one))}
    far = (forms[near] for near in get_close_matches(name, forms, n=1, cutoff=0.8))
    return next(iter((*namesakes, *far, *close_by)), None)


def _is_below(key: str, table: str) -> bool:
    return key.startswith(f"{table}.")


def _last(key: str) -> str:
    return key.rpartition(".")[2]
