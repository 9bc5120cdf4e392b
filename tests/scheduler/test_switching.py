"""Switch classes hold every structure of the new trials, and distribute their lanes evenly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.config import parse
from sweeper.scheduler.classes import LiveTrial, Plan, Policy, ProgramClass, Switching
from sweeper.scheduler.cost import shipped
from sweeper.scheduler.forecast import Forecast
from sweeper.scheduler.plan import plan_round
from sweeper.scheduler.population import one_of_each
from sweeper.scheduler.signature import Structure, canonical, may_draw
from sweeper.scheduler.switching import MAX_BRANCHES, branch_settings, longest_s, spread
from sweeper.trial import TrialSpec
from tests.config.conftest import VALID

POLICY = Policy(
    "switch",
    "map",
    "float32",
    trials_a_structure={"mlp": 1.0},
    forecast=Forecast(shipped("cpu"), "map", 4, {}),
    switching=Switching(space=(), lanes=6),
)


def structure_of(spec: TrialSpec) -> Structure:
    own = {
        "train.batch_size": spec.params.get("rows", 64),
        "train.program": "supervised",
        "width": spec.params["width"],
        "model.dropout": spec.params.get("dropout", False),
    }
    return Structure(str(own), canonical(own), int(spec.params["width"]))


def live(*widths: int, rows: int = 64, class_id: str = "") -> list[LiveTrial]:
    return [
        LiveTrial(TrialSpec(number, {"width": width, "rows": rows}, {}, 0), 4, class_id=class_id)
        for number, width in enumerate(widths)
    ]


def widths(program: ProgramClass) -> list[int]:
    return [json.loads(branch)["width"] for branch in branch_settings(program)]


def test_trials_of_several_structures_are_one_bucket_of_one_class() -> None:
    found = plan_round(live(8, 32, 16, 8), (), structure_of, POLICY)

    (program,) = found.classes
    assert (program.strategy, program.lane_loop, program.capacity) == ("switch", "map", 8)
    assert widths(program) == [32, 16, 8]
    assert [branch["width"] for branch in program.branches] == [32, 16, 8]
    assert [bucket.numbers for bucket in found.buckets] == [(0, 1, 2, 3)]
    assert Plan.from_dict(json.loads(json.dumps(found.as_dict()))) == found


def test_known_classes_are_joined_and_missing_ones_are_made() -> None:
    (known,) = plan_round(live(8, 16), (), structure_of, POLICY).classes

    found = plan_round(live(16, 64, 8), [known], structure_of, POLICY)

    assert [widths(program) for program in found.classes] == [[64]]
    placed = {number: bucket.class_id for bucket in found.buckets for number in bucket.numbers}
    assert placed == {0: known.class_id, 1: found.classes[0].class_id, 2: known.class_id}


def test_a_small_space_is_compiled_into_one_class_that_is_planned_once() -> None:
    space = tuple({"width": width, "rows": 64} for width in (8, 16, 32))
    policy = replace(POLICY, switching=Switching(space, 6))

    (first,) = plan_round(live(16), (), structure_of, policy).classes

    assert widths(first) == [32, 16, 8]
    assert plan_round(live(8, 32), [first], structure_of, policy).classes == ()


def test_devices_affect_predictions_but_not_classes() -> None:
    assert POLICY.switching is not None
    on_four = replace(POLICY, switching=replace(POLICY.switching, devices=4))

    one, four = (plan_round(live(8, 16), (), structure_of, policy) for policy in (POLICY, on_four))

    assert one.classes == four.classes


def test_trials_with_different_rows_per_step_are_in_different_classes() -> None:
    trials = [*live(8), replace(live(8, 16, rows=32)[1])]

    found = plan_round(trials, (), structure_of, POLICY)

    assert sorted(map(widths, found.classes)) == [[8], [16]]


def test_trials_that_may_draw_random_numbers_are_in_separate_classes() -> None:
    """They are compiled differently, and each has the bits of the trial alone."""
    trials = live(8, 16, 32)
    trials[1] = LiveTrial(TrialSpec(1, {"width": 16, "dropout": True}, {}, 0), 4)

    found = plan_round(trials, (), structure_of, POLICY)

    assert sorted(map(widths, found.classes)) == [[16], [32, 8]]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        ({"model.dropout": False, "model.a.dropout": False}, False),
        ({"model.dropout": True}, True),
        ({"model.a.dropout": True}, True),
        ({"train.program": "alternating"}, False),
        ({"model.kind": "mlp", "model.a.kind": "mlp", "train.losses.a.kind": "mse"}, False),
        ({"model.kind": "python"}, True),
        ({"model.a.kind": "mlp", "model.b.kind": "python"}, True),
        ({"train.program": "coupled"}, True),
        ({"train.program": "heat:HeatEquation"}, True),
    ],
)
def test_the_compiled_settings_determine_whether_a_program_may_draw(
    settings: dict[str, object], expected: bool
) -> None:
    assert may_draw(canonical({"train.program": "supervised", **settings})) is expected


def test_too_many_structures_to_compile_in_time_are_divided_evenly() -> None:
    found = plan_round(live(*range(1, 2 * MAX_BRANCHES + 2)), (), structure_of, POLICY)

    assert [len(program.branches) for program in found.classes] == [11, 11, 11]


@pytest.mark.parametrize(
    ("search", "n_trials", "expected"),
    [
        ("model.depth={type='int',low=1,high=4}", 8, 4),
        ("model.depth={type='int',low=1,high=4}", 3, 0),  # fewer trials than structures
        ("model.width={type='int',low=1,high=64}", 99, 0),
        ("optimizer.lr={type='float',low=1e-4,high=1e-2}", 8, 1),
        ("train.batch_size={type='categorical',choices=[16,32]}", 2, 2),
        ("train.batch_size={type='categorical',choices=[16,32]}", 1, 0),
        ("model.activation={type='categorical',choices=['relu','tanh']}", 8, 1),
    ],
)
def test_a_space_of_few_structures_has_a_trial_of_each(
    search: str, n_trials: int, expected: int
) -> None:
    text = VALID.partition("[search]")[0]
    config = parse(text, Path("study.toml"), [f"search.{search}"])
    told = {"model.activation": ("relu", "tanh")}

    found = one_of_each(config, told, n_trials, MAX_BRANCHES)

    assert len(found) == expected
    structures = {tuple(config.settings_of(params).structure().items()) for params in found}
    assert len(structures) == expected


def test_no_batch_size_has_more_structures_than_a_class_has_branches() -> None:
    text = VALID.partition("[search]")[0]
    search = (
        "search.train.batch_size={type='categorical',choices=[16,32]}",
        "search.model.width={type='int',low=1,high=20,when={'train.batch_size'=16}}",
    )
    config = parse(text, Path("study.toml"), [*search])
    assert config.n_structures == 21
    assert one_of_each(config, {}, 99, MAX_BRANCHES) == ()
    assert len(one_of_each(config, {}, 99, 20)) == 21
    assert one_of_each(config, {}, 20, 20) == ()
    # a study that began before keeps its classes
    assert len(one_of_each(config.with_edition(3), {}, 99, MAX_BRANCHES)) == 21


def test_a_setting_of_some_structures_is_only_drawn_for_those() -> None:
    text = VALID.partition("[search]")[0]
    schedule = (
        "search.optimizer.schedule.name={type='categorical',choices=['constant','one_cycle']}"
    )
    warmup = (
        "search.optimizer.schedule.warmup={type='float',low=0.1,high=0.3,"
        "when={'optimizer.schedule.name'='one_cycle'}}"
    )
    config = parse(text, Path("study.toml"), [schedule, warmup])

    found = one_of_each(config, {}, 8, MAX_BRANCHES)
    assert [set(params) for params in found] == [{"name"}, {"name", "warmup"}]


loads = st.lists(st.floats(0, 100), min_size=1, max_size=24)


@given(loads, st.integers(1, 8))
def test_every_lane_has_one_device_with_room(work: Sequence[float], devices: int) -> None:
    found = spread(work, devices)

    assert sorted(lane for lanes in found for lane in lanes) == list(range(len(work)))
    assert max(map(len, found)) == -(-len(work) // devices)


def test_the_longest_lanes_are_on_different_devices() -> None:
    assert spread([1, 5, 1, 4, 1], 2) == ((1, 2), (3, 0, 4))
    assert longest_s([1, 5, 1, 4, 1], 2) == 6
