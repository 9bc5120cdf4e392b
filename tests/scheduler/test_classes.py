"""A class is named by the searched settings that it compiles in."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sweeper.config.search import CategoricalSearch, IntSearch
from sweeper.scheduler.classes import (
    Bucket,
    Lane,
    Plan,
    ProgramClass,
    Strategy,
    class_name,
    hardly_shared,
    long_round,
)

SEARCH = {
    "model.depth": IntSearch(type="int", low=1, high=4),
    "model.width": IntSearch(type="int", low=16, high=128, base=2),
    "model.activation": CategoricalSearch(type="categorical", choices=["relu", "tanh"]),
}
SMALL = {"model.depth": 2, "model.width": 64, "model.layer_norm": False, "train.batch_size": 64}
LARGE = {**SMALL, "model.depth": 3, "model.width": 128}


def program(strategy: Strategy, settings: object, **more: object) -> ProgramClass:
    return ProgramClass("0f", json.dumps(settings), strategy, "map", 4, "float32", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("named", "known"),
    [
        ("exact depth=2 width=64", program("exact", SMALL)),
        (
            "process depth=2 width=64 activation=tanh",
            program("process", SMALL | {"model.activation": "tanh"}),
        ),
        # set at run time, so not part of the class
        (
            "exact depth=2 width=64",
            program("exact", SMALL | {"model.activation": ["relu", "tanh"]}),
        ),
        (
            "padded depth<=4 width<=64 activation=relu",
            program("padded", {"model.activation": "relu"}, padded_width=64, padded_depth=4),
        ),
        ("padded a<=64x3 b<=32x1", program("padded", {}, padded_parts="a=64x3,b=32x1")),
        ("switch of 2 structures depth=2..3 width=64..128", program("switch", [SMALL, LARGE])),
        (
            "switch of 2 structures depth=2 width=64 activation=relu|tanh",
            program("switch", [SMALL | {"model.activation": name} for name in ("relu", "tanh")]),
        ),
    ],
)
def test_a_class_is_named_by_what_distinguishes_it(named: str, known: ProgramClass) -> None:
    assert class_name(known, SEARCH) == named


def test_programs_that_hardly_any_trials_share_are_reported() -> None:
    programs = tuple(program("exact", {"width": width}) for width in range(8))
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
