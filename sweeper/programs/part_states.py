"""The states of programs that train several parts: begun, cut out of padding and put back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sweeper.config import Settings
from sweeper.models.part_networks import PartNetworks
from sweeper.programs.blank import blank_of
from sweeper.programs.program import Lane, State
from sweeper.randomness import generator


def shapes(
    parts: PartNetworks, begin: Callable[[State, Lane], State], lane: Lane, dtype: str
) -> State:
    """Shapes and dtypes of the state that `begin` makes of the vectors of all parts."""

    def begun(model: Any) -> State:
        return begin(State(model, None, jnp.zeros((), jnp.int32)), lane)  # type: ignore[arg-type]

    vectors = {
        name: jax.ShapeDtypeStruct((network.n_parameters,), jnp.dtype(dtype))
        for name, network in parts.networks
    }
    return eqx.filter_eval_shape(begun, vectors)


def fresh(
    parts: PartNetworks,
    abstract: State,
    settings: Settings,
    seed: int,
    number: int,
    replicate: int,
) -> State:
    """The state of a trial before its first step, the weights of each part drawn by themselves."""

    def generator_of(part: str) -> np.random.Generator:
        return generator(seed, f"weights {part}", number, replicate)

    return replace(blank_of(abstract), model=parts.initial(settings, generator_of))


def exact_shapes(parts: PartNetworks, abstract: State, settings: Settings) -> State:
    """Shapes and dtypes of a trial's own state, without padding."""

    def own(network: Any, part: str, leaf: Any) -> Any:
        if leaf.shape != (network.n_parameters,):
            return leaf
        size = network.own_parameters(settings.of_part(part))
        return jax.ShapeDtypeStruct((size,), leaf.dtype)

    return parts.over_parameters(own, abstract)


def exact_state(parts: PartNetworks, state: State, settings: Settings) -> State:
    """A trial's own part of its lane's `state`."""

    def own(network: Any, part: str, leaf: Any) -> Any:
        is_vector = leaf.shape == (network.n_parameters,)
        return network.own(leaf, settings.of_part(part)) if is_vector else leaf

    return parts.over_parameters(own, state)


def padded_state(parts: PartNetworks, state: State, settings: Settings) -> State:
    """The lane's state whose own part is `state`."""

    def spread(network: Any, part: str, leaf: Any) -> Any:
        its = settings.of_part(part)
        is_vector = leaf.shape == (network.own_parameters(its),)
        return network.padded_from(leaf, its) if is_vector else leaf

    return parts.over_parameters(spread, state)
