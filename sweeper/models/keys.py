"""Makes every PRNG key of a study, independent of JAX's default implementation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, UInt32

from sweeper.models.mlp import AnyArray

IMPLEMENTATION = "threefry2x32"


def key_of(words: UInt32[AnyArray, 2]) -> PRNGKeyArray:
    """The key that consists of these two words."""
    return jax.random.wrap_key_data(jnp.asarray(words), impl=IMPLEMENTATION)


def fixed_key() -> PRNGKeyArray:
    """The key for everything that is the same for all trials."""
    return jax.random.key(0, impl=IMPLEMENTATION)


def key_like(like: Any, words: UInt32[Array, "*shape words"]) -> PRNGKeyArray:
    """The keys with these words and the implementation of `like`: arrays or abstract ones."""
    found: list[Any] = []
    jax.eval_shape(lambda keys: found.append(jax.random.key_impl(keys)), like)
    return jax.random.wrap_key_data(words, impl=found[0])
