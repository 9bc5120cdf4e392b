"""How a model is trained: three pure functions over a state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, UInt32

AnyArray = Array | np.ndarray
Hparams = Mapping[str, Float[AnyArray, ""]]
Metrics = tuple[Float[Array, ""], ...]


class State(eqx.Module):
    """What a lane carries from step to step: arrays alone, so that lanes can be stacked.

    `model` is the model with everything but its arrays left out; `step` counts updates from 0.
    """

    model: PyTree[Array]
    optimizer: PyTree[Array]
    step: Int[Array, ""]


class Batch(eqx.Module):
    """Examples and their targets; the leading axis is the example."""

    x: Float[AnyArray, "batch features"]
    y: AnyArray


class Lane(eqx.Module):
    """What differs between lanes of one program and does not change while they train.

    `hparams` are the traced hyperparameters by dotted key, `key` seeds the lane's own draws.
    """

    hparams: Hparams
    key: UInt32[AnyArray, " words"]


class Program(Protocol):
    """A way to train one structure. `metrics` names what is measured each epoch, in order:

    first what `step` gives, as a mean over the epoch, then what `evaluate` gives on the validation
    part. `test_metrics` name what `evaluate` gives on the test part; empty where there is none.
    """

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what is measured each epoch."""
        ...

    @property
    def test_metrics(self) -> tuple[str, ...]:
        """Names of what is measured on the test part."""
        ...

    def abstract(self) -> State:
        """Shapes and dtypes of the state, and with them its PyTree structure."""
        ...

    def init(self, number: int) -> State:
        """The state of trial `number` before its first step, in NumPy arrays, at step 0."""
        ...

    def begin(self, state: State, lane: Lane) -> State:
        """`state` at step 0 with what is made inside the compiled program: optimizer states."""
        ...

    def step(self, state: State, batch: Batch, lane: Lane) -> tuple[State, Metrics]:
        """One update, and what was measured on the batch before it."""
        ...

    def evaluate(self, state: State, data: Batch, lane: Lane) -> Metrics:
        """What the model scores on `data`, without dropout."""
        ...
