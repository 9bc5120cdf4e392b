"""How a model is trained: pure functions over a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from sweeper.config import Settings
from sweeper.models.layer_loop import Workspace

AnyArray = Array | np.ndarray
Hparams = Mapping[str, Float[AnyArray, ""]]
Metrics = tuple[Float[Array, ""], ...]


Parameters = Mapping[str, Any]
"""The vector of each part of a model, by name; a plain model is a part without one.

A user-defined program has a tuple of arrays instead of the vector.
"""


class BestWeights(eqx.Module):
    """The parameters after the best epoch so far, and its `score`, of which more is better.

    Where optimizer states are saved, `training` is the whole state of the lane after that epoch.
    """

    model: Parameters
    score: Float[AnyArray, ""]
    training: State | None = None


class Patience(eqx.Module):
    """The `score` that an epoch has to beat, and how many epochs in a row did not."""

    score: Float[AnyArray, ""]
    waited: Int[AnyArray, ""]


class State(eqx.Module):
    """What a lane carries from step to step: arrays alone, so that lanes can be stacked.

    `model` are its parameters; `step` counts updates from 0. The others are there
    where the program has a use for them: `average` is the running average of the parameters, and
    `room`, within an epoch alone, what the last step left that the next one writes over.
    """

    model: Parameters
    optimizer: PyTree[Array]
    step: Int[Array, ""]
    average: Parameters | None = None
    kept: BestWeights | None = None
    patience: Patience | None = None
    room: Workspace | None = None


def measured(state: State) -> Parameters:
    """The parameters that an epoch is measured with."""
    return state.model if state.average is None else state.average


def _judged(state: State) -> Parameters:
    return measured(state) if state.kept is None else state.kept.model


def restored(state: State) -> State:
    """`state` with the parameters that its trial is judged by, and nothing to choose from."""
    return State(_judged(state), state.optimizer, state.step)


OfUse = Callable[[State], State]  # takes of a state what it is wanted for


def whole(state: State) -> State:
    """All of `state`, as training goes on from it."""
    return state


def only_model(state: State) -> State:
    """What of `state` its trial is judged by, without what training alone has use for."""
    return State(_judged(state), None, None)  # type: ignore[arg-type]


def in_training(state: State) -> State:
    """What training needs to go on from, without what it was to choose from."""
    return replace(state, kept=None, patience=None)


def at_its_best(state: State) -> State:
    """All of the training state after the epoch that a trial is judged by."""
    kept = None if state.kept is None else state.kept.training
    return in_training(state) if kept is None else kept


class Batch(eqx.Module):
    """Examples and their targets; the leading axis is the example.

    Of a fold, `x` is what other members of a trial see times `scale` plus `shift`.
    """

    x: Float[AnyArray, "batch features"]
    y: AnyArray
    scale: Float[AnyArray, " features"] | None = None
    shift: Float[AnyArray, " features"] | None = None


class LaneParameters(eqx.Module):
    """What differs between lanes of one program and does not change while they train.

    `numbers` are the traced hyperparameters and `sizes` what of the structure the program is told
    at run time, both in the order of their names; `key` seeds the lane's own draws.
    """

    numbers: Float[AnyArray, " hparams"]
    sizes: Int[AnyArray, " traced"]
    key: UInt32[AnyArray, " words"]
    names: tuple[str, ...] = eqx.field(static=True)
    size_names: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        hparams: Mapping[str, float],
        traced: Mapping[str, int],
        key: UInt32[AnyArray, " words"],
        dtype: str,
    ) -> LaneParameters:
        """A lane of these values, in NumPy arrays: few arrays compile faster than many numbers."""
        return cls(
            numbers=np.array(list(hparams.values()), dtype),
            sizes=np.array(list(traced.values()), np.int32),
            key=key,
            names=tuple(hparams),
            size_names=tuple(traced),
        )

    @property
    def hparams(self) -> Hparams:
        """The traced hyperparameters by dotted key."""
        return {name: self.numbers[index] for index, name in enumerate(self.names)}

    @property
    def traced(self) -> Mapping[str, Int[AnyArray, ""]]:
        """What of the structure the program is told at run time."""
        return {name: self.sizes[index] for index, name in enumerate(self.size_names)}


class Layout(Protocol):
    """How the trials of a class become lanes of its compiled program, and lanes trials.

    `metrics` names what is measured each epoch, in order: first what `step` gives, as a mean over
    the epoch, then what `evaluate` gives on the validation part. `test_metrics` name what
    `evaluate` gives on the test part; empty where there is none.
    """

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what is measured each epoch."""
        ...

    @property
    def test_metrics(self) -> tuple[str, ...]:
        """Names of what is measured on the test part."""
        ...

    def abstract(self) -> PyTree:
        """Shapes and dtypes of a lane's state, and with them its PyTree structure."""
        ...

    def init(self, number: int, settings: Settings, replicate: int = 0) -> PyTree:
        """The state of trial `number` before its first step, in NumPy arrays, at step 0."""
        ...

    def lane(self, number: int, settings: Settings, replicate: int = 0) -> PyTree:
        """What the program is told of trial `number` at run time."""
        ...

    def exact_abstract(self, settings: Settings) -> State:
        """Shapes and dtypes of a trial's own state, without padding."""
        ...

    def exact(self, state: PyTree, settings: Settings, of_use: OfUse = whole) -> State:
        """A trial's own part of what is `of_use` in its lane's `state`, both in NumPy arrays."""
        ...

    def padded(self, state: State, settings: Settings) -> PyTree:
        """The lane's state whose `exact` part is `state`."""
        ...


