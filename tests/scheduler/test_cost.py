"""Predictions are features times constants, and constants are refused by name."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.models.tabm import TabMShape
from sweeper.scheduler.cost import (
    CostModel,
    Workload,
    compile_features,
    flops,
    lane_features,
    n_parameters,
    shipped,
)
from sweeper.scheduler.lattice import Cell, LatticeClass, plain_size
from sweeper.scheduler.width_lattice import Prices, width_lattice

DIGITS = Workload(
    in_size=64,
    out_size=10,
    batch_size=64,
    steps=19,
    epochs=20.0,
    val_rows=360,
    layer_norm=False,
    dropout=False,
    n_activations=1,
    optimizer_slots=2,
    bytes_per_number=4,
)
CONSTANTS = [field.name for field in fields(CostModel) if field.name != "backend"]
# Primes: a constant that is mistaken for another one shows.
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79)
PRIMES += (83, 89)
MODEL = CostModel(backend="cpu", **dict(zip(CONSTANTS, map(float, PRIMES), strict=True)))

workloads = st.builds(
    Workload,
    in_size=st.integers(1, 100),
    out_size=st.integers(1, 10),
    batch_size=st.integers(1, 100),
    steps=st.integers(1, 50),
    epochs=st.floats(1, 100),
    val_rows=st.integers(0, 500),
    layer_norm=st.booleans(),
    dropout=st.booleans(),
    n_activations=st.integers(1, 4),
    optimizer_slots=st.integers(0, 2),
    bytes_per_number=st.sampled_from([4, 8]),
)
sizes = st.integers(1, 512)
depths = st.integers(0, 10)
loops = st.sampled_from(["map", "vmap"])


def dot(features: dict[str, float]) -> float:
    return sum(count * getattr(MODEL, name) for name, count in features.items())


@given(workloads, depths)
def test_compiling_is_features_times_constants(workload: Workload, depth: int) -> None:
    features = compile_features(depth, workload)

    assert MODEL.compile_s(depth, workload) == dot(features)
    assert features.keys() <= set(CONSTANTS)
    several = compile_features(depth, workload, 3)
    assert MODEL.compile_s(depth, workload, 3) == dot(several)
    assert several["compile_width_s"] == 2


@given(workloads, sizes, depths)
def test_carrying_counts_the_numbers_of_a_state(workload: Workload, width: int, depth: int) -> None:
    numbers = n_parameters(width, depth, workload) * (1 + workload.optimizer_slots)

    expected = MODEL.carry_number_s * numbers * workload.bytes_per_number / 4
    assert MODEL.carry_s(width, depth, workload) == pytest.approx(expected)


@given(workloads, sizes, depths, depths, loops, st.integers(1, 64))
def test_training_is_features_times_constants(
    workload: Workload, width: int, one: int, other: int, loop: Any, capacity: int
) -> None:
    size = (width, max(one, other), min(one, other), workload, loop, capacity)
    features = lane_features(*size)

    assert MODEL.lane_s(*size) == dot(features)
    assert features.keys() <= set(CONSTANTS)
    assert min(features.values()) >= 0


def test_features_count_the_work_of_a_map_lane() -> None:
    workload = replace(DIGITS, layer_norm=True, n_activations=3)
    weights = 64 * 32 + 32 * 10  # one hidden layer of 32, in a class with two
    kept = weights + (32 + 10) + 2 * 32

    assert lane_features(32, 2, 1, workload, "map", 4) == {
        "step_base_s": 20 * 19,
        "step_layer_s": 20 * 19,
        "step_flop_s": 20 * (19 * 3 * 2 * 64 * weights + 2 * 360 * weights),
        "step_parameter_s": 20 * 19 * kept * 3,
        "step_row_s": 20 * 19 * 64,
        "step_layer_norm_s": 20 * 19 * 64 * 32,
        "step_dropout_s": 0,
        "step_ensemble_s": 0,
        "step_periodic_s": 0,
        "epoch_base_s": 20,
    }
    assert compile_features(2, workload) == {
        "compile_base_s": 1,
        "compile_width_s": 0,
        "compile_layer_s": 2,
        "compile_layer_norm_s": 2,
        "compile_dropout_s": 0,
        "compile_activation_s": 4,
    }


def test_a_vmap_lane_runs_every_layer_and_shares_the_rest() -> None:
    shallow, deep = (lane_features(32, 4, depth, DIGITS, "vmap", 8) for depth in (1, 4))

    assert shallow == deep
    assert (deep["vmap_base_s"], deep["vmap_layer_s"]) == (20 * 19 / 8, 4 * 20 * 19 / 8)


def test_numbers_with_eight_bytes_count_twice() -> None:
    single = lane_features(32, 4, 2, DIGITS, "map", 4)
    double = lane_features(32, 4, 2, replace(DIGITS, bytes_per_number=8), "map", 4)

    sized = {"step_flop_s": 2, "step_parameter_s": 2, "step_row_s": 2}
    assert double == {name: count * sized.get(name, 1) for name, count in single.items()}


@pytest.mark.parametrize(
    ("width", "depth", "layer_norm", "count"),
    [
        (32, 1, False, (64 * 32 + 32) + (32 * 10 + 10)),
        (16, 3, True, (64 * 16 + 16) + 2 * (16 * 16 + 16) + (16 * 10 + 10) + 3 * (16 + 16)),
        (99, 0, True, 64 * 10 + 10),
    ],
)
def test_parameters_are_weights_biases_and_norms(
    width: int, depth: int, layer_norm: bool, count: int
) -> None:
    assert n_parameters(width, depth, replace(DIGITS, layer_norm=layer_norm)) == count


def test_each_member_of_a_tabm_has_scales_biases_and_the_work_of_an_mlp() -> None:
    tabm = replace(DIGITS, ensemble_size=4)
    shape = TabMShape(64, 10, width=16, depth=3, members=4)

    assert n_parameters(16, 3, tabm) == shape.n_parameters
    assert flops(16, 3, 5, tabm) == 4 * flops(16, 3, 5, DIGITS)
    features = lane_features(16, 3, 2, tabm, "map", 1)
    assert features["step_ensemble_s"] == 20 * 19 * (4 * 64) * 2 * 16


def test_flops_are_two_for_each_weight_and_row() -> None:
    assert flops(16, 3, 5, DIGITS) == 2 * 5 * (64 * 16 + 2 * 16 * 16 + 16 * 10)
    assert flops(16, 0, 5, DIGITS) == 2 * 5 * 64 * 10


def test_a_model_survives_json() -> None:
    assert CostModel.from_dict(json.loads(json.dumps(MODEL.as_dict()))) == MODEL


@pytest.mark.parametrize("name", CONSTANTS)
@pytest.mark.parametrize("value", [-1e-9, float("nan"), float("inf"), "1", True, None])
def test_a_bad_constant_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{name}: "):
        CostModel.from_dict(MODEL.as_dict() | {name: value})


def test_missing_and_unknown_constants_are_refused_by_name() -> None:
    values = MODEL.as_dict() | {"step_bass_s": 1.0}
    del values["step_base_s"]

    with pytest.raises(ValueError, match=r"^step_base_s: missing; step_bass_s: unknown constant$"):
        CostModel.from_dict(values)


def test_a_cost_model_of_an_earlier_version_can_be_read() -> None:
    values = MODEL.as_dict()
    later = {"step_row_s": 0.0, "compile_width_s": 0.7, "carry_number_s": 5e-9}
    later |= {"step_ensemble_s": 3e-9, "step_periodic_s": 1.5e-8}
    for name in later:
        del values[name]

    assert CostModel.from_dict(values) == replace(MODEL, **later)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_shipped_files_hold_all_constants_and_their_source(backend: str) -> None:
    path = files("sweeper.scheduler") / "costs" / f"{backend}.json"
    found = json.loads(path.read_text(encoding="utf-8"))

    assert found.keys() == {"measured", "fitted_on", "model"}
    assert isinstance(found["measured"], bool)
    assert found["fitted_on"]
    assert found["model"].keys() == {"backend", *CONSTANTS}
    assert found["model"] == shipped(backend).as_dict()


def test_an_unknown_backend_takes_the_gpu_model() -> None:
    assert shipped("tpu") == shipped("gpu") != shipped("cpu")


def classes_for(trials: int) -> tuple[LatticeClass, ...]:
    """The lattice of the shipped CPU model for `trials` trials, equally many of 16 shapes."""
    model = shipped("cpu")
    cells = [Cell(plain_size(w, d), trials / 16) for w in (16, 32, 64, 128) for d in (1, 2, 3, 4)]
    prices = Prices(
        compile_s=lambda depth, widths: model.compile_s(depth, DIGITS, widths),
        lane_s=lambda width, depth: model.lane_s(width, depth, depth, DIGITS, "map", 4),
        carry_s=lambda width, depth: model.carry_s(width, depth, DIGITS),
    )
    return width_lattice(cells, prices)


def test_more_trials_justify_more_widths() -> None:
    few, many = (
        [len(known.run_widths) or 1 for known in classes_for(trials)] for trials in (64, 10_000)
    )

    assert len(few) == 1
    assert few[0] < sum(many) == 4
