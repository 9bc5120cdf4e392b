"""What every program does around its epochs: begin, keep the best weights, end early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from sweeper.config import Settings
from sweeper.config.settings import Judge
from sweeper.programs.program import Kept, Lane, Patience, State, in_training, measured


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


def stepped(state: State, model: PyTree[Array], optimizer: PyTree[Array], lane: Lane) -> State:
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
    lane: Lane,
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


def has_ended(state: State, lane: Lane) -> Bool[Array, ""]:
    """Whether the lane ends after this epoch; asked where it may."""
    assert state.patience is not None, "asked where lanes may end early"
    return jnp.asarray(state.patience.waited >= lane.hparams["train.early_stop.patience"])


def _kept(settings: Settings, state: State, score: Float[Array, ""]) -> Kept:
    """What is kept of `state` after an epoch that is the best so far."""
    training = in_training(state) if settings.saves else None
    return Kept(jax.tree.map(jnp.asarray, measured(state)), score, training)


def _score(row: Float[Array, " metrics"], metrics: Sequence[str], judge: Judge) -> Array:
    """What an epoch is worth, of which more is better."""
    value = row[metrics.index(judge.metric)]
    return value if judge.maximize else -value
