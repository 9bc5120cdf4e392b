"""How a model is trained: pure functions over a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from sweeper.config import Settings
from sweeper.config.settings import MetricRule
from sweeper.models.encoding import AnyArray
from sweeper.models.layer_loop import Workspace

Hparams = Mapping[str, Float[AnyArray, ""]]
Metrics = tuple[Float[Array, ""], ...]


Parameters = Mapping[str, Any]
"""The vector of each part of a model, by name; a plain model has one part with an empty name.

A user-defined program has a tuple of arrays instead of the vector.
"""


class BestWeights(eqx.Module):
    """The parameters after the best epoch so far, and its `score`, where higher is better.

    If optimizer states are saved, `training` is the whole state of the lane after that epoch.
    `untrained` is as in `State`.
    """

    model: Parameters
    score: Float[AnyArray, ""]
    training: State | None = None
    untrained: PyTree[Array] = None


class Patience(eqx.Module):
    """The `score` that an epoch must beat, and how many epochs in a row did not."""

    score: Float[AnyArray, ""]
    waited: Int[AnyArray, ""]


class State(eqx.Module):
    """What a lane carries from step to step: only arrays, so that lanes can be stacked.

    `model` are its parameters; `step` counts updates from 0. The others exist if the program needs
    them: `average` is the running average of the parameters, and `workspace`, only within an epoch,
    is what the last step left for the next one to overwrite. `untrained` are arrays of the model
    that steps compute but the optimizer does not move, such as running statistics.
    """

    model: Parameters
    optimizer: PyTree[Array]
    step: Int[Array, ""]
    average: Parameters | None = None
    kept: BestWeights | None = None
    patience: Patience | None = None
    workspace: Workspace | None = None
    untrained: PyTree[Array] = None


def measured_parameters(state: State) -> Parameters:
    """The parameters with which an epoch is measured."""
    return state.model if state.average is None else state.average


def judged_state(state: State) -> State:
    """`state` with the parameters by which its trial is judged, without alternatives."""
    model, untrained = measured_parameters(state), state.untrained
    if state.kept is not None:
        model, untrained = state.kept.model, state.kept.untrained
    return State(model, state.optimizer, state.step, untrained=untrained)


OfUse = Callable[[State], State]  # selects the leaves of a state that a purpose needs


def whole(state: State) -> State:
    """All of `state`, as training continues from it."""
    return state


def only_model(state: State) -> State:
    """The part of `state` by which its trial is judged, without what only training needs."""
    return replace(judged_state(state), optimizer=None, step=None)


def in_training(state: State) -> State:
    """The part of `state` that training needs to continue, without alternative best weights."""
    return replace(state, kept=None, patience=None)


def at_its_best(state: State) -> State:
    """The complete training state after the epoch by which a trial is judged."""
    kept = None if state.kept is None else state.kept.training
    return in_training(state) if kept is None else kept


class Batch(eqx.Module):
    """Examples and their targets; the leading axis is the example.

    For a fold, `x` is what other members of a trial see, times `scale` plus `shift`. `weights` are
    those of the examples; None if all count equally.
    """

    x: Float[AnyArray, "batch features"]
    y: AnyArray
    scale: Float[AnyArray, " features"] | None = None
    shift: Float[AnyArray, " features"] | None = None
    weights: Float[AnyArray, " batch"] | None = None


class LaneParameters(eqx.Module):
    """What differs between lanes of one program and does not change while they train.

    `numbers` are the traced hyperparameters and `sizes` the parts of the structure that the program
    gets at run time, both in the order of their names; `key` seeds the lane's own draws.
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
        """A lane with these values in NumPy arrays: few arrays compile faster than many numbers."""
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
    def traced(self) -> Mapping[str, AnyArray]:
        """The values that models get at run time: parts of their structure, and function arguments.

        An argument is `model.NAME`, that of a part `PART.model.NAME`.
        """
        sizes = {name: self.sizes[index] for index, name in enumerate(self.size_names)}
        numbers: dict[str, AnyArray] = {}
        for index, name in enumerate(self.names):
            table, *part, own = name.split(".")
            if table == "model":
                numbers[".".join([*part, table, own])] = self.numbers[index]
        return sizes | numbers


class Layout(Protocol):
    """How the trials of a class become lanes of its compiled program, and lanes trials.

    `metrics` names the measurements of each epoch, in order: first those of `step`, averaged over
    the epoch, then those of `evaluate` on the validation rows. `test_metrics` names those of
    `evaluate` on the test rows; empty without test rows.
    """

    @property
    def metrics(self) -> tuple[str, ...]: ...
    @property
    def test_metrics(self) -> tuple[str, ...]: ...

    def abstract(self) -> PyTree:
        """Shapes and dtypes of a lane's state, in its PyTree structure."""
        ...

    def init(self, number: int, settings: Settings, replicate: int = 0) -> PyTree:
        """The state of trial `number` before its first step, in NumPy arrays, at step 0."""
        ...

    def lane(self, number: int, settings: Settings, replicate: int = 0) -> PyTree:
        """The values of trial `number` that the program gets at run time."""
        ...

    def exact_abstract(self, settings: Settings) -> State:
        """Shapes and dtypes of a trial's own state, without padding."""
        ...

    def exact(self, state: PyTree, settings: Settings, of_use: OfUse = whole) -> State:
        """What `of_use` selects of a lane's `state`, without padding; both in NumPy arrays."""
        ...

    def padded(self, state: State, settings: Settings) -> PyTree:
        """The lane's state whose `exact` part is `state`."""
        ...


