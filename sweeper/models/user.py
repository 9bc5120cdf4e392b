"""How models of the user's own are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Float

from sweeper.models.mlp import AnyArray


def takes_key(model: Callable[..., Any]) -> bool:
    """Whether a model is called with a `key`, for what it draws in training."""
    return "key" in inspect.signature(model).parameters


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
