"""Measurements in blocks of rows equal measurements of all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.config import parse
from sweeper.programs import parts
from sweeper.programs.parts import in_blocks
from sweeper.scheduler.cost import MEASURED_ROWS as ROWS
from tests.programs.conftest import Bench, spec
from tests.small_studies import PARTS, bent

# float64: a product with fewer rows may be summed in a different order
RELATIVE = 1e-12
SHAPE = {"activation": "tanh", "lr": 1e-3, "weight_decay": 0.1}
TRIALS = [spec(0, depth=1, width=9, **SHAPE), spec(1, depth=2, width=16, **SHAPE)]
EXACT = {"epochs": (0, 2)}
PADDED = {**EXACT, "padded_to": (16, 2)}
STUDIES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "classes, one by one": (("study.seed=3",), {"lane_loop": "map", **PADDED}),
    "folds, one by one": (("study.folds=3",), {"lane_loop": "map", **EXACT}),
    "numbers, side by side": (
        (
            "data={source='sklearn',name='diabetes',split={val=0.2,test=0.1}}",
            "train.loss=mse",
            "train.metrics=['r2']",
        ),
        {"lane_loop": "vmap", **EXACT},
    ),
}


@pytest.mark.parametrize("rows", [1, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS, 2 * ROWS + 700])
def test_every_row_is_used_once_per_block(rows: int) -> None:
    x = np.random.default_rng(rows).normal(size=(rows, 3))
    weight = np.random.default_rng(7).normal(size=(3, 5))
    given: list[int] = []

    def outputs(x: jax.Array) -> dict[str, jax.Array]:
        given.append(len(x))
        return {"sums": jnp.tanh(x @ weight), "first": x[:, 0] > 0}

    found = jax.jit(lambda x: in_blocks(outputs, x))(x)

    np.testing.assert_allclose(found["sums"], np.tanh(x @ weight), rtol=RELATIVE)
    np.testing.assert_array_equal(found["first"], x[:, 0] > 0)
    assert set(given) == {min(rows, ROWS)}


@pytest.mark.parametrize(
    "study",
    [
        pytest.param("classes, one by one", marks=pytest.mark.slow),
        pytest.param("folds, one by one", marks=pytest.mark.slow),
        "numbers, side by side",
    ],
)
def test_scores_equal_those_of_all_rows_at_once(
    study: str, bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides, how = STUDIES[study]
    trials = TRIALS if "padded_to" in how else TRIALS[:1]
    whole = bench(*overrides).train(trials, **how)
    monkeypatch.setattr(parts, "MEASURED_ROWS", 17)
    parted = bench(*overrides).train(trials, **how)

    for one, other in zip(parted.lanes, whole.lanes, strict=True):
        np.testing.assert_allclose(one.curve.values, other.curve.values, rtol=RELATIVE)
        np.testing.assert_allclose(one.test, other.test, rtol=RELATIVE)


def test_losses_of_parts_equal_those_of_all_rows_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = bent(PARTS, "execution={precision='float64'}", "data.split={val=0.2,test=0.1}")

    def losses() -> np.ndarray:
        bench = Bench(parse(study, Path("study.toml"), []), tmp_path)
        return bench.curves([spec(0)], lane_loop="map", epochs=(0, 2))[0]

    whole = losses()
    monkeypatch.setattr(parts, "MEASURED_ROWS", 17)

    np.testing.assert_allclose(losses(), whole, rtol=RELATIVE)


def test_layers_do_not_take_memory_for_all_rows_at_once() -> None:
    rows, width = 50_000, 64
    first, last = (np.ones(size) for size in ((8, width), (width, 2)))

    def outputs(x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ first) @ last

    def needed(function: Callable[[jax.Array], jax.Array]) -> int:
        x = jax.ShapeDtypeStruct((rows, 8), jnp.float64)
        return jax.jit(function).lower(x).compile().memory_analysis().temp_size_in_bytes

    of_a_layer = rows * width * 8
    assert needed(outputs) >= of_a_layer
    assert needed(lambda x: in_blocks(outputs, x)) < of_a_layer / 2
