"""Whether a user-defined function builds another model for another value of an argument."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from sweeper.config.user_code import load_function
from sweeper.models.keys import fixed_key
from sweeper.models.user_network import UserNetwork

_ADDRESS = re.compile(r"0x[0-9a-f]+")
_Traced = tuple[str, str, Sequence[Any]]


def builds_alike(networks: Sequence[UserNetwork]) -> bool:
    """Whether all of them are the same model: structure, static fields and initial weights."""
    traced = map(_traced, networks)  # one by one: usually the second already differs
    first = next(traced)
    return all(_is_same(first, other) for other in traced)


def _traced(network: UserNetwork) -> _Traced:
    """How a model is built, and what it contains besides arrays; nothing is compiled."""
    function = load_function(network.function, network.base_dir)
    sizes = {"in_size": network.in_size, "out_size": network.out_size}

    def build(key: Any) -> Any:
        return function(**sizes, **dict(network.arguments), key=key)

    made: Any = eqx.filter_make_jaxpr(build)
    jaxpr, shapes, static = made(fixed_key())
    structure = _ADDRESS.sub("", str(jax.tree.structure((shapes, static))))
    return _ADDRESS.sub("", str(jaxpr)), structure, [*jaxpr.consts, *jax.tree.leaves(static)]


def _is_same(one: _Traced, other: _Traced) -> bool:
    same = one[:2] == other[:2] and len(one[2]) == len(other[2])
    return same and all(map(_equal, one[2], other[2]))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray | jax.Array) and isinstance(other, np.ndarray | jax.Array):
        return np.array_equal(np.asarray(one), np.asarray(other))
    return type(one) is type(other) and bool(one is other or one == other)
