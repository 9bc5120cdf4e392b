"""The plan is pure: identical structures share a program, each trial is in one bucket."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.scheduler.capacity import LaneLoop, capacity_for
from sweeper.scheduler.cost import shipped
from sweeper.scheduler.forecast import Forecast
from sweeper.scheduler.plan import LiveTrial, Plan, Policy, plan_round
from sweeper.scheduler.signature import Structure
from sweeper.trial import TrialSpec

NOTHING_KNOWN = Forecast(shipped("cpu"), "map", 4, {})
POLICY = Policy(
    "auto",
    "map",
    "float32",
    trials_a_structure={"mlp": 1.0},
    forecast=NOTHING_KNOWN,
    stops=(5, 10, 15),
)


def structure_of(spec: TrialSpec) -> Structure:
    width = spec.params["width"]
    return Structure(f"s{width}", f'{{"width":{width}}}', int(width))


def trial(number: int, width: int, *, epochs: int = 20, done: int = 0) -> LiveTrial:
    return LiveTrial(TrialSpec(number, {"width": width, "lr": 0.1 * number}, {}, 0), epochs, done)


def lanes(found: Plan) -> dict[str, list[tuple[int, ...]]]:
    by_class: dict[str, list[tuple[int, ...]]] = {}
    for bucket in found.buckets:
        by_class.setdefault(bucket.class_id, []).append(bucket.numbers)
    return {class_id: sorted(numbers) for class_id, numbers in by_class.items()}


live_trials = st.lists(st.sampled_from([8, 16, 32, 64]), min_size=1, max_size=40).map(
    lambda widths: [trial(number, width) for number, width in enumerate(widths)]
)
policies = st.builds(
    Policy,
    st.sampled_from(["auto", "exact", "process"]),
    st.sampled_from(["map", "vmap"]),
    st.just("float32"),
    st.sampled_from([{"mlp": 0.0}, {"mlp": 1.0}, {"mlp": 4.0}]),
    st.just(NOTHING_KNOWN),
    st.just((5, 10)),
)


@given(live_trials, policies)
def test_each_trial_is_planned_once_within_capacity(live: list[LiveTrial], policy: Policy) -> None:
    found = plan_round(live, (), structure_of, policy)

    assert Counter(n for b in found.buckets for n in b.numbers) == Counter(range(len(live)))
    capacity = {program.class_id: program.capacity for program in found.classes}
    assert all(1 <= len(b.lanes) <= capacity[b.class_id] for b in found.buckets)


@given(live_trials, policies)
def test_a_plan_survives_json(live: list[LiveTrial], policy: Policy) -> None:
    found = plan_round(live, (), structure_of, policy)

    assert Plan.from_dict(json.loads(json.dumps(found.as_dict()))) == found


@given(live_trials, policies, st.randoms())
def test_the_order_of_trials_does_not_matter(live: list[LiveTrial], policy: Policy, chance) -> None:
    shuffled = live.copy()
    chance.shuffle(shuffled)

    assert lanes(plan_round(shuffled, (), structure_of, policy)) == lanes(
        plan_round(live, (), structure_of, policy)
    )


def test_traced_hyperparameters_never_split_a_bucket() -> None:
    found = plan_round([trial(n, 16) for n in range(4)], (), structure_of, POLICY)

    assert [bucket.numbers for bucket in found.buckets] == [(0, 1, 2, 3)]


def test_trials_without_a_matching_structure_train_in_a_process() -> None:
    found = plan_round([trial(0, 16), trial(1, 16), trial(2, 99)], (), structure_of, POLICY)

    sides = {bucket.numbers: bucket.side for bucket in found.buckets}
    assert sides == {(0, 1): "inline", (2,): "process"}
    assert {program.strategy for program in found.classes} == {"exact", "process"}


@pytest.mark.parametrize("lane_loop", ["map", "vmap"])
def test_a_class_in_a_process_runs_its_lanes_like_any_other(
    lane_loop: Literal["map", "vmap"],
) -> None:
    policy = replace(POLICY, lane_loop=lane_loop, members=3)

    (program,) = plan_round([trial(0, 16)], (), structure_of, policy).classes

    assert (program.strategy, program.lane_loop, program.capacity) == ("process", lane_loop, 3)


def test_a_structure_that_will_occur_again_stays_in_a_thread() -> None:
    likely = replace(POLICY, trials_a_structure={"mlp": 4.0})

    assert plan_round([trial(0, 16)], (), structure_of, likely).buckets[0].side == "inline"


def test_a_trial_keeps_its_class_when_the_others_have_ended() -> None:
    first = plan_round([trial(0, 16), trial(1, 16)], (), structure_of, POLICY)
    known = first.classes
    left = replace(trial(1, 16, done=5), class_id=known[0].class_id, checkpoint="file")

    second = plan_round([left, trial(2, 16)], known, structure_of, POLICY)

    assert second.classes == ()
    assert [bucket.numbers for bucket in second.buckets] == [(1, 2)]


def test_a_round_ends_at_the_next_stop_or_with_the_trial() -> None:
    live = [trial(0, 16), trial(1, 16, done=5), trial(2, 16, done=15), trial(3, 16, epochs=3)]

    (bucket,) = plan_round(live, (), structure_of, POLICY).buckets

    assert [(lane.epoch_from, lane.epoch_to) for lane in bucket.lanes] == [
        (0, 5),
        (5, 10),
        (15, 20),
        (0, 3),
    ]


@pytest.mark.parametrize(("count", "capacity"), [(1, 1), (2, 2), (3, 4), (5, 8), (100, 128)])
def test_a_vmap_class_takes_its_capacity_from_the_ladder(count: int, capacity: int) -> None:
    side_by_side = replace(POLICY, lane_loop="vmap", strategy="exact")

    found = plan_round([trial(n, 16) for n in range(count)], (), structure_of, side_by_side)

    assert [program.capacity for program in found.classes] == [capacity]


def test_the_longest_buckets_come_first() -> None:
    live = [trial(n, width) for n, width in enumerate([8, 8, 64, 64, 32, 32])]

    found = plan_round(live, (), structure_of, POLICY)

    assert [bucket.numbers for bucket in found.buckets] == [(2, 3), (4, 5), (0, 1)]


@pytest.mark.parametrize(
    ("lane_loop", "switching", "expected"),
    [
        ("vmap", "cond", [(0, 2), (1,)]),
        ("vmap", "flag", [(0, 1, 2)]),
        ("map", "cond", [(0, 1, 2)]),
    ],
)
def test_trials_with_different_epochs_are_separated_only_if_they_would_wait(
    lane_loop: LaneLoop, switching: str, expected: list[tuple[int, ...]]
) -> None:
    def phased(spec: TrialSpec) -> Structure:
        return Structure("s", json.dumps({"train.switching": switching}), 16)

    live = [trial(number, 16, done=done) for number, done in enumerate((5, 0, 5))]

    found = plan_round(live, (), phased, replace(POLICY, lane_loop=lane_loop))

    (buckets,) = lanes(found).values()
    assert buckets == expected


@pytest.mark.parametrize(
    ("lane_loop", "devices", "expected"),
    [("vmap", 1, 64), ("vmap", 4, 16), ("vmap", 3, 32), ("map", 4, 4)],
)
def test_lanes_side_by_side_are_distributed_over_devices(
    lane_loop: LaneLoop, devices: int, expected: int
) -> None:
    assert capacity_for(lane_loop, 64, devices) == expected
