"""What of a trial's state a saved model holds, and how it is read back into plain objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.programs.blank import blank_of
from sweeper.programs.leaves import parameters_of
from sweeper.programs.program import Program, State, restored
from sweeper.programs.saved_file import SavedFile
from sweeper.programs.tensors import named

# the model by which the trial is judged; that which is trained where it is another, its average
# being measured; the state of the optimizer
MODEL, TRAINED, OPTIMIZER = "model", "trained", "optimizer"


@dataclass(frozen=True, slots=True)
class PlainState:
    """A trial as plain Equinox and Optax have it.

    `opt_state` goes with `trained`, which is `model` itself unless an average is measured.
    """

    model: eqx.Module
    trained: eqx.Module
    optimizer: optax.GradientTransformation
    opt_state: PyTree | None


def tensors_of(program: Program, settings: Settings, state: State) -> dict[str, NDArray[Any]]:
    """The leaves of a trial's own `state`, as `at_its_best` or `only_model` gives it."""
    tensors = named(parameters_of(program.model(restored(state))), MODEL)
    if state.optimizer is not None:
        tensors |= named(program.opt_state(state, settings), OPTIMIZER)
    if state.average is not None:
        its = State(state.model, state.optimizer, state.step)
        tensors |= named(parameters_of(program.model(its)), TRAINED)
    return tensors


def plain_state_of(file: SavedFile, program: Program, settings: Settings) -> PlainState:
    """What is in a saved model whose trial `program` would train.

    Raises:
        SetupError: a leaf is missing, is one too many, or does not fit.
    """
    blank = blank_of(program.abstract())
    like, rest = eqx.partition(program.model(blank), eqx.is_inexact_array)

    def model(under: str) -> eqx.Module:
        return eqx.combine(_on_device(file.tree(under, like)), rest)

    judged, opt_state = model(MODEL), None
    if file.record["has_optimizer"]:
        opt_state = _on_device(file.tree(OPTIMIZER, program.opt_state(blank, settings)))
    return PlainState(
        model=judged,
        trained=model(TRAINED) if file.has(TRAINED) else judged,
        optimizer=program.optimizer(settings),
        opt_state=opt_state,
    )


def _on_device(tree: PyTree) -> PyTree:
    return jax.tree.map(jnp.asarray, tree)
