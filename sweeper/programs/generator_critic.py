"""A generator against a critic: their objectives, and metrics of the generated rows.

`wgan` is the dual form of the Wasserstein distance (Arjovsky, Chintala & Bottou 2017, eq. 2 and
algorithm 1), which limits the critic's slope by clipping its weights; `wgan_gp` penalises the slope
instead (Gulrajani et al. 2017, algorithm 1). `gan` is the game of Goodfellow et al. 2014 with the
non-saturating loss of the generator (section 3); its critic returns log-odds. Metrics are in the
data's own units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from sweeper.config.coupled import COVERED, CRITIC, GENERATOR, WASSERSTEIN
from sweeper.config.settings import GRADIENT_PENALTY
from sweeper.models.part_networks import PartNetworks
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.program import LaneParameters
from sweeper.trial import generator

Scores = Float[Array, "batch one"]
Critic = Callable[[Float[Array, "batch features"]], Scores]


@dataclass(frozen=True, slots=True)
class Objective:
    """The losses of generator and critic, as functions of the scores of generated and real rows."""

    critic: Callable[[Scores, Scores], Float[Array, ""]]
    generator: Callable[[Scores], Float[Array, ""]]
    penalised: bool = False
    clipped: bool = False


def _wgan_critic_loss(generated: Scores, real: Scores) -> Float[Array, ""]:
    return jnp.mean(generated) - jnp.mean(real)


def _wgan_generator_loss(generated: Scores) -> Float[Array, ""]:
    return -jnp.mean(generated)


def _gan_critic_loss(generated: Scores, real: Scores) -> Float[Array, ""]:
    return jnp.mean(jax.nn.softplus(generated)) + jnp.mean(jax.nn.softplus(-real))


def _gan_generator_loss(generated: Scores) -> Float[Array, ""]:
    return jnp.mean(jax.nn.softplus(-generated))


OBJECTIVES: Mapping[str, Objective] = {
    "wgan_gp": Objective(_wgan_critic_loss, _wgan_generator_loss, penalised=True),
    "wgan": Objective(_wgan_critic_loss, _wgan_generator_loss, clipped=True),
    "gan": Objective(_gan_critic_loss, _gan_generator_loss),
}


def gradient_penalty(critic: Critic, rows: Float[Array, "batch features"]) -> Float[Array, ""]:
    """The mean squared difference from 1 of the critic's slope at each row."""
    # rows do not affect each other, so the gradient of the sum contains that of each row
    slopes = jax.grad(lambda rows: jnp.sum(critic(rows)))(rows)
    squares = jnp.sum(jnp.square(slopes), axis=-1)
    # a square root has no gradient at 0, where all units of a critic may be inactive
    is_flat = squares == 0
    norms = jnp.where(is_flat, 0, jnp.sqrt(jnp.where(is_flat, 1, squares)))
    return jnp.mean(jnp.square(norms - 1))


def interpolate(
    generated: Float[Array, "batch features"],
    real: Float[Array, "batch features"],
    share: Float[Array, " batch"],
) -> Float[Array, "batch features"]:
    """Rows on the lines from generated to real ones, each with its `share` of the real one."""
    return share[:, None] * real + (1 - share[:, None]) * generated


Rows = Float[Array, "rows features"]
Losses = Mapping[str, Float[Array, ""]]

# purposes of random draws with the key of a game
_NOISE, _SHARES, _GENERATOR_UNITS, _CRITIC_UNITS = range(4)


