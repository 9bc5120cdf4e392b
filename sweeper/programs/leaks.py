"""What `debug_gradients` asserts of every step of `coupled`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from sweeper.config import Settings
from sweeper.config.coupled import CRITIC, CoupledTable, feeds
from sweeper.config.parts import PartsTable, upstream
from sweeper.programs.generator_critic import Losses
from sweeper.programs.program import State


def without_leaks(
    settings: Settings,
    losses_of: Callable[[Any], Losses],
    before: State,
    after: State,
    is_due: Bool[Array, ""],
) -> State:
    """`after`, or an error at run time where something of the step reached what it must not.

    No loss may have a gradient to a model that feeds its own: what that gives is to be taken as
    given. In a step in which the critic alone `is_due` to move, the others stay bit for bit as
    they are, and so do the states of their optimizers.
    """
    train, model = settings.train, settings.model
    assert isinstance(train, CoupledTable) and isinstance(model, PartsTable)
    written = {name: part.input for name, part in model.parts.items()}
    inputs = {name: feeds(name, train, written) for name in train.models}
    for name in train.models:
        gradients = jax.grad(lambda models, name=name: losses_of(models)[name])(before.model)
        for source in sorted(upstream(name, inputs) - {name}):
            told = (
                f"the loss of {name} has a gradient to {source}, which feeds it: "
                "take what it gives through jax.lax.stop_gradient"
            )
            after = eqx.error_if(after, jnp.any(gradients[source] != 0), told)
    if CRITIC in train.models:
        for name in train.models:
            if name != CRITIC:
                strayed = ~is_due & _differ(_of(before, name), _of(after, name))
                after = eqx.error_if(after, strayed, f"{name} moved out of its turn")
    return after


def _of(state: State, name: str) -> PyTree[Array]:
    """A model and the state of its optimizer."""
    return state.model[name], state.optimizer[name]  # type: ignore[index]


def _differ(one: PyTree[Array], other: PyTree[Array]) -> Bool[Array, ""]:
    """Whether any number of them does."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return jnp.any(jnp.stack([~jnp.array_equal(a, b, equal_nan=True) for a, b in pairs]))
