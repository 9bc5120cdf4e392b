"""Samplers and pruners of the user's own: what they take, and whether they are any."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import isclose
from typing import Any, Literal

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler

from sweeper.config import StudyConfig
from sweeper.config.kinds import is_function
from sweeper.config.user_code import RAISED, LoadError, describe_error, load_class
from sweeper.config.user_keywords import check_keywords, keywords_of
from sweeper.errors import Problem, SweeperError
from sweeper.trial import Memory

_NOT_JSON = "keeps {!r}, which the ledger cannot hold as JSON ({})"


def own(config: StudyConfig, name: str, options: Mapping[str, Any]) -> Any:
    """The user's class `name`, made with `options`."""
    made = load_class(name, config.base_dir)
    return made(**{**seeded(config, made), **options})


def seeded(config: StudyConfig, made: Callable[..., Any]) -> dict[str, int]:
    """The study's seed, for what takes one."""
    return {"seed": config.study.seed} if "seed" in keywords_of(made)[0] else {}


@contextmanager
def guarded(config: StudyConfig, table: Literal["sampler", "pruner"]) -> Iterator[None]:
    """Whatever the user's sampler or pruner raises ends the study, and sys.exit does no less.

    What Optuna raises of its own samplers and pruners is no fault of the user's code.

    Raises:
        SweeperError: with the last line of the user's that it came through.
    """
    try:
        yield
    except SweeperError:
        raise
    except RAISED as error:
        if not any(key.startswith(f"study.{table}.") for key in config.functions.values()):
            raise
        raise _failed(config, table, f"raised {describe_error(error)}") from error


def check_proposal(
    config: StudyConfig, drawn: Mapping[str, Any], space: Mapping[str, BaseDistribution]
) -> None:
    """Refuse a value that is not of its range; Optuna hands on what the user's sampler gives.

    Raises:
        SweeperError: naming the parameter.
    """
    if not is_function(config.study.sampler.name):
        return
    for name, value in drawn.items():
        distribution = space[name]
        if not isinstance(distribution, FloatDistribution | IntDistribution):
            continue  # Optuna has looked whether it is one of the choices
        steps = (value - distribution.low) / (distribution.step or 1)
        is_between = distribution.low <= value <= distribution.high
        if not is_between or (distribution.step and not isclose(steps, round(steps))):
            of = f"{distribution.low} to {distribution.high}"
            by = f" in steps of {distribution.step}" if distribution.step not in (None, 1) else ""
            raise _failed(config, "sampler", f"proposes {name} = {value}, not of {of}{by}")


def ended_outside(config: StudyConfig, number: int) -> SweeperError:
    """The refusal of a pruner, or else a sampler, of the user's own that has ended a trial."""
    return _failed(config, _own_table(config), f"has ended trial {number} itself")


def check_memory(config: StudyConfig, memory: Memory) -> None:
    """Refuse what the user's sampler or pruner keeps with trials or the study and JSON cannot hold.

    Raises:
        SweeperError: naming the attribute.
    """
    if not any(key.startswith("study.") for key in config.functions.values()):
        return
    for attributes in (memory.study, *memory.trials.values()):
        for name, value in attributes.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise _failed(config, _own_table(config), _NOT_JSON.format(name, error)) from error


def _own_table(config: StudyConfig) -> Literal["sampler", "pruner"]:
    """Which of the two is the user's: the pruner, if both are."""
    return "pruner" if is_function(config.study.pruner.name) else "sampler"


def _failed(config: StudyConfig, table: Literal["sampler", "pruner"], found: str) -> SweeperError:
    name = getattr(config.study, table).name
    hint = "fix it; the same command goes on from the last round"
    return SweeperError(config.problem(f"study.{table}.name", f"'{name}' {found}", hint))


def own_problems(
    config: StudyConfig, table: str, name: str, options: Mapping[str, Any]
) -> Iterator[Problem]:
    """What stands in the way of making the class `name` with `options`."""
    key, wanted = f"{table}.name", BaseSampler if "sampler" in table else BasePruner
    try:
        found = load_class(name, config.base_dir)
    except LoadError as error:
        yield config.problem(key, error.found, error.hint)
        return
    base = f"optuna's {wanted.__name__}"
    if not (inspect.isclass(found) and issubclass(found, wanted)):
        yield config.problem(key, f"'{name}' is no class of {base}", f"derive it from {base}")
        return
    apart = () if "seed" in options else ("seed",)  # it is given the study's
    problems = [*check_keywords(config, table, name, found, options, apart)]
    yield from problems
    if not problems:
        try:
            found(**{**seeded(config, found), **options})
        except RAISED as error:
            hint = "write other options, or fix it"
            yield config.problem(key, f"'{name}' raised {describe_error(error)}", hint)