class Saver(Protocol):
    """Converts the states of trials to and from saved values, in the forms of Equinox and Optax."""

    def model(self, state: State) -> eqx.Module:
        """The model with the parameters of `state`."""
        ...

    def optimizer(self, settings: Settings) -> Any:
        """The optimizer of a trial, over the arrays of the model.

        One for each part by its name, if the model has several.
        """
        ...

    def opt_state(self, state: State, settings: Settings) -> PyTree[AnyArray]:
        """The state of that optimizer in `state`, without padding, in NumPy arrays."""
        ...

    def with_model(self, state: State, model: PyTree[AnyArray]) -> State:
        """`state`, a trial's own, with the arrays of this model as its parameters."""
        ...

    def with_opt_state(
        self, state: State, opt_state: PyTree[AnyArray], saved: Settings, settings: Settings
    ) -> State:
        """`state`, a trial's own, with what `opt_state` returned for a trial of `saved`.

        Their optimizers must be the same, their schedules need not be.
        """
        ...


@dataclass(frozen=True)
class Epochs:
    """What happens around the epochs of a lane: it keeps its best weights, and may end early.

    `metrics` names what an epoch measures. `has_clock` says that a step depends on its epoch,
    which lanes side by side then share. `workspace` makes what the steps of an epoch write over.
    """

    settings: Settings
    metrics: tuple[str, ...]
    has_clock: bool = False
    workspace: Callable[[], Workspace | None] = lambda: None

    @property
    def ends_early(self) -> bool:
        """Whether a lane may end before its last epoch."""
        return self.settings.stops is not None

    def begin(self, state: State, optimizer: PyTree[Array], dtype: str) -> State:
        """`state` at step 0, with this optimizer state and what else it needs from the start."""
        model: Any = jax.tree.map(jnp.asarray, state.model)
        worst, none_waited = jnp.asarray(-jnp.inf, dtype), jnp.zeros_like(state.step)
        begun = State(
            state.model,
            optimizer,
            state.step,
            average=model if self.settings.has("train.ema") else None,
            patience=None if self.settings.stops is None else Patience(worst, none_waited),
            untrained=state.untrained,
        )
        return (
            begun if self.settings.keeps is None else replace(begun, kept=self._kept(begun, worst))
        )

    def enter(self, state: State) -> State:
        """`state` as the steps of an epoch pass it on, with its workspace."""
        return replace(state, workspace=self.workspace())

    def remember(self, state: State, row: Float[Array, " metrics"], lane: LaneParameters) -> State:
        """`state` after an epoch that measured `row`."""
        kept, patience = state.kept, state.patience
        if kept is not None and self.settings.keeps is not None:
            score = self._score(row, self.settings.keeps)
            score = jnp.where(jnp.isfinite(score), score, -jnp.inf)
            # if nothing was finite so far, the last is as good as any
            is_best = (score > kept.score) | jnp.isneginf(kept.score)
            fresh = self._kept(state, score)
            kept = jax.tree.map(lambda new, old: jnp.where(is_best, new, old), fresh, kept)
        if patience is not None and self.settings.stops is not None:
            score = self._score(row, self.settings.stops)
            least = patience.score + lane.hparams["train.early_stop.min_delta"]
            is_better = jnp.isfinite(score) & (score > least)
            patience = Patience(
                jnp.where(is_better, score, patience.score),
                jnp.where(is_better, 0, patience.waited + 1),
            )
        return replace(state, kept=kept, patience=patience)

    def has_ended(self, state: State, lane: LaneParameters) -> Bool[Array, ""]:
        """Whether the lane ends after this epoch; only called if it may."""
        assert state.patience is not None, "only called if lanes may end early"
        return jnp.asarray(state.patience.waited >= lane.hparams["train.early_stop.patience"])

    def _kept(self, state: State, score: Float[Array, ""]) -> BestWeights:
        """What to keep of `state` after the best epoch so far."""
        training = in_training(state) if self.settings.saves else None
        best: Any = jax.tree.map(jnp.asarray, (measured_parameters(state), state.untrained))
        return BestWeights(best[0], score, training, best[1])

    def _score(self, row: Float[Array, " metrics"], rule: MetricRule) -> Array:
        """The score of an epoch; higher is better."""
        value = row[self.metrics.index(rule.metric)]
        return value if rule.maximize else -value


class Program(Protocol):
    """A way to train the trials of one structure, or of those that padding combines.

    `phases` are the programs of each phase alone; empty if one program serves all.
    """

    @property
    def layout(self) -> Layout: ...
    @property
    def saver(self) -> Saver: ...
    @property
    def epochs(self) -> Epochs: ...
    @property
    def phases(self) -> Mapping[str, Program]: ...

    def begin(self, state: State, lane: LaneParameters) -> State:
        """`state` at step 0 with what is created inside the compiled program: optimizer states."""
        ...

    def step(
        self, state: State, batch: Batch, lane: LaneParameters, epoch: Int[Array, ""]
    ) -> tuple[State, Metrics]:
        """One update, and the measurements on the batch before it; epochs count from 0 here."""
        ...

    def evaluate(self, state: State, data: Batch, lane: LaneParameters) -> Metrics:
        """The metrics of the model on `data`, without dropout."""
        ...
