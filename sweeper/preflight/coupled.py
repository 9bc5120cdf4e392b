"""Checks that a study's models can be trained by its objective on its data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from sweeper.config import StudyConfig
from sweeper.config.coupled import GENERATOR, CoupledTable
from sweeper.config.kinds import is_function
from sweeper.config.model import PartsTable
from sweeper.config.user_code import RAISED, LoadError, describe_error, load_function
from sweeper.data.dataset import Dataset
from sweeper.errors import Problem, StudyError
from sweeper.models.keys import fixed_key
from sweeper.models.user_network import hint_of
from sweeper.programs.build import Programs
from sweeper.programs.coupled import Coupled
from sweeper.programs.data_spec import data_spec
from sweeper.programs.program import Batch

_ROWS = 4
_Wrong = tuple[str, str]


def check_coupled(config: StudyConfig, data: Dataset) -> None:
    """Refuse a generator with wrong outputs, and an objective that cannot be compiled.

    User-defined functions are traced with shapes only; nothing is computed.

    Raises:
        StudyError: a size does not fit, the function does not exist, or its result cannot be used.
    """
    train = config.train
    if not isinstance(train, CoupledTable):
        return
    problems = [*_unfit_generator(config, train, data.n_features)]
    if not problems and is_function(train.objective):
        problems = [*_unfit_objective(config, train, data)]
    if problems:
        raise StudyError(problems)


def _unfit_generator(config: StudyConfig, train: CoupledTable, features: int) -> Iterator[Problem]:
    """Generated rows must have the size of the data's rows."""
    assert isinstance(config.model, PartsTable)
    if train.generates and config.model.parts[GENERATOR].out_size not in (None, features):
        size = config.model.parts[GENERATOR].out_size
        found = f"{size} outputs, but the rows of the data have {features} features"
        hint = "remove it: the data determines the size"
        yield config.problem(f"model.{GENERATOR}.out_size", found, hint)


def _unfit_objective(config: StudyConfig, train: CoupledTable, data: Dataset) -> Iterator[Problem]:
    try:
        function = load_function(train.objective, config.base_dir)
    except LoadError as error:
        yield config.problem("train.objective", error.found, error.hint)
        return
    if wrong := _unfit_function(config, train, data, function):
        yield config.problem("train.objective", *wrong)


def _unfit_function(
    config: StudyConfig, train: CoupledTable, data: Dataset, function: Callable[..., Any]
) -> _Wrong | None:
    """What was found and how to fix it; None if every model has its loss."""
    name, models = train.objective, train.models
    dtype = str(jax.dtypes.canonicalize_dtype(config.execution.precision))
    program = Programs(replace(data_spec(config, data), dtype=dtype)).exact(config.filled({}))
    assert isinstance(program, Coupled)
    vectors = program.abstract().model
    rows = [
        jax.ShapeDtypeStruct((_ROWS, *part.shape[1:]), jax.dtypes.canonicalize_dtype(part.dtype))
        for part in (data.x_train, data.y_train)
    ]
    given: list[Any] = []

    def losses(vectors: Any, x: Any, y: Any) -> Any:
        found = function(program.parts.model(vectors).parts, Batch(x, y), fixed_key())
        given[:] = [found]
        return found

    def total(vectors: Any, x: Any, y: Any) -> Any:
        return sum(losses(vectors, x, y).values())

    try:
        jax.eval_shape(losses, vectors, *rows)
        if wrong := _unfit_losses(name, given[0], models):
            return wrong
        jax.eval_shape(jax.grad(total), vectors, *rows)
    except RAISED as error:
        shapes = f"a batch whose x has shape {rows[0].shape} and y {rows[1].shape}"
        return f"'{name}' raised {describe_error(error)} for {shapes}", hint_of(
            error, "fix the function"
        )
    return None


def _unfit_losses(name: str, given: Any, models: tuple[str, ...]) -> _Wrong | None:
    losses = ", ".join(f'"{model}": ...' for model in models)
    hint = f"return {{{losses}}}"
    if not isinstance(given, Mapping):
        return f"'{name}' returns {type(given).__name__}, not the loss of each model by name", hint
    if {*given} != {*models}:
        names = ", ".join(map(str, given)) or "none"
        return f"'{name}' returns losses of {names}, but the models are {', '.join(models)}", hint
    for model in models:
        loss = given[model]
        shape, dtype = getattr(loss, "shape", None), getattr(loss, "dtype", None)
        if shape != () or dtype is None or not jnp.issubdtype(dtype, jnp.floating):
            what = type(loss).__name__ if shape is None else f"{dtype} of shape {shape}"
            found = f"'{name}' returns {what} as the loss of {model}"
            return found, "return one floating-point number per model, the mean over examples"
    return None
