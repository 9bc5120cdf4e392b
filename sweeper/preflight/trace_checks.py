"""Finds probable mistakes of a user-defined model in its trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, Var

from sweeper.config.user_errors import RAISED
from sweeper.errors import listed
from sweeper.models.stateful import without_state
from sweeper.models.traces import Trace, depending, trace
from sweeper.models.user_network import KEY, passes_key, with_key, without_key

# primitives that draw; their first operand is a key
_DRAWS = ("random_bits", "random_gamma", "rng_bit_generator", "threefry2x32")
_PLACES_SHOWN = 4


def shared_arrays(name: str, built: Trace) -> Iterator[tuple[str, str]]:
    """Report that the function `name` puts one array in several places, and how to tie them.

    Arrays of one repeated number, such as initial biases, are left out.
    """
    places: dict[Any, list[str]] = defaultdict(list)
    jaxpr = built.jaxpr.jaxpr
    filled = {var for one in jaxpr.eqns if _is_fill(one) for var in one.outvars}
    outvars = iter(jaxpr.outvars)
    for path, leaf in jax.tree_util.tree_leaves_with_path(without_state(built.result)):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            var = next(outvars)
            is_one = isinstance(var, Var) and var not in filled
            if is_one and jnp.issubdtype(leaf.dtype, jnp.floating):
                places[var].append(f"model{jax.tree_util.keystr(path)}")
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" and np.ptp(leaf):
            places[id(leaf)].append(f"model{jax.tree_util.keystr(path)}")
    shared = [group for group in places.values() if len(group) > 1]
    if shared:
        more = ", among others," if len(shared) > 1 or len(shared[0]) > _PLACES_SHOWN else ""
        yield (
            f"'{name}' puts the same array in {listed(shared[0][:_PLACES_SHOWN])}{more} "
            "and training changes each copy separately",
            "tie the layers with eqx.nn.Shared, or draw separate arrays",
        )


def fixed_arrays(name: str, built: Trace) -> Iterator[tuple[str, str]]:
    """Report arrays that the function `name` draws, but that every trial shares, and what to do.

    These are arrays of integers and booleans: all models have those that belong to a fixed key.
    """
    drawn = iter(built.depends_on_key())
    places = [
        f"model{jax.tree_util.keystr(path)}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(without_state(built.result))
        if isinstance(leaf, jax.ShapeDtypeStruct)
        and next(drawn)
        and not jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    if places:
        more = ", among others," if len(places) > _PLACES_SHOWN else ""
        yield (
            f"'{name}' draws {listed(places[:_PLACES_SHOWN])}{more} with its key, but arrays that "
            "are not floats are the same in every trial and replicate",
            "draw them with a fixed seed, or keep random floats and compute the array from them in "
            "__call__, such as jnp.argsort(jax.lax.stop_gradient(self.scores))",
        )


def fixed_draws(model: Any, x: jax.ShapeDtypeStruct) -> Iterator[tuple[str, str]]:
    """Report that the model draws the same numbers in every training step, and what to do."""
    call = with_key if passes_key(model, x) else without_key
    try:
        called = trace(call, KEY, model, x)
    except RAISED:
        return  # refused elsewhere
    jaxpr = called.jaxpr.jaxpr
    is_fixed: list[bool] = []

    def see(equation: Any, given: Sequence[bool]) -> None:
        is_fixed.append(equation.primitive.name in _DRAWS and not given[0])

    depending(jaxpr, [True, *[False] * (len(jaxpr.invars) - 2), True], see)
    if any(is_fixed):
        yield (
            "the model draws with a key that is the same in every step",
            "draw with the key that __call__(self, x, *, key=None) is passed in training, or draw "
            "an array once and keep it in a field",
        )


def _is_fill(equation: Any) -> bool:
    is_broadcast = equation.primitive.name == "broadcast_in_dim"
    return is_broadcast and isinstance(equation.invars[0], Literal)