@dataclass(frozen=True)
class Game:
    """As many generated rows as `real` ones, made from noise with `key`.

    With `in_training`, models use dropout if they have it.
    """

    objective: Objective
    parts: PartNetworks
    latent_size: int
    real: Rows
    lane: LaneParameters
    key: PRNGKeyArray
    in_training: bool = True

    def generated(self, generator: Any) -> Rows:
        """The rows that the generator makes from the noise."""
        noise = noise_of(self.key, len(self.real), self.latent_size, self.real.dtype)
        return self._output(GENERATOR, generator, noise, _GENERATOR_UNITS)

    def generator_loss(self, rows: Rows, critic: Any) -> Float[Array, ""]:
        """The loss of the generator that made `rows`."""
        return self.objective.generator(self._scores(critic, rows))

    def critic_and_generator_losses(self, critic: Any, rows: Rows) -> Losses:
        """Both losses from one run of the critic, over generated `rows` and the real ones."""
        scores = self._scores(critic, jnp.concatenate([rows, self.real]))
        of_rows, of_real = scores[: len(rows)], scores[len(rows) :]
        loss = self.objective.critic(of_rows, of_real)
        if self.objective.penalised:
            share = jax.random.uniform(self._key(_SHARES), (len(rows),), rows.dtype)
            mixed = interpolate(rows, self.real, share)
            weight = jnp.asarray(self.lane.hparams.get("train.gradient_penalty", GRADIENT_PENALTY))
            loss = loss + weight * gradient_penalty(lambda x: self._scores(critic, x), mixed)
        return {CRITIC: loss, GENERATOR: self.objective.generator(of_rows)}

    def losses(self, models: Mapping[str, Any]) -> Losses:
        """Both losses, in a form whose gradients can all be taken."""
        rows, critic = self.generated(models[GENERATOR]), models[CRITIC]
        both = self.critic_and_generator_losses(critic, lax.stop_gradient(rows))
        return {**both, GENERATOR: self.generator_loss(rows, critic)}

    def _scores(self, critic: Any, rows: Rows) -> Float[Array, "batch one"]:
        return self._output(CRITIC, critic, rows, _CRITIC_UNITS)

    def _output(self, name: str, model: Any, given: Array, draw: int) -> Array:
        key = self._key(draw) if self.in_training else None
        return self.parts.output(name, model, given, self.lane.traced, key, self.lane.hparams)

    def _key(self, draw: int) -> PRNGKeyArray:
        return jax.random.fold_in(self.key, draw)


def noise_of(key: PRNGKeyArray, rows: int, size: int, dtype: DTypeLike) -> Float[Array, "rows z"]:
    """The noise that this many rows are generated from."""
    return jax.random.normal(jax.random.fold_in(key, _NOISE), (rows, size), dtype)


Measure = Callable[[Rows, Rows], Float[Array, ""]]

N_DIRECTIONS = 64
# a mode is covered if this share of the generated rows is within the radius of its mean
COVERED_SHARE, COVERED_RADIUS = 0.01, 0.25


def directions(seed: int, n_features: int) -> Float[np.ndarray, "directions features"]:
    """Uniformly drawn directions, the same for all trials of a study."""
    drawn = generator(seed, "directions").standard_normal((N_DIRECTIONS, n_features))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def _sliced_wasserstein(data: DataSpec) -> Measure:
    """The sliced 1-Wasserstein distance (Bonneel, Rabin, Peyré & Pfister 2015).

    The mean over directions of the distance between the projections of rows on them, which in one
    dimension is the mean difference of the sorted values.
    """

    def distance(generated: Rows, real: Rows) -> Float[Array, ""]:
        along = jnp.asarray(directions(data.seed, data.in_size), generated.dtype).T
        # directions come first, since sorting is faster along the last axis
        sorted_ = (jnp.sort((rows @ along).T, axis=-1) for rows in (generated, real))
        return jnp.mean(jnp.abs(next(sorted_) - next(sorted_)))

    return distance


def _modes_covered(data: DataSpec) -> Measure:
    """How many modes of the mixture are covered by generated rows."""

    def covered(generated: Rows, real: Rows) -> Float[Array, ""]:
        means = jnp.asarray(data.mode_means, generated.dtype)
        squares = jnp.sum(jnp.square(generated[:, None] - means), axis=-1)
        shares = jnp.mean(squares <= COVERED_RADIUS**2, axis=0, dtype=generated.dtype)
        count = jnp.sum(shares >= COVERED_SHARE, dtype=generated.dtype)
        # with weights that are NaN, the generated rows are NaN, not missing
        return jnp.where(jnp.all(jnp.isfinite(generated)), count, jnp.nan)

    return covered


_MEASURES: Mapping[str, Callable[[DataSpec], Measure]] = {
    WASSERSTEIN: _sliced_wasserstein,
    COVERED: _modes_covered,
}


def measure_of(name: str, data: DataSpec) -> Measure:
    """The metric with this name, of generated rows and as many rows of the data."""
    return _MEASURES[name](data)
