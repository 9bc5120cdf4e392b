"""Hidden layers in a loop give the same outputs and gradients as one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from sweeper.models.layered_network import LayeredNetwork
from sweeper.models.mlp import MlpShape
from sweeper.models.mlp_network import MlpNetwork
from sweeper.models.tabm import TabMShape
from sweeper.models.tabm_network import TabMNetwork
from tests.programs.plain import compiled_hastily

RELATIVE = 1e-12  # float64: sums of the same numbers in a different order
IN_SIZE, OUT_SIZE, WIDTH, BATCH = 5, 3, 8, 6


Gradients = tuple[Array, tuple[Array, Array]]


def size_of_outputs(network: LayeredNetwork) -> tuple[int, ...]:
    members = (network.shape.members,) if isinstance(network.shape, TabMShape) else ()
    return (*members, BATCH, OUT_SIZE)


@cache
def compiled(network: LayeredNetwork, dropout: float, names: tuple[str, ...]) -> Callable[..., Any]:
    """Outputs, and gradients by parameters and by inputs, for lanes whose `names` are traced.

    Layers one after the other are only the reference, so they are compiled without optimization.
    """
    numbers = {name: jnp.asarray(1) for name in names}

    def score(vector: Array, x: Array, towards: Array, keys: Array | None, traced: Any) -> Any:
        outputs, _ = network.fitted(vector, x, traced, keys, dropout)
        return jnp.sum(outputs * towards), outputs

    keys = jax.random.split(jax.random.key(3), BATCH) if dropout else None
    vector, x = np.zeros(network.vector.n_parameters), np.zeros((BATCH, IN_SIZE))
    gradient = jax.jit(jax.grad(score, argnums=(0, 1), has_aux=True))
    lowered = gradient.lower(vector, x, np.zeros(size_of_outputs(network)), keys, numbers)
    with nullcontext() if network.looped else compiled_hastily():
        return lowered.compile()


def both(network: LayeredNetwork, traced: Mapping[str, int], dropout: float) -> list[Gradients]:
    """Outputs, and gradients by parameters and by inputs, of layers one by one and looped.

    The parameters are those of a lane within the class: everything else is zero.
    """
    rng = np.random.default_rng(7)
    size = {name: size for name, size in traced.items() if name in ("width", "depth")}
    own = replace(network.shape, **size)
    vector = np.zeros(network.vector.n_parameters)
    for part in own.within(network.shape, vector):
        part[...] = rng.normal(size=part.shape)
    x = rng.normal(size=(BATCH, IN_SIZE))
    towards = rng.normal(size=size_of_outputs(network))
    keys = jax.random.split(jax.random.key(3), BATCH) if dropout else None
    numbers = {name: jnp.asarray(number) for name, number in traced.items()}

    def taken(looped: bool) -> Gradients:
        its = compiled(replace(network, looped=looped), dropout, tuple(traced))
        found, outputs = its(vector, x, towards, keys, numbers)
        return outputs, found

    return [taken(False), taken(True)]


def network_of(
    kind: str,
    activations: tuple[str, ...],
    layer_norm: bool,
    dropout: float,
    depth: int,
    **how: Any,
) -> LayeredNetwork:
    others = activations, bool(dropout)
    if kind == "tabm":
        shape = TabMShape(IN_SIZE, OUT_SIZE, WIDTH, depth, members=3)
        return TabMNetwork(shape, *others, dtype="float64", **how)
    mlp = MlpShape(IN_SIZE, OUT_SIZE, WIDTH, depth, layer_norm)
    return MlpNetwork(mlp, *others, dtype="float64", **how)


@pytest.mark.parametrize("kind", ["mlp", "tabm"])
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize(
    ("activations", "layer_norm", "dropout"),
    [
        (("relu",), False, 0.0),
        (("sigmoid",), True, 0.0),
        (("tanh", "gelu", "sigmoid"), True, 0.3),
    ],
)
def test_the_loop_returns_the_same_as_layers(
    activations: tuple[str, ...], layer_norm: bool, dropout: float, depth: int, kind: str
) -> None:
    with jax.enable_x64(True):
        network = network_of(kind, activations, layer_norm, dropout, 4, padded=True)
        told = {"activation": 1} if len(activations) > 1 else {}

        one_by_one, looped = both(network, {"width": 5, "depth": depth, **told}, dropout)

        for own, its in zip(jax.tree.leaves(looped), jax.tree.leaves(one_by_one), strict=True):
            np.testing.assert_allclose(own, its, rtol=RELATIVE, atol=RELATIVE)
        # beyond the width and depth of the lane: exactly nothing
        kept = np.zeros(network.vector.n_parameters)
        for part in replace(network.shape, width=5, depth=depth).within(network.shape, kept):
            part[...] = 1
        assert not np.any(np.asarray(looped[1][0])[kept == 0])


@pytest.mark.parametrize(
    ("activations", "layer_norm", "dropout", "depth"),
    [
        (("relu",), False, 0.0, 1),
        (("relu",), False, 0.0, 2),
        (("sigmoid", "tanh"), True, 0.3, 4),
    ],
)
def test_the_loop_equals_layers_for_networks_of_one_shape(
    activations: tuple[str, ...], layer_norm: bool, dropout: float, depth: int
) -> None:
    with jax.enable_x64(True):
        network = network_of("mlp", activations, layer_norm, dropout, depth, padded=False)
        told = {"activation": 1} if len(activations) > 1 else {}

        one_by_one, looped = both(network, told, dropout)

        for own, its in zip(jax.tree.leaves(looped), jax.tree.leaves(one_by_one), strict=True):
            np.testing.assert_allclose(own, its, rtol=RELATIVE, atol=RELATIVE)


def test_a_class_of_one_hidden_layer_has_no_loop() -> None:
    with jax.enable_x64(True):
        network = network_of("mlp", ("relu",), True, 0.3, 1, padded=True)

        one_by_one, looped = both(network, {"width": WIDTH, "depth": 1}, 0.3)

        for own, its in zip(jax.tree.leaves(looped), jax.tree.leaves(one_by_one), strict=True):
            np.testing.assert_allclose(own, its, rtol=RELATIVE, atol=RELATIVE)
