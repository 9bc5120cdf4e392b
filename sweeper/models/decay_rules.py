"""Finds decay rules that match nothing before a study starts, and lists what they could match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from sweeper.config.decay import Rule
from sweeper.config.table import Flaw
from sweeper.config.user_code import LoadError
from sweeper.models.decay import Decay, known_layers, layer_class, matching
from sweeper.models.leaves import Leaf

# hints list at most this many alternatives
_MAX_SHOWN = 8


def check_layers(decay: Decay) -> Iterator[Flaw]:
    """Classes of layers that do not exist, and classes that are named twice; by key."""
    unknown = dict(_unknown_classes(decay))
    yield from unknown.values()
    yield from _named_twice([rule for rule in decay.rules if rule.layer not in unknown], decay)


def idle_rules(decay: Decay, leaves: Sequence[Leaf]) -> Iterator[Flaw]:
    """Rules that match none of `leaves`, by key; every class in them exists."""
    for rule in decay.rules:
        if rule.key != "other" and not [*matching(leaves, rule, decay.base_dir)]:
            yield _about_nothing(rule, leaves, decay)


def factors(decay: Decay) -> Iterator[Flaw]:
    """Rules that a mask cannot express: it can only say whether an array decays."""
    for rule in decay.rules:
        if rule.amount not in (0, 1):
            found = f"{rule.amount} is a factor, but a mask can only be true or false"
            yield Flaw(rule.key, found, "write true or false")


def _unknown_classes(decay: Decay) -> Iterator[tuple[str, Flaw]]:
    for rule in decay.rules:
        try:
            if rule.layer:
                layer_class(rule.layer, decay.base_dir)
        except LoadError as error:
            names = {layer.__name__: plain for plain, layer in known_layers().items()}
            near = get_close_matches(rule.layer.replace("_", "").lower(), names.values(), n=1)
            meant = [name for name, plain in names.items() if plain in near]
            hint = f"did you mean {_snake(meant[0])}?" if meant else error.hint
            yield rule.layer, Flaw(_class_key(rule), error.found, hint)


def _named_twice(rules: Sequence[Rule], decay: Decay) -> Iterator[Flaw]:
    """Keys such as `layer_norm` and `LayerNorm` that are the same class."""
    keys = dict.fromkeys(rule.layer for rule in rules if rule.layer and not _is_where(rule))
    first: dict[type, str] = {}
    for key in keys:
        layer = layer_class(key, decay.base_dir)
        if layer in first:
            yield Flaw(key, f"the same class as {first[layer]}", "remove one of the two")
        first.setdefault(layer, key)


def _about_nothing(rule: Rule, leaves: Sequence[Leaf], decay: Decay) -> Flaw:
    for name, condition in _CONDITIONS.items():
        wanted = getattr(rule, name)
        alone = replace(Rule(rule.key, rule.amount), **{name: wanted})
        if wanted and not [*matching(leaves, alone, decay.base_dir)]:
            there = list(dict.fromkeys(one for leaf in leaves for one in condition.of(leaf)))
            near = get_close_matches(str(wanted), [*_places(leaves), *there], n=1, cutoff=0.75)
            hint = f"did you mean '{near[0]}'?" if near else _listed(condition.nouns, there)
            return Flaw(rule.key, f"no array {condition.describe(wanted)}", hint)
    nearly = [*matching(leaves, replace(rule, leaf="", ndim=()), decay.base_dir)]
    hint = _listed("arrays", list(dict.fromkeys(leaf.path for leaf in nearly or leaves)))
    return Flaw(rule.key, "no array meets all conditions", hint)


def _places(leaves: Sequence[Leaf]) -> Iterator[str]:
    """All positions of arrays in the model, in all their spellings."""
    for path in dict.fromkeys(path for leaf in leaves for path in leaf.paths):
        yield from (path[: end.start()] for end in re.finditer(r"[.\[]|$", path))


def _listed(nouns: str, there: Sequence[str]) -> str:
    if not there:
        return f"the model has no {nouns} to match: write path, leaf or ndim"
    more = ", ..." if len(there) > _MAX_SHOWN else ""
    return f"the {nouns} of the model are {', '.join(there[:_MAX_SHOWN])}{more}"


@dataclass(frozen=True, slots=True)
class _Condition:
    """How to describe a condition that no array meets, and which values an array has for it."""

    nouns: str
    describe: Callable[..., str]
    of: Callable[[Leaf], Iterable[str]]


# the names of the fields of a rule, in the order in which they are described
_CONDITIONS: Mapping[str, _Condition] = {
    "path": _Condition("arrays", lambda path: f"is at '{path}'", lambda leaf: [leaf.path]),
    "depth": _Condition(
        "depths",
        lambda depth: f"is at depth {_either(depth)}",
        lambda leaf: [] if leaf.depth is None else [str(leaf.depth[0])],
    ),
    "layer": _Condition(
        "layers",
        lambda layer: f"is in a layer {layer}",
        lambda leaf: map(_snake, leaf.layers),
    ),
    "leaf": _Condition("names", lambda leaf: f"is called '{leaf}'", lambda leaf: leaf.fields),
    "ndim": _Condition(
        "numbers of dimensions",
        lambda ndim: f"has {_either(ndim)} dimensions",
        lambda leaf: [str(len(leaf.shape))],
    ),
}


def _either(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))


def _is_where(rule: Rule) -> bool:
    return rule.key.startswith("where.")


def _class_key(rule: Rule) -> str:
    """Where the class of a rule is named: as a key, or under `class`."""
    return f"{rule.key}.class" if _is_where(rule) else rule.layer


def _snake(name: str) -> str:
    """The name of a class in the form of settings: LayerNorm is layer_norm."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[^_])(?=[A-Z][a-z])", "_", name).lower()
