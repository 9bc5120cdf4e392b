"""Finds probable mistakes of a user-defined model in its trace."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, Var

from sweeper.config.user_errors import RAISED
from sweeper.errors import listed
from sweeper.models.adapters import LinenModel
from sweeper.models.stateful import signature_of, train_one, without_state
from sweeper.models.traces import Trace, depending, trace, unrepeatable
from sweeper.models.user_network import KEY, passes_key, with_key, without_key
from sweeper.preflight.model_hints import ONLY_MODES, call_of, rename_hint, state_hint
from sweeper.preflight.user_functions import Wrong, raised

_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# primitives that draw; their first operand is a key
_DRAWS = ("random_bits", "random_gamma", "rng_bit_generator", "threefry2x32")
_PLACES_SHOWN = 4
# in the errors of layers that need a key
_OF_KEY = re.compile(r"\b(key|rng)s?\b", re.IGNORECASE)


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


def unlike_in_training(model: Any, x: jax.ShapeDtypeStruct) -> Iterator[Wrong]:
    """Cases in which the training call draws nothing although it should, or is not repeatable."""
    is_keyed = passes_key(model, x)
    call = with_key if is_keyed else without_key
    try:
        called = trace(call, KEY, model, x)
    except RAISED as error:
        of_state = state_hint(model, error)
        found, hint = raised("the model", error, of_state or "fix it", " in training")
        is_about_key = _OF_KEY.search(str(error)) and not isinstance(error, LookupError)
        if not is_keyed and of_state is None and is_about_key:
            found += ", because its __call__ takes no key"
            hint = f"write {call_of(model)}, and pass the key to what draws"
            hint = rename_hint(model) or hint
        yield found, hint
        return
    if not called.repeats():
        yield unrepeatable("the model", "let what it draws depend only on its key")
    elif isinstance(model, LinenModel):
        yield from _undrawn_by_linen(model, x)
    elif not called.uses_key():
        yield from _undrawn(model, x, is_keyed)


def _undrawn_by_linen(model: LinenModel, x: jax.ShapeDtypeStruct) -> Iterator[Wrong]:
    """Arguments of a module of Linen that would make it draw, but that training never passes."""
    for name, parameter in inspect.signature(type(model.module).__call__).parameters.items():
        if not isinstance(parameter.default, bool):
            continue
        given = {name: not parameter.default}

        def draw(key: Any, model: LinenModel, x: Any, given: Any = given) -> Any:
            return model.module.apply({"params": model.params}, x, rngs={"dropout": key}, **given)

        try:
            draws = trace(draw, KEY, model, x).uses_key()
        except RAISED:
            continue
        if draws:
            found = f"the model draws with '{name}', which is never passed, so it draws nothing"
            yield found, f"rename '{name}'. {ONLY_MODES}"


def _undrawn(model: Any, x: jax.ShapeDtypeStruct, is_keyed: bool) -> Iterator[Wrong]:
    """Arguments of `__call__` that would make the model draw, but that training never passes."""
    _, *parameters = signature_of(model).parameters.values()
    for parameter in parameters:
        name, default = parameter.name, parameter.default
        if name == "key" or parameter.kind in _OPEN or not isinstance(default, bool | None):
            continue

        def draw(key: Any, model: Any, x: Any, name: str = name, default: Any = default) -> Any:
            if default is None:
                return train_one(model, x, **{name: key})
            given = {"key": key} if is_keyed else {}
            return train_one(model, x, **{name: not default, **given})

        try:
            draws = trace(draw, KEY, model, x).uses_key()
        except RAISED:
            continue
        if draws and default is None:
            found = f"the model draws with '{name}', which is never passed, so it draws nothing"
            yield found, f"rename '{name}' to 'key', which is passed in training"
        elif draws:
            found = f"the model only draws with {name} = {not default}, which is never passed"
            yield found, f"remove '{name}', and draw if key is not None"


def _is_fill(equation: Any) -> bool:
    is_broadcast = equation.primitive.name == "broadcast_in_dim"
    return is_broadcast and isinstance(equation.invars[0], Literal)
