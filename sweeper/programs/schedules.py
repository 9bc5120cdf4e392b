"""Learning-rate schedules relative to a trial's number of steps; all their numbers are traced.

Optax has the same schedules, but needs the number of steps as a Python number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from sweeper.config import Settings
from sweeper.config.optimizer import SHAPES, OptimizersTable
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.program import Hparams

# the number of steps of a trial, in the numbers of its lane
STEPS = "optimizer.schedule.steps"

Number = Float[Array, ""] | float
Values = Mapping[str, Number]
Rate = Float[Array, ""]
Schedule = Callable[[Number, Number, Mapping[str, Number]], Rate]


def rate_of(settings: Settings, hparams: Values, step: Number) -> Number:
    """The learning rate of the update after `step` others."""
    lr, name = hparams["optimizer.lr"], settings.sole_optimizer.schedule.name
    if name == "constant":
        return lr
    shape = {
        key: hparams.get(f"optimizer.schedule.{key}", default)
        for key, default in SHAPES[name].items()
    }
    # in the precision of the study
    return lr * SCHEDULES[name](jnp.asarray(step, jnp.asarray(lr).dtype), hparams[STEPS], shape)


def cosine(step: Number, steps: Number, shape: Mapping[str, Number]) -> Rate:
    """From 1 to `end` along half a cosine (Loshchilov & Hutter 2017)."""
    return _along(1.0, shape["end"], step / steps)


def warmup_cosine(step: Number, steps: Number, shape: Mapping[str, Number]) -> Rate:
    """Linear from `start` to 1, then to `end` along half a cosine."""
    top = _top(steps, shape)
    rising = shape["start"] + (1 - shape["start"]) * step / jnp.maximum(top, 1)
    falling = _along(1.0, shape["end"], (step - top) / jnp.maximum(steps - top, 1))
    return jnp.where(step < top, rising, falling)


def flat_cosine(step: Number, steps: Number, shape: Mapping[str, Number]) -> Rate:
    """1, and in the last steps to `end` along half a cosine."""
    flat = jnp.round(steps * shape["flat"])
    return _along(1.0, shape["end"], (step - flat) / jnp.maximum(steps - flat, 1))


def exponential(step: Number, steps: Number, shape: Mapping[str, Number]) -> Rate:
    """From 1 to `end`, by the same factor in each step."""
    return jnp.power(shape["end"], step / steps)


def one_cycle(step: Number, steps: Number, shape: Mapping[str, Number]) -> Rate:
    """From `start` to 1 and on to `end`, each along half a cosine (Smith & Topin 2018)."""
    top = _top(steps, shape)
    rising = _along(shape["start"], 1.0, step / jnp.maximum(top, 1))
    falling = _along(1.0, shape["end"], (step - top) / jnp.maximum(steps - top, 1))
    return jnp.where(step < top, rising, falling)


SCHEDULES: Mapping[str, Schedule] = {
    "cosine": cosine,
    "warmup_cosine": warmup_cosine,
    "flat_cosine": flat_cosine,
    "exponential": exponential,
    "one_cycle": one_cycle,
}


def _top(steps: Number, shape: Mapping[str, Number]) -> Rate:
    """The step with the highest rate."""
    return jnp.round(steps * shape["warmup"])


def _along(first: Number, last: Number, share: Number) -> Rate:
    """The value after this share of half a cosine from `first` to `last`."""
    return last + (first - last) * 0.5 * (1 + jnp.cos(jnp.pi * jnp.clip(jnp.asarray(share), 0, 1)))


def hparams_of(part: str, hparams: Hparams, settings: Settings) -> dict[str, Any]:
    """The numbers for the optimizer and the network of `part`, from those of its lane."""
    if not part:
        return dict(hparams)
    is_own = isinstance(settings.optimizer, OptimizersTable)
    prefixes = {f"model.{part}.": "model."}
    prefixes |= {f"optimizer.{part}." if is_own else "optimizer.": "optimizer."}
    return {
        general + key.removeprefix(prefix): value
        for prefix, general in prefixes.items()
        for key, value in hparams.items()
        if key.startswith(prefix)
    }


def schedule_steps(settings: Settings, data: DataSpec) -> dict[str, float]:
    """The steps that a lane trains, for each optimizer whose rate depends on them."""
    optimizer = settings.optimizer
    tables = {"optimizer": optimizer}
    if isinstance(optimizer, OptimizersTable):
        tables = {f"optimizer.{part}": table for part, table in optimizer.by_part.items()}
    steps = settings.train.epochs * (data.train_rows // settings.train.batch_size)
    return {
        STEPS.replace("optimizer", key, 1): float(steps)
        for key, table in tables.items()
        if table.schedule.name != "constant"  # type: ignore[union-attr]
    }
