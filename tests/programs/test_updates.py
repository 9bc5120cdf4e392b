"""An update in chunks equals that of the whole vector, and changes only the lane's own part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, PyTree

from sweeper.config import Settings, parse
from sweeper.models.mlp import MlpShape
from sweeper.models.mlp_network import MlpNetwork
from sweeper.programs.optimizers import optimizer_of
from sweeper.programs.program import LaneParameters
from sweeper.programs.updates import apply_update
from tests.programs.conftest import STUDY

# float64: two compiled programs may round sums of the same numbers, up to 10, differently
RELATIVE, ABSOLUTE = 1e-14, 2e-15
STEPS = 3
# more parameters than a chunk has, and stretches that end within one
LARGE = MlpShape(30, 7, 24, 5, layer_norm=True)
SMALL = MlpShape(3, 2, 8, 2, layer_norm=False)
OPTIMIZERS = {
    "adamw": "name='adamw',weight_decay=0.1",
    "adam, clipped": "name='adam',clip_norm=0.5,clip_value=0.1",
    "rmsprop": "name='rmsprop',momentum=0.9,weight_decay=0.01",
    "lion": "name='lion',weight_decay=0.1",
    "sgd, a schedule": "name='sgd',momentum=0.9,nesterov=true,schedule={name='cosine'}",
    "decay by place": "name='adamw',weight_decay=0.1,decay={where=[{depth=-1,decay=2.0}]}",
}


def settings_of(optimizer: str) -> Settings:
    written = f"optimizer={{lr=0.01,{optimizer}}}"
    return parse(STUDY, Path("study.toml"), [written]).settings_of({})


@cache
def compiled(network: MlpNetwork, optimizer: str) -> Callable[..., Any]:
    """One update, for lanes of every depth and width, as in a class."""
    settings = settings_of(optimizer)

    def update(
        lane: LaneParameters, step: int, gradients: Array, moments: PyTree, vector: Array
    ) -> PyTree:
        made = settings, lane, network, step
        loss = jnp.sum(gradients)
        return apply_update(*made, gradients, moments, vector, loss, after=loss)

    return jax.jit(update)


def trained(network: MlpNetwork, optimizer: str, lane: LaneParameters) -> tuple[Array, PyTree]:
    """The parameters and the moments of a lane after a few updates with invented gradients."""
    rng = np.random.default_rng(3)

    def own() -> np.ndarray:
        """Numbers for the lane's own parameters, zeros for all others."""
        told = {name: int(size) for name, size in lane.traced.items()}
        vector = np.zeros(network.vector.n_parameters)
        for part in replace(network.shape, **told).within(network.shape, vector):
            part[...] = rng.normal(size=part.shape)
        return vector

    settings, update = settings_of(optimizer), compiled(network, optimizer)
    parameters = jnp.asarray(own())
    moments = optimizer_of(settings, lane.hparams, lane.traced, network, 0).init(parameters)
    for step in range(STEPS):
        gradients = jnp.asarray(own())
        parameters, moments = update(lane, step, gradients, moments, parameters)
    return parameters, moments


@pytest.mark.parametrize(
    ("shape", "depth"), [(LARGE, 1), (LARGE, 2), (LARGE, 3), (LARGE, 5), (SMALL, 1), (SMALL, 2)]
)
@pytest.mark.parametrize("case", OPTIMIZERS)
def test_chunks_give_the_same_result_as_the_whole_vector(
    case: str, shape: MlpShape, depth: int
) -> None:
    numbers = settings_of(OPTIMIZERS[case]).traced() | {"optimizer.schedule.steps": 10.0}
    told = {"width": shape.width - 3, "depth": depth}
    with jax.enable_x64(True):
        lane = LaneParameters.of(numbers, told, np.zeros(2, np.uint32), "float64")
        whole = MlpNetwork(shape, ("relu",), False, padded=True, dtype="float64")
        chunked = replace(whole, looped=True)
        assert (
            whole.vector.stretches(lane.traced) is None
            and chunked.vector.stretches(lane.traced) is not None
        )

        expected, actual = (
            trained(network, OPTIMIZERS[case], lane) for network in (whole, chunked)
        )

        assert jax.tree.structure(expected) == jax.tree.structure(actual)
        for own, its in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(own, its, rtol=RELATIVE, atol=ABSOLUTE)
            assert not np.any(np.asarray(own)[np.asarray(its) == 0])


@pytest.mark.parametrize("name", ["adamw", "adafactor"])
def test_a_large_network_is_updated_like_a_small_one(name: str) -> None:
    """In chunks, unless its optimizer looks at whole arrays."""
    optimizer = f"name='{name}'"
    with jax.enable_x64(True):
        lane = LaneParameters.of(
            settings_of(optimizer).traced(), {}, np.zeros(2, np.uint32), "float64"
        )
        shape = MlpShape(30, 7, 400, 2, layer_norm=True)
        whole = MlpNetwork(shape, ("relu",), False, padded=False, dtype="float64")
        chunked = replace(whole, looped=True)
        small = replace(chunked, shape=LARGE)
        assert chunked.vector.stretches({}) == ((0, shape.n_parameters),)
        assert whole.vector.stretches({}) is None and small.vector.stretches({}) is None

        expected, actual = (trained(network, optimizer, lane) for network in (whole, chunked))

        for own, its in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(own, its, rtol=RELATIVE, atol=ABSOLUTE)


def test_a_loss_that_is_not_finite_affects_every_parameter() -> None:
    """The loop begins after the loss, and with its first chunk whatever the loss is."""
    settings = parse(STUDY, Path("study.toml"), ["optimizer.lr=0.01"]).settings_of({})
    with jax.enable_x64(True):
        lane = LaneParameters.of(
            settings.traced(), {"width": 24, "depth": 2}, np.zeros(2, np.uint32), "float64"
        )
        network = MlpNetwork(LARGE, ("relu",), False, padded=True, dtype="float64", looped=True)
        ones = jnp.ones(network.vector.n_parameters)
        moments = optimizer_of(settings, lane.hparams, lane.traced, network, 0).init(ones)
        moved = [
            apply_update(settings, lane, network, 0, ones, moments, ones, loss, after=loss)[0]
            for loss in map(jnp.asarray, (1.0, np.inf, -np.inf, np.nan))
        ]
        for vector in moved[1:]:
            assert np.asarray(vector).tobytes() == np.asarray(moved[0]).tobytes()
        assert np.count_nonzero(np.asarray(moved[0]) != 1) > 1024
