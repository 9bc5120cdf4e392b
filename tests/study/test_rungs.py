"""Pruners judge trials at the same epochs wherever these are computed."""

from __future__ import annotations

from itertools import islice

import pytest

from sweeper.study.rungs import is_at_interval, is_rung, rungs, rungs_of
from tests.round_machine import study as config


@pytest.mark.parametrize(
    ("pruner", "expected"),
    [
        ("{name='none'}", ()),
        ("{name='asha'}", (1, 4)),
        ("{name='hyperband'}", (1, 3)),
        ("{name='hyperband',min_resource=2,reduction_factor=2}", (2, 4)),
        ("{name='patient',patience=1,wrapped={name='asha',reduction_factor=2}}", (1, 2, 4)),
        ("{name='patient',patience=1}", ()),
    ],
)
def test_pruners_with_rungs_list_them(pruner: str, expected: tuple[int, ...]) -> None:
    assert rungs_of(config([f"study.pruner={pruner}"])) == expected


def test_each_rung_is_a_multiple_of_the_one_before() -> None:
    assert [*islice(rungs(2, 3), 4)] == [2, 6, 18, 54]
    assert [epoch for epoch in range(1, 60) if is_rung(epoch, 2, 3)] == [2, 6, 18, 54]


@pytest.mark.parametrize(
    ("n_warmup_steps", "interval_steps", "expected"),
    [(0, 1, [1, 2, 3, 4, 5, 6]), (0, 3, [1, 3, 6]), (1, 3, [1, 4]), (2, 3, [2, 5])],
)
def test_intervals_begin_after_the_warm_up(
    n_warmup_steps: int, interval_steps: int, expected: list[int]
) -> None:
    epochs = range(1, 7)
    assert [n for n in epochs if is_at_interval(n, n_warmup_steps, interval_steps)] == expected
