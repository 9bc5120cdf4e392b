"""A first round that compiles too much, or that a crash would waste, is reported."""

from __future__ import annotations

from dataclasses import replace

from sweeper.scheduler.classes import Bucket, Lane, Plan, ProgramClass
from sweeper.scheduler.plan_warnings import hardly_shared, long_round


def test_programs_that_hardly_any_trials_share_are_reported() -> None:
    programs = tuple(
        ProgramClass("0f", f'{{"width": {width}}}', "exact", "map", 4, "float32")
        for width in range(8)
    )
    lanes = tuple(Lane(number, 0, 1, "") for number in range(12))
    plan = Plan(programs, (Bucket(0, "0f", "inline", lanes),))

    warning = next(hardly_shared(plan, "auto"))
    assert warning.startswith("8 programs for the 12 trials of round 1")
    assert not [*hardly_shared(plan, "process")]
    assert not [*hardly_shared(replace(plan, classes=programs[:7]), "auto")]


def test_a_long_round_is_reported_with_a_number_of_epochs_that_shortens_it() -> None:
    lanes = (Lane(0, 0, 100, ""), Lane(1, 0, 80, ""))
    buckets = [Bucket(index, "0f", "inline", lanes, 1000.0) for index in range(6)]

    (warning,) = long_round(Plan((), tuple(buckets)), 2)
    assert warning == (
        "round 1 may take 50 minutes, and a crash would lose all of it; "
        "write schedule.round_epochs = 20 to commit about every 10 minutes"
    )
    assert not [*long_round(Plan((), tuple(buckets)), 6)]
    (alone,) = long_round(Plan((), (replace(buckets[0], predicted_train_s=3000.0),)), 6)
    assert "50 minutes" in alone
    assert not [*long_round(Plan((), (replace(buckets[0], predicted_train_s=None),)), 1)]
    short = Bucket(0, "0f", "inline", (Lane(0, 0, 1, ""),), 9000.0)
    assert not [*long_round(Plan((), (short,)), 1)]
