"""A generator against a critic, over one batch: what each gives, and what each minimises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from sweeper.config.coupled import CRITIC, GENERATOR
from sweeper.config.defaults import GRADIENT_PENALTY
from sweeper.models.part_networks import PartNetworks
from sweeper.programs.objectives import Objective, between, steepness
from sweeper.programs.program import Lane

Rows = Float[Array, "rows features"]
Losses = Mapping[str, Float[Array, ""]]

# what is drawn with the key of a game
_NOISE, _SHARES, _GENERATOR_UNITS, _CRITIC_UNITS = range(4)


@dataclass(frozen=True)
class Game:
    """As many generated rows as there are `real` ones, of noise that `key` seeds.

    `in_training` the models leave out units where they have dropout.
    """

    objective: Objective
    parts: PartNetworks
    latent_size: int
    real: Rows
    lane: Lane
    key: PRNGKeyArray
    in_training: bool = True

    def generated(self, generator: Any) -> Rows:
        """What the generator makes of the noise."""
        noise = noise_of(self.key, len(self.real), self.latent_size, self.real.dtype)
        return self._output(GENERATOR, generator, noise, _GENERATOR_UNITS)

    def liked(self, rows: Rows, critic: Any) -> Float[Array, ""]:
        """The loss of who made `rows`."""
        return self.objective.generator(self._scores(critic, rows))

    def judged(self, critic: Any, rows: Rows) -> Losses:
        """Both losses from one run of the critic, over generated `rows` and the real ones."""
        scores = self._scores(critic, jnp.concatenate([rows, self.real]))
        of_rows, of_real = scores[: len(rows)], scores[len(rows) :]
        loss = self.objective.critic(of_rows, of_real)
        if self.objective.penalised:
            share = jax.random.uniform(self._key(_SHARES), (len(rows),), rows.dtype)
            mixed = between(rows, self.real, share)
            weight = jnp.asarray(self.lane.hparams.get("train.gradient_penalty", GRADIENT_PENALTY))
            loss = loss + weight * steepness(lambda x: self._scores(critic, x), mixed)
        return {CRITIC: loss, GENERATOR: self.objective.generator(of_rows)}

    def losses(self, models: Mapping[str, Any]) -> Losses:
        """Both losses, of which any gradient may be taken."""
        rows, critic = self.generated(models[GENERATOR]), models[CRITIC]
        judged = self.judged(critic, lax.stop_gradient(rows))
        return {**judged, GENERATOR: self.liked(rows, critic)}

    def _scores(self, critic: Any, rows: Rows) -> Float[Array, "batch one"]:
        return self._output(CRITIC, critic, rows, _CRITIC_UNITS)

    def _output(self, name: str, model: Any, given: Array, draw: int) -> Array:
        key = self._key(draw) if self.in_training else None
        return self.parts.output(name, model, given, self.lane.traced, key, self.lane.hparams)

    def _key(self, draw: int) -> PRNGKeyArray:
        return jax.random.fold_in(self.key, draw)


def noise_of(key: PRNGKeyArray, rows: int, size: int, dtype: DTypeLike) -> Float[Array, "rows z"]:
    """What so many rows are generated of."""
    return jax.random.normal(jax.random.fold_in(key, _NOISE), (rows, size), dtype)
