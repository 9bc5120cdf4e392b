"""Checks that a study's models and programs can be built for its data.

Without running Python code of the study file, it lists what is left unchecked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sweeper.config import StudyConfig
from sweeper.config.data import FunctionTable
from sweeper.config.lint import uncertain_decays
from sweeper.config.optimizer import decays_of
from sweeper.config.study import N_PARAMETERS
from sweeper.config.train import UserProgramTable
from sweeper.config.user_source import incomparable
from sweeper.data.dataset import Dataset
from sweeper.errors import StudyError, size_text

if TYPE_CHECKING:
    from sweeper.programs.build import Programs
    from sweeper.sweep.session.reconcile import InitialWeights


def check_models(config: StudyConfig, data: Dataset) -> tuple[StudyConfig, tuple[str, ...]]:
    """Refuse user-defined code that does not work, and decay rules for arrays that do not exist.

    Returns the study with its `traced_arguments`, and warnings.

    Raises:
        StudyError: with what to fix.
        SetupError: a function changes JAX's settings.
    """
    _check_memory_limit(config, data)
    from sweeper.executors.claims import n_workers
    from sweeper.executors.jax_setup import check_settings_unchanged

    warnings = _check_user_code(config, data)
    if n_workers(config):
        from sweeper.models.by_value import by_value

        by_value(config)
    if decays_of(config.optimizer):
        from sweeper.preflight.decay import check_decay

        check_decay(config, never_run(config, data))
    warnings += tuple(_hints(config, data))
    if config.searched_arguments:
        from sweeper.preflight.traced_arguments import decide_traced_arguments

        sizes = data.n_features, data.out_size
        config, continuous = decide_traced_arguments(
            config, *sizes, lambda: _least_compile_s(config, data)
        )
        warnings += continuous
    if config.edition > 1:
        check_settings_unchanged()
    return config, warnings


def _check_user_code(config: StudyConfig, data: Dataset) -> tuple[str, ...]:
    """Refuse user-defined models, functions and programs that do not work; returns warnings."""
    warnings: tuple[str, ...] = ()
    if config.has_user_models:
        from sweeper.preflight.user_model import check_model

        warnings = check_model(config, data.n_features, data.out_size)
    if config.names_functions:
        from sweeper.preflight.user_functions import check_functions

        check_functions(config, data.out_size)
    if config.train.program == "coupled":
        from sweeper.preflight.user_functions import check_coupled

        check_coupled(config, data)
    if isinstance(config.train, UserProgramTable):
        from sweeper.preflight.user_program import check_program

        check_program(config, data)
    if config.edition > 1 and (config.has_user_models or config.names_functions):
        from sweeper.preflight.user_functions import check_training

        check_training(config, data)
    return warnings


def fixed_start_of(config: StudyConfig, data: Dataset) -> InitialWeights | None:
    """What a study records about initial weights that no key changes; None if none can be."""
    if not config.has_user_models:
        return None
    from sweeper.preflight.fixed_start import fixed_start

    return fixed_start(config, data.n_features, data.out_size)


def _least_compile_s(config: StudyConfig, data: Dataset) -> float:
    """The least seconds for each program of a study, which compiles several at a time."""
    from sweeper.executors.claims import n_threads, n_workers
    from sweeper.preflight.user_functions import measure_compile
    from sweeper.sweep.planning import costs_of

    compile_s = max(costs_of(config).compile_base_s, measure_compile(config, data))
    return compile_s / max(1, n_threads(config), n_workers(config))


def _check_memory_limit(config: StudyConfig, data: Dataset) -> None:
    """Refuse a memory limit smaller than the arguments of any program.

    Raises:
        StudyError: with both numbers.
    """
    limit = config.execution.memory_limit_bytes
    if limit is None:
        return
    rows = (data.x_train, data.y_train, data.w_train)
    least, what = sum(array.nbytes for array in rows), "the training rows"
    if not any(key.startswith("model.") for key in config.search) and not config.has_user_models:
        n_parameters = never_run(config, data).n_parameters(config.settings_of({}))
        least += n_parameters * data.x_train.itemsize
        what += " and the weights of one model"
    if least > limit:
        found = f"{config.execution.memory_limit!r}, but {what} alone take {size_text(least)}"
        fix = "write a larger limit, or remove it"
        raise StudyError(config.problem("execution.memory_limit", found, fix))


def _hints(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Outputs that do not fit the loss, and settings that make no difference to any model."""
    if config.has_user_models or config.names_functions:
        from sweeper.preflight.outputs import (
            idle_optimizer,
            output_hints,
            paired_rows,
            slow_convolutions,
            undefined_measures,
        )

        yield from undefined_measures(config, data)
        yield from paired_rows(config, data.out_size)
        yield from idle_optimizer(config)
        if config.has_user_models:
            yield from output_hints(config, data)
            yield from slow_convolutions(config, data)
    for function, key in config.functions.items():
        for name in incomparable(function):
            yield (
                f"{key}: '{name}' in __main__, which '{function}' uses, cannot be compared with "
                "its value when the study began, so a change would not be noticed"
            )
    if decays_of(config.optimizer):
        from sweeper.preflight.decay import doubtful_rules

        yield from doubtful_rules(config, never_run(config, data))
    if uncertain_decays(config):
        from sweeper.preflight.decay import idle_amounts

        yield from idle_amounts(config, never_run(config, data))
    if any(bound.metric == N_PARAMETERS for bound in config.study.constraints):
        from sweeper.preflight.bounds import idle_bounds

        yield from idle_bounds(config, never_run(config, data))
    if any(key.startswith("model.") for key in config.functions.values()):
        from sweeper.preflight.idle_arguments import idle_arguments

        yield from idle_arguments(config, never_run(config, data))


def never_run(config: StudyConfig, data: Dataset) -> Programs:
    """Programs to inspect but not run, in a precision that every JAX has."""
    from sweeper.programs.build import Programs
    from sweeper.programs.data_spec import data_spec

    return Programs(replace(data_spec(config, data), dtype="float32"))


_LEFT = {
    "study": "whether it exists and has these options",
    "data": "whether it exists, its rows, and everything that must fit them",
    "model": "whether it exists, takes these keys and builds a model for the rows",
    "optimizer": "whether it exists, takes these keys and returns an optimizer",
    "train": "whether it exists and can be compiled",
}


def unchecked(config: StudyConfig) -> tuple[str, ...]:
    """A line for each user-defined function, class or program that was not checked."""
    lines = [f"{key} = '{name}': {_LEFT[_table(key)]}" for name, key in config.functions.items()]
    if not can_build_models(config):
        lines += [
            f"[{key}]: whether its rules match any arrays" for key in decays_of(config.optimizer)
        ]
    return tuple(lines)


def can_read_rows(config: StudyConfig) -> bool:
    """Whether the rows do not come from a user-defined function."""
    return not isinstance(config.data, FunctionTable)


def can_build_models(config: StudyConfig) -> bool:
    """Whether models can be built and trained for these rows without user code."""
    tables = {_table(key) for key in config.functions.values()}
    return can_read_rows(config) and tables <= {"study"}


def _table(key: str) -> str:
    return key.partition(".")[0]
