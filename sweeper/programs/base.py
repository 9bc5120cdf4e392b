"""What all programs share: begin, keep the best weights, end early, and evaluate in blocks.

Evaluating all rows at once would take memory in proportion to them, more than a processor's
caches hold, so rows are evaluated a block at a time.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from sweeper.config import Settings
from sweeper.config.settings import MetricRule
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.program import (
    AnyArray,
    BestWeights,
    LaneParameters,
    Parameters,
    Patience,
    State,
    in_training,
    measured,
)
from sweeper.scheduler.cost import MEASURED_ROWS


def begun(settings: Settings, state: State, optimizer: PyTree[Array], dtype: str) -> State:
    """`state` at step 0, with this state of its optimizer and what else it carries from there."""
    model: Any = jax.tree.map(jnp.asarray, state.model)
    worst, none_waited = jnp.asarray(-jnp.inf, dtype), jnp.zeros_like(state.step)
    begun = State(
        state.model,
        optimizer,
        state.step,
        average=model if settings.has("train.ema") else None,
        patience=None if settings.stops is None else Patience(worst, none_waited),
    )
    return begun if settings.keeps is None else replace(begun, kept=_kept(settings, begun, worst))


def stepped(
    state: State, model: Parameters, optimizer: PyTree[Array], lane: LaneParameters
) -> State:
    """`state` after an update that gave `model` and `optimizer`."""
    average = state.average
    if average is not None:
        decay = lane.hparams["train.ema"]
        average = jax.tree.map(lambda old, new: decay * old + (1 - decay) * new, average, model)
    return State(model, optimizer, state.step + 1, average, state.kept, state.patience)


def remembered(
    settings: Settings,
    metrics: Sequence[str],
    state: State,
    row: Float[Array, " metrics"],
    lane: LaneParameters,
) -> State:
    """`state` after an epoch that measured `row`, which has the order of `metrics`."""
    kept, patience = state.kept, state.patience
    if kept is not None and settings.keeps is not None:
        score = _score(row, metrics, settings.keeps)
        score = jnp.where(jnp.isfinite(score), score, -jnp.inf)
        # where nothing was finite so far, the last is as good as any
        is_best = (score > kept.score) | jnp.isneginf(kept.score)
        fresh = _kept(settings, state, score)
        kept = jax.tree.map(lambda new, old: jnp.where(is_best, new, old), fresh, kept)
    if patience is not None and settings.stops is not None:
        score = _score(row, metrics, settings.stops)
        least = patience.score + lane.hparams["train.early_stop.min_delta"]
        is_better = jnp.isfinite(score) & (score > least)
        patience = Patience(
            jnp.where(is_better, score, patience.score),
            jnp.where(is_better, 0, patience.waited + 1),
        )
    return replace(state, kept=kept, patience=patience)


def has_ended(state: State, lane: LaneParameters) -> Bool[Array, ""]:
    """Whether the lane ends after this epoch; asked where it may."""
    assert state.patience is not None, "asked where lanes may end early"
    return jnp.asarray(state.patience.waited >= lane.hparams["train.early_stop.patience"])


def _kept(settings: Settings, state: State, score: Float[Array, ""]) -> BestWeights:
    """What is kept of `state` after an epoch that is the best so far."""
    training = in_training(state) if settings.saves else None
    return BestWeights(jax.tree.map(jnp.asarray, measured(state)), score, training)


def _score(row: Float[Array, " metrics"], metrics: Sequence[str], judge: MetricRule) -> Array:
    """What an epoch is worth, of which more is better."""
    value = row[metrics.index(judge.metric)]
    return value if judge.maximize else -value


@dataclass(frozen=True)
class Tabled(ABC):
    """A program of this package; see `Program`. Every epoch is like another unless it says so.

    `settings` are those of any trial of the class; what they differ in is in each trial's lane.
    """

    settings: Settings
    data: DataSpec

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.settings.train.metric_names

    @property
    def test_metrics(self) -> tuple[str, ...]:
        return self.settings.train.test_metric_names if self.data.has_test else ()

    @property
    def has_clock(self) -> bool:
        return False

    @property
    def phases(self) -> tuple[str, ...]:
        return ()

    def in_phase(self, name: str) -> Self:
        raise AssertionError("a program without phases")

    def roomy(self, state: State) -> State:
        return state

    @property
    def ends_early(self) -> bool:
        return self.settings.stops is not None

    def remember(self, state: State, row: Float[Array, " metrics"], lane: LaneParameters) -> State:
        return remembered(self.settings, self.metrics, state, row, lane)

    def has_ended(self, state: State, lane: LaneParameters) -> Bool[Array, ""]:
        return has_ended(state, lane)


Outputs = TypeVar("Outputs")


def in_blocks(
    outputs: Callable[[Float[Array, "block features"]], Outputs],
    x: Float[AnyArray, "rows features"],
) -> Outputs:
    """`outputs` of all rows, which gives arrays with an element for each row that it is given.

    Up to a block of rows is given as it is. None may depend on the others of its block.
    """
    x = jnp.asarray(x)
    if len(x) <= MEASURED_ROWS:
        return outputs(x)
    of_block = jax.eval_shape(outputs, x[:MEASURED_ROWS])
    blank: Any = jax.tree.map(lambda one: jnp.zeros((len(x), *one.shape[1:]), one.dtype), of_block)

    def block(index: Array, found: Any) -> Any:
        # the last one begins before the end of that before it, to be as long
        start = jnp.minimum(index * MEASURED_ROWS, len(x) - MEASURED_ROWS)
        own = outputs(lax.dynamic_slice_in_dim(x, start, MEASURED_ROWS))
        return jax.tree.map(
            lambda every, part: lax.dynamic_update_slice_in_dim(every, part, start, 0), found, own
        )

    return lax.fori_loop(0, -(-len(x) // MEASURED_ROWS), block, blank)