class Program(Layout, Protocol):
    """A way to train the trials of one structure, or of those that padding brings together."""

    def abstract(self) -> State: ...

    def init(self, number: int, settings: Settings, replicate: int = 0) -> State: ...

    def lane(self, number: int, settings: Settings, replicate: int = 0) -> LaneParameters: ...

    def padded(self, state: State, settings: Settings) -> State: ...

    def model(self, state: State) -> eqx.Module:
        """The model with the parameters of `state`, as Equinox has it."""
        ...

    def optimizer(self, settings: Settings) -> Any:
        """The optimizer of a trial as Optax has it, over the arrays of the model.

        One for each part by its name, where the model has several.
        """
        ...

    def opt_state(self, state: State, settings: Settings) -> PyTree[AnyArray]:
        """What that optimizer's state is in `state`, without padding, in NumPy arrays."""
        ...

    def with_model(self, state: State, model: PyTree[AnyArray]) -> State:
        """`state`, a trial's own, with the arrays of this model as its parameters."""
        ...

    def with_opt_state(
        self, state: State, opt_state: PyTree[AnyArray], saved: Settings, settings: Settings
    ) -> State:
        """`state`, a trial's own, with what `opt_state` gave for a trial of `saved`.

        The optimizers of both are the same, their schedules need not be.
        """
        ...

    def begin(self, state: State, lane: LaneParameters) -> State:
        """`state` at step 0 with what is made inside the compiled program: optimizer states."""
        ...

    def roomy(self, state: State) -> State:
        """`state` as the steps of an epoch hand it on, with the room that they need."""
        ...

    def step(
        self, state: State, batch: Batch, lane: LaneParameters, epoch: Int[Array, ""]
    ) -> tuple[State, Metrics]:
        """One update, and what was measured on the batch before it; epochs count from 0 here."""
        ...

    def evaluate(self, state: State, data: Batch, lane: LaneParameters) -> Metrics:
        """What the model scores on `data`, without dropout."""
        ...

    @property
    def has_clock(self) -> bool:
        """Whether what a step does depends on its epoch, which lanes side by side then share."""
        ...

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that have a compiled program each; empty where one program serves all."""
        ...

    def in_phase(self, name: str) -> Program:
        """The program of one of these phases alone."""
        ...

    @property
    def ends_early(self) -> bool:
        """Whether a lane may end before its last epoch."""
        ...

    def remember(self, state: State, row: Float[Array, " metrics"], lane: LaneParameters) -> State:
        """`state` after an epoch that measured `row`: what was best of it is kept."""
        ...

    def has_ended(self, state: State, lane: LaneParameters) -> Bool[Array, ""]:
        """Whether the lane ends after this epoch; asked where it may."""
        ...
