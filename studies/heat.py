"""A physics-informed network for the heat equation: the data of `heat.toml`, and its program.

u_t = DIFFUSIVITY * u_xx for x and t from 0 to 1, with u = sin(pi x) at t = 0 and u = 0 at both
ends, whose solution is u = exp(-DIFFUSIVITY * pi^2 * t) * sin(pi x).
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

DIFFUSIVITY = 0.1


def points(n=200):
    """Returns `n` training points at the start and the ends, then `n` inside for validation."""
    rng = np.random.default_rng(0)
    x, t = rng.random((2, 2 * n))
    t[: n // 2] = 0.0  # the start
    x[n // 2 : n] = rng.integers(0, 2, n - n // 2)  # the ends
    u = np.exp(-DIFFUSIVITY * np.pi**2 * t) * np.sin(np.pi * x)
    return {"x": x, "t": t, "u": u, "place": np.arange(2 * n)}


class HeatEquation:
    """Fits the start and the ends, and the equation at random points that change every step.

    The method of Raissi, Perdikaris and Karniadakis (2019). The equation is linear without a
    constant, so it also holds for scaled u.
    """

    def __init__(self, *, n_points, residual_weight):
        self.n_points = n_points  # an integer: compiled in
        self.residual_weight = residual_weight  # a float: traced, so each trial can have its own

    def init(self, model, optimizer, key):
        return model, optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    def step(self, model, opt_state, batch, optimizer, key):
        within = jax.random.uniform(key, (self.n_points, 2), batch.x.dtype)

        def loss(model):
            return fit(model, batch) + self.residual_weight * residual(model, within)

        value, gradients = eqx.filter_value_and_grad(loss)(model)
        parameters = eqx.filter(model, eqx.is_inexact_array)
        updates, opt_state = optimizer.update(gradients, opt_state, parameters)
        return eqx.apply_updates(model, updates), opt_state, value

    def evaluate(self, model, data):
        return {"loss": fit(model, data), "residual": residual(model, data.x)}


def fit(model, data):
    """Mean squared error of the network against u."""
    return jnp.mean((jax.vmap(model)(data.x) - data.y) ** 2)


def residual(model, points):
    """Mean squared residual of the equation at points (x, t)."""

    def u(x, t):
        return model(jnp.stack([x, t]))[0]

    def left_over(x, t):
        return jax.grad(u, 1)(x, t) - DIFFUSIVITY * jax.grad(jax.grad(u))(x, t)

    return jnp.mean(jax.vmap(left_over)(points[:, 0], points[:, 1]) ** 2)
