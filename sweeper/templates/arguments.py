"""Turns what is wrong with a study in a mapping into what is wrong with arguments of an estimator.

An estimator takes some settings of a study as arguments of its own, and all others in `settings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sweeper.config.tables import all_settings
from sweeper.config.toml import IN_MAPPING
from sweeper.errors import FRESH, DataError, FitError, Problem, SetupError, StudyError

# the settings that have an argument
ARGUMENTS = {
    "study.n_trials": "n_trials",
    "study.metric": "metric",
    "study.seed": "random_state",
    "train.epochs": "epochs",
    "search": "search",
    "data.split.val": "validation_fraction",
    "results.dir": "run_dir",
    "results.ensemble": "ensemble",
}
_OF_METRIC = {"train.metrics": "metric"}
# a setting of a mapping with its value, what goes with a metric, and the key of an argument
_PAIR = re.compile(r"""'(\w+\.[\w.]+)': ('[^']*'|"[^"]*"|\[[^]]*]|{[^}]*}|[^\s,;)]+)""")
_WITH_METRIC = re.compile(r" \(with 'study\.direction': [^()]*\)")
_KEY = re.compile("|".join(rf"\b{re.escape(key)}\b" for key in ARGUMENTS if "." in key))
# the tables whose settings are not those of a model or its training
_TABLES = ("data.", "study.", "train.", "schedule.", "execution.", "results.")
# the column that a remark is about, and advice to add it to a setting
_COLUMN = re.compile(r"column ('[^']*') ")
_ADDED = re.compile(r"add ('[^']*') to (data\.\w+)")
# a setting without its table, unless it is in a table of its own, and the words for its table
_BARE = re.compile(r"\{[^{}]*\}|(?<!column )'(\w+)': (?=['\"\[{]|True|False)")
_IN_TABLE = re.compile(r" in \[data\]")
_SETTING = re.compile(rf"(?<!['\w.])(?:{'|'.join(map(re.escape, _TABLES))})\w+(?:\.\w+)*")


@contextmanager
def as_value_errors(settings: Mapping[str, Any]) -> Iterator[None]:
    """Raise what is wrong with the data or with `settings` as a ValueError, like scikit-learn."""
    arguments = ARGUMENTS if "train.metrics" in settings else ARGUMENTS | _OF_METRIC
    try:
        yield
    except (DataError, StudyError) as error:
        problems = _without_consequences(error.problems, settings)
        raise FitError(_of_argument(one, arguments) for one in problems) from None
    except SetupError as error:
        if all(problem.where != IN_MAPPING for problem in error.problems):
            raise
        raise SetupError(_of_argument(one, arguments) for one in error.problems) from None


def _without_consequences(
    problems: Sequence[Problem], settings: Mapping[str, Any]
) -> Sequence[Problem]:
    """The problems without changes of the pruner that follow from another number of epochs."""
    is_given = any(key.startswith("study.pruner") for key in settings)
    if is_given or all(one.key != "train.epochs" for one in problems):
        return problems
    return [one for one in problems if not one.key.startswith("study.pruner")]


def _of_argument(problem: Problem, arguments: Mapping[str, str]) -> Problem:
    """A problem of a study, at the argument of the estimator that it comes from."""
    is_resumed = FRESH in problem.hint
    hint = "restore it, or pass another run_dir" if is_resumed else with_arguments(problem.hint)
    problem = replace(problem, found=with_arguments(problem.found), hint=hint)
    if problem.where != IN_MAPPING:
        return problem
    if problem.key.startswith("search"):
        return replace(problem, where="search", key=problem.key.removeprefix("search").lstrip("."))
    if problem.key in arguments:
        return replace(problem, where="", key=arguments[problem.key])
    return replace(problem, where="" if problem.key.startswith("data") else "settings")


def with_arguments(text: str) -> str:
    """A text with settings as in a mapping, with those that an estimator takes."""
    column = _COLUMN.match(text)
    if column is not None:
        text = text.replace("add it to", f"add {column[1]} to")
    text = _ADDED.sub(lambda found: f"pass '{found[2]}': [{found[1]}]", _WITH_METRIC.sub("", text))
    full = _BARE.sub(lambda found: _with_table(found[0], found[1]), _IN_TABLE.sub("", text))
    pairs = _PAIR.sub(lambda found: _passed(found[1], found[2]), full)
    keys = _KEY.sub(lambda found: ARGUMENTS[found[0]], pairs)
    return _SETTING.sub(lambda found: _in_settings(found[0]), keys)


def _with_table(text: str, name: str | None) -> str:
    """The name of a setting in a mapping, with its table if only one has it."""
    keys = [key for key in all_settings() if _is_in_table(key) and key.endswith(f".{name}")]
    return f"'{keys[0]}': " if len(keys) == 1 else text


def _is_in_table(key: str) -> bool:
    """Whether a key is that of a setting directly in one of the tables of `settings`."""
    return key.count(".") == 1 and key.startswith(_TABLES)


def _in_settings(key: str) -> str:
    """A setting in the argument `settings`; any other text stays."""
    return f"settings[{key!r}]" if key in all_settings() else key


def _passed(key: str, value: str) -> str:
    """How to pass a setting to an estimator."""
    table, _, name = key.partition(".")
    if table == "search":
        return f"search={{{name!r}: {value}}}"
    if key == "study.metric":
        value = value.replace("val_", "")
    argument = ARGUMENTS.get(key)
    return f"{argument}={value}" if argument else f"settings={{{key!r}: {value}}}"
