"""Whether user-defined models can be trained: their first step is traced as it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import jax
import jax.numpy as jnp

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.errors import StudyError
from sweeper.models.untraceable import mend_of
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.programs.program import Batch
from sweeper.trial import Scalar
from sweeper.user_code import RAISED, told


def check_training(config: StudyConfig, data: Dataset) -> None:
    """Refuse a user-defined model of which no step can be compiled, as it has no gradient.

    The trial with the values that are written is traced; nothing is computed.

    Raises:
        StudyError: with what the step raised.
    """
    key = next(key for key in config.functions.values() if key.startswith("model."))
    try:
        _trace_training(config, data)
    except RAISED as error:
        found = f"a training step of the model raised {told(error)}"
        mend = mend_of(error, "build it of operations whose gradient JAX can compute")
        raise StudyError(config.problem(key, found, mend)) from error


def _trace_training(config: StudyConfig, data: Dataset) -> None:
    dtype = str(jax.dtypes.canonicalize_dtype(config.execution.precision))
    settings = config.filled(_python(config))
    program = Programs(replace(data_spec(config, data), dtype=dtype)).exact(settings)
    state, lane = program.abstract(), program.lane(0, settings)
    batch = _batch(settings.train.batch_size, data)

    def trained(state: object, batch: Batch) -> object:
        moved, _ = program.step(program.roomy(state), batch, lane, jnp.zeros((), jnp.int32))  # type: ignore[arg-type]
        return program.evaluate(moved, batch, lane)

    jax.eval_shape(trained, state, batch)


def _python(config: StudyConfig) -> Mapping[str, Scalar]:
    """The parameters of a trial whose model is user-defined."""
    kind = config.search.get("model.kind")
    return {} if kind is None else {kind.column("model.kind"): "python"}


def _batch(rows: int, data: Dataset) -> Batch:
    """The shapes of a batch of so many rows."""
    x, y = (
        jax.ShapeDtypeStruct((rows, *part.shape[1:]), jax.dtypes.canonicalize_dtype(part.dtype))
        for part in (data.x_train, data.y_train)
    )
    return Batch(x, y)  # type: ignore[arg-type]
