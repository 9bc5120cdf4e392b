"""How user-defined models are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from sweeper.config.user_code import RAISED
from sweeper.models.keys import fixed_key
from sweeper.models.mlp import AnyArray
from sweeper.models.traces import Trace, trace

KEY = jax.eval_shape(fixed_key)
"""Stands for a random key where a call is only traced."""


def draws_parameters(built: Trace) -> bool:
    """Whether some parameter of a model depends on the key that its builder is given."""
    arrays = [a for a in jax.tree.leaves(built.result) if isinstance(a, jax.ShapeDtypeStruct)]
    drawn = zip(arrays, built.depends_on_key(), strict=True)
    return any(depends and jnp.issubdtype(array.dtype, jnp.floating) for array, depends in drawn)


def takes_key(model: Callable[..., Any]) -> bool:
    """Whether a model is called with a `key`, for what it draws in training."""
    return "key" in inspect.signature(model).parameters


def passes_key(model: Callable[..., Any], x: jax.ShapeDtypeStruct) -> bool:
    """Whether training passes `key`: `__call__` names it, or its `**kwargs` accept it."""
    kinds = [parameter.kind for parameter in inspect.signature(model).parameters.values()]
    if takes_key(model) or inspect.Parameter.VAR_KEYWORD not in kinds:
        return takes_key(model)
    try:
        trace(with_key, KEY, model, x)
    except RAISED:
        return False
    return True


def with_key(key: Any, model: Any, x: Any) -> Any:
    """The outputs for one example in training, for a model that is passed a key."""
    return model(x, key=key)


def without_key(_key: Any, model: Any, x: Any) -> Any:
    """The outputs for one example in training, for a model that is not passed a key."""
    return model(x)


def differs_in_training(model: Any, x: jax.ShapeDtypeStruct) -> bool:
    """Whether a model that is not passed a key computes something else in training."""
    in_inference = eqx.nn.inference_mode(model)
    return not trace(without_key, KEY, model, x).is_like(trace(without_key, KEY, in_inference, x))


def evaluated(model: Any, x: Any) -> Any:
    """The outputs for one example outside of training: without a key, and as in inference."""
    model = eqx.nn.inference_mode(model)
    return model(x, key=None) if takes_key(model) else model(x)


def each_of(model: Any) -> Callable[[Float[AnyArray, "rows features"]], Any]:
    """What gives the outputs for each example, compiled once for each number of them.

    Of the model arrays alone are told to JAX: its static fields may be such as have no hash.
    """
    leaves, structure = jax.tree.flatten(model)
    places = [place for place, leaf in enumerate(leaves) if eqx.is_array(leaf)]

    @jax.jit
    def outputs(arrays: list[Any], x: Any) -> Any:
        told = dict(zip(places, arrays, strict=True))
        own = jax.tree.unflatten(structure, [told.get(i, leaf) for i, leaf in enumerate(leaves)])
        return jax.vmap(lambda x: evaluated(own, x))(x)

    return lambda x: outputs([leaves[place] for place in places], x)
