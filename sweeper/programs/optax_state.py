"""Converts a lane's vectors to the arrays and optimizer state of Optax, and back.

A lane's optimizer works on one vector, is created in each step and gets the learning rate of that
step. Without sweeper, training continues with an optimizer that is created once, with a trial's
numbers and schedule, whose state contains the count of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Int, PyTree
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.config.optimizer import UserOptimizerTable
from sweeper.models.network import Network
from sweeper.models.stateful import without_state
from sweeper.programs.optimizers import clipping_of, decayed_leaves, direction_of, users_optimizer
from sweeper.programs.schedules import rate_of


def parameters_of(model: PyTree) -> PyTree:
    """The trained arrays of a model, without its state, with None for everything else."""
    return eqx.filter(without_state(model), eqx.is_inexact_array)


class Remade(NamedTuple):
    """The state of an optimizer that is created in each step, and the number of steps so far."""

    inner: Any
    steps: Int[Array, ""]


def plain_optimizer(
    settings: Settings, hparams: Mapping[str, Any], network: Network
) -> optax.GradientTransformation:
    """The optimizer of a trial with the numbers `hparams`, for the arrays of its model."""

    def users(step: Any) -> optax.GradientTransformation:
        return users_optimizer(settings, hparams, network, step)

    is_constant = not has_schedule(settings)
    clipping = clipping_of(settings, hparams)
    if isinstance(settings.sole_optimizer, UserOptimizerTable):
        return optax.chain(*clipping, users(0) if is_constant else _remade(users))
    return optax.chain(
        *clipping,
        direction_of(settings, hparams),
        decayed_leaves(hparams["optimizer.weight_decay"], network),
        optax.scale_by_learning_rate(
            rate_of(settings, hparams, 0)
            if is_constant
            else lambda count: rate_of(settings, hparams, jnp.asarray(count))
        ),
    )


def plain_state(
    settings: Settings,
    optimizer: optax.GradientTransformation,
    network: Network,
    moments: PyTree,
    step: Any,
) -> PyTree[NDArray[Any]]:
    """The state of the plain `optimizer` that corresponds to a lane's `moments` after `step`."""
    like = eqx.filter_eval_shape(optimizer.init, network.vector.shapes())
    found: list[Any] = [*_spread(settings, network, moments)]
    if has_schedule(settings):
        found.append(step)  # the count comes last
    arrays = [
        np.asarray(leaf, expected.dtype)
        for leaf, expected in zip(found, jax.tree.leaves(like), strict=True)
    ]
    return jax.tree.unflatten(jax.tree.structure(like), arrays)


def lane_state(
    saved: Settings, settings: Settings, network: Network, like: PyTree, opt_state: PyTree
) -> PyTree[NDArray[Any]]:
    """A lane's moments, shaped like `like`, from the result of `plain_state` for trial `saved`.

    Their optimizers must be the same, their schedules need not be.
    """
    given = jax.tree.leaves(opt_state)
    if has_schedule(saved):
        given.pop()
    arrays: list[NDArray[Any]] = []
    for leaf in jax.tree.leaves(like):
        is_vector = _is_vector(settings, network, leaf)
        taken = [given.pop(0) for _ in (network.vector.arrays if is_vector else (0,))]
        array = network.vector.vector(taken) if is_vector else np.asarray(taken[0])
        assert array.shape == leaf.shape, "both are states of the same optimizer"
        arrays.append(array.astype(leaf.dtype))
    assert not given, "both are states of the same optimizer"
    return jax.tree.unflatten(jax.tree.structure(like), arrays)


def has_schedule(settings: Settings) -> bool:
    """Whether the plain optimizer counts steps for its learning rate."""
    return settings.sole_optimizer.schedule.name != "constant"


def _spread(settings: Settings, network: Network, moments: PyTree) -> Iterator[Any]:
    """The leaves of a lane's optimizer state, with each vector as arrays of the model."""
    for leaf in jax.tree.leaves(moments):
        if _is_vector(settings, network, leaf):
            yield from network.vector.leaves(np.asarray(leaf))
        else:
            yield leaf


def _is_vector(settings: Settings, network: Network, leaf: Any) -> bool:
    """Whether it has one number per parameter; some optimizers keep whole arrays instead."""
    return settings.sole_optimizer.elementwise and leaf.shape == (network.vector.n_parameters,)


def _remade(made: Callable[[Any], optax.GradientTransformation]) -> optax.GradientTransformation:
    """The optimizer that `made` returns for the number of previous steps."""

    def init(params: Any) -> Remade:
        return Remade(made(0).init(params), jnp.zeros((), jnp.int32))

    def update(updates: Any, state: Any, params: Any = None, **loss: Any) -> tuple[Any, Remade]:
        optimizer = optax.with_extra_args_support(made(state.steps))
        moved, inner = optimizer.update(updates, state.inner, params, **loss)
        return moved, Remade(inner, state.steps + 1)

    return optax.GradientTransformationExtraArgs(init, update)
