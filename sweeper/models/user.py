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


@eqx.filter_jit
def evaluated_each(model: Any, x: Float[AnyArray, "rows features"]) -> Any:
    """The outputs for each example."""
    return jax.vmap(lambda x: evaluated(model, x))(x)
