"""A first round that compiles too much, or that a crash would waste, is reported."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sweeper.scheduler.classes import Bucket, Lane, Plan, ProgramClass
from sweeper.scheduler.plan_warnings import hardly_shared, long_round


def plan_of(*settings: object) -> Plan:
    """Twelve trials, and a class for each of the settings compiled in, or a padded one."""

    def class_of(own: object) -> ProgramClass:
        if isinstance(own, ProgramClass):
            return own
        strategy = "switch" if isinstance(own, list) else "exact"
        return ProgramClass("0f", json.dumps(own), strategy, "map", 4, "float32")

    programs = map(class_of, settings)
    lanes = tuple(Lane(number, 0, 1, "") for number in range(12))
    return Plan(tuple(programs), (Bucket(0, "0f", "inline", lanes),))


WIDTHS = [{"model.depth": 1, "model.width": width} for width in range(8)]


def test_programs_that_hardly_any_trials_share_are_reported() -> None:
    assert [*hardly_shared(plan_of(*WIDTHS), "auto")] == [
        "8 programs for the 12 trials of round 1, because they differ in model.width: search fewer "
        'values of these (step, base), or write execution.strategy = "switch"'
    ]
    assert not [*hardly_shared(plan_of(*WIDTHS), "process")]
    assert not [*hardly_shared(plan_of(*WIDTHS[:7]), "auto")]


SIZES = [{"train.batch_size": size, "model.width": 8} for size in range(8)]
BRANCHES = [[{**size, "model.width": width} for width in (8, 16)] for size in SIZES]


def padded(width: int, parts: str = "") -> ProgramClass:
    return ProgramClass(
        *("0f", "{}", "padded", "map", 4, "float32"),
        padded_width=width,
        padded_depth=1,
        padded_parts=parts,
    )


@pytest.mark.parametrize(
    ("settings", "strategy", "named", "advised"),
    [
        (WIDTHS, "padded", "model.width", 'execution.strategy = "switch"'),
        (
            [*WIDTHS[:4], *[padded(width) for width in (16, 32, 48, 64)]],
            "auto",
            "model.width",
            'execution.strategy = "switch"',
        ),
        (
            [padded(width, f"a=8x2,b={width}x1") for width in range(16, 144, 16)],
            "padded",
            "model.b.width",
            'execution.strategy = "switch"',
        ),
        (SIZES, "auto", "train.batch_size", ""),
        (BRANCHES, "switch", "train.batch_size", ""),
        (
            [{**size, "model.width": width} for size in SIZES[:2] for width in range(4)],
            "exact",
            "train.batch_size and model.width",
            'execution.strategy = "switch", or "padded" for an MLP',
        ),
        (
            [{"model.kind": "mlp"}, *[{}] * 7],
            "auto",
            "settings that change the program",
            '"switch"',
        ),
    ],
)
def test_only_strategies_that_compile_fewer_programs_are_advised(
    settings: list[object], strategy: str, named: str, advised: str
) -> None:
    (warning,) = hardly_shared(plan_of(*settings), strategy)
    assert f"because they differ in {named}: search" in warning
    if advised:
        assert warning.endswith(advised)
    else:
        assert warning.endswith("(step, base)")


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
