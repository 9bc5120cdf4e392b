"""Samplers and pruners of the user's own: what they take, and whether they are any."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler

from sweeper.config import StudyConfig
from sweeper.errors import Problem
from sweeper.user_code import RAISED, LoadError, load_class, told


def own(config: StudyConfig, name: str, options: Mapping[str, Any]) -> Any:
    """The user's class `name`, made with `options`."""
    made = load_class(name, config.base_dir)
    return made(**{**seeded(config, made), **options})


def seeded(config: StudyConfig, made: Callable[..., Any]) -> dict[str, int]:
    """The study's seed, for what takes one."""
    return {"seed": config.study.seed} if "seed" in inspect.signature(made).parameters else {}


def own_problems(
    config: StudyConfig, table: str, name: str, options: Mapping[str, Any]
) -> Iterator[Problem]:
    """What stands in the way of making the class `name` with `options`."""
    key, wanted = f"{table}.name", BaseSampler if "sampler" in table else BasePruner
    try:
        found = load_class(name, config.base_dir)
    except LoadError as error:
        yield config.problem(key, error.found, error.mend)
        return
    base = f"optuna's {wanted.__name__}"
    if not (inspect.isclass(found) and issubclass(found, wanted)):
        yield config.problem(key, f"'{name}' is no class of {base}", f"derive it from {base}")
        return
    problems = list(_unfit_options(config, table, name, inspect.signature(found), options))
    yield from problems
    if not problems:
        try:
            found(**{**seeded(config, found), **options})
        except RAISED as error:
            mend = "write other options, or mend it"
            yield config.problem(key, f"'{name}' raised {told(error)}", mend)


def _unfit_options(
    config: StudyConfig,
    table: str,
    name: str,
    signature: inspect.Signature,
    options: Mapping[str, Any],
) -> Iterator[Problem]:
    taken = {
        key: one
        for key, one in signature.parameters.items()
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    }
    is_open = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    for key in options:
        if key not in taken and not is_open:
            mend = f"it takes {', '.join(taken)}" if taken else "it takes none"
            yield config.problem(f"{table}.{key}", f"'{name}' has no such option", mend)
    for key, one in taken.items():
        if one.default is one.empty and key not in options and key != "seed":
            found = f"missing, and '{name}' takes it"
            yield config.problem(f"{table}.{key}", found, f"write {key} = ...")
