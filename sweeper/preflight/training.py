"""Checks that user-defined functions can be trained, by tracing their first step."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from sweeper.config import StudyConfig
from sweeper.config.user_code import RAISED, describe_error, imported_again
from sweeper.data.dataset import Dataset
from sweeper.errors import StudyError
from sweeper.models.elsewhere import elsewhere
from sweeper.models.traces import Trace, trace
from sweeper.models.user_network import KEY, UserNetwork, hint_of
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.programs.program import Batch


def check_training(config: StudyConfig, data: Dataset) -> None:
    """Refuse user-defined functions whose step cannot be compiled, or is not always the same.

    Traces the trial with the values as written; nothing is computed.

    Raises:
        StudyError: with what the step raised, or the function whose module gives a different
        program when it is imported again.
    """
    key = next((key for key in config.functions.values() if key.startswith("model.")), "train")
    try:
        traced = _traced_training(config, data)
    except RAISED as error:
        found = f"a training step of the model raised {describe_error(error)}"
        hint = hint_of(error, "build it of operations whose gradient JAX can compute")
        raise StudyError(config.problem(key, found, hint)) from error
    for module, key in _modules(config).items():
        again = _traced_again(config, data, module)
        if again is not None and not again.equals(traced):
            found = (
                f"the module '{module}' gives different results each time it is imported, so "
                "worker processes, resumed studies and predictions would differ"
            )
            fix = "draw with the key that is passed, or with a fixed seed: np.random.default_rng(0)"
            raise StudyError(config.problem(key, found, fix))


def _modules(config: StudyConfig) -> Mapping[str, str]:
    """The modules that programs are compiled from, each with a key that names a function."""
    found: dict[str, str] = {}
    for name, key in config.functions.items():
        if not key.startswith(("data.", "study.")):
            found.setdefault(name.partition(":")[0], key)
    return found


def _traced_again(config: StudyConfig, data: Dataset, module: str) -> Trace | None:
    """The training step with `module` imported a second time; None if that is not possible."""
    with elsewhere(), imported_again(module, config.base_dir), suppress(*RAISED):
        return _traced_training(config, data)
    return None


def _traced_training(config: StudyConfig, data: Dataset) -> Trace:
    """Fresh weights, one step and its evaluation."""
    settings, programs = config.filled(config.params_of("python")), programs_to_trace(config, data)
    program = programs.exact(settings)
    networks = programs.networks(settings).values()
    state, lane = program.layout.abstract(), program.layout.lane(0, settings)
    batch = abstract_batch(settings.train.batch_size, data)

    def trained(key: Any, state: Any, batch: Batch) -> object:
        fresh = [one.built(key) for one in networks if isinstance(one, UserNetwork)]
        begun = program.epochs.enter(program.begin(state, lane))
        moved, measured = program.step(begun, batch, lane, jnp.zeros((), jnp.int32))
        return fresh, moved, measured, program.evaluate(moved, batch, lane)

    return trace(trained, KEY, state, batch)


def programs_to_trace(config: StudyConfig, data: Dataset) -> Programs:
    """The programs of a study in a precision that JAX has now."""
    dtype = str(jax.dtypes.canonicalize_dtype(config.execution.precision))
    return Programs(replace(data_spec(config, data), dtype=dtype))


def abstract_batch(rows: int, data: Dataset) -> Batch:
    """The shapes of a batch with this many rows."""
    x, y = (
        jax.ShapeDtypeStruct((rows, *part.shape[1:]), jax.dtypes.canonicalize_dtype(part.dtype))
        for part in (data.x_train, data.y_train)
    )
    return Batch(x, y)  # type: ignore[arg-type]
