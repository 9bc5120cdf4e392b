"""What a generator and a critic minimise, of the critic's numbers for generated and real rows.

`wgan` is the dual form of the Wasserstein distance (Arjovsky, Chintala & Bottou 2017, eq. 2 and
algorithm 1), whose critic is kept from growing steep by clipping its weights; `wgan_gp` penalises
its slope instead (Gulrajani et al. 2017, algorithm 1). `gan` is the game of Goodfellow et al. 2014,
with the loss of the generator that does not vanish (section 3); its critic gives log-odds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Scores = Float[Array, "batch one"]
Critic = Callable[[Float[Array, "batch features"]], Scores]


@dataclass(frozen=True, slots=True)
class Objective:
    """The losses of both, of the scores of generated rows and of real ones."""

    critic: Callable[[Scores, Scores], Float[Array, ""]]
    generator: Callable[[Scores], Float[Array, ""]]
    penalised: bool = False
    clipped: bool = False


def _distance(generated: Scores, real: Scores) -> Float[Array, ""]:
    return jnp.mean(generated) - jnp.mean(real)


def _preferred(generated: Scores) -> Float[Array, ""]:
    return -jnp.mean(generated)


def _told_apart(generated: Scores, real: Scores) -> Float[Array, ""]:
    return jnp.mean(jax.nn.softplus(generated)) + jnp.mean(jax.nn.softplus(-real))


def _taken_for_real(generated: Scores) -> Float[Array, ""]:
    return jnp.mean(jax.nn.softplus(-generated))


OBJECTIVES: Mapping[str, Objective] = {
    "wgan_gp": Objective(_distance, _preferred, penalised=True),
    "wgan": Objective(_distance, _preferred, clipped=True),
    "gan": Objective(_told_apart, _taken_for_real),
}


def steepness(critic: Critic, rows: Float[Array, "batch features"]) -> Float[Array, ""]:
    """The mean square by which the slope of the critic at each row differs from 1."""
    # rows do not see each other, so the gradient of the sum has that of each row in its place
    slopes = jax.grad(lambda rows: jnp.sum(critic(rows)))(rows)
    squares = jnp.sum(jnp.square(slopes), axis=-1)
    # a root has no gradient at 0, where all units of a critic may be off
    is_flat = squares == 0
    norms = jnp.where(is_flat, 0, jnp.sqrt(jnp.where(is_flat, 1, squares)))
    return jnp.mean(jnp.square(norms - 1))


def between(
    generated: Float[Array, "batch features"],
    real: Float[Array, "batch features"],
    share: Float[Array, " batch"],
) -> Float[Array, "batch features"]:
    """Rows on the lines from generated to real ones, where each has its `share` of the real."""
    return share[:, None] * real + (1 - share[:, None]) * generated
