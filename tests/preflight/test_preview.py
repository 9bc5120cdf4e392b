"""Hints in the preview of a study."""

from __future__ import annotations

import numpy as np
import pytest

from sweeper.preflight.preview import idle_threads, target_range


@pytest.mark.parametrize(
    ("parallel", "n_trials", "threads", "better"),
    [(8, 64, 16, 16), (8, 10, 16, 10), (8, 64, 8, None), (8, 8, 16, None), (32, 64, 2, None)],
)
def test_too_few_trials_at_a_time_are_reported(
    parallel: int, n_trials: int, threads: int, better: int | None
) -> None:
    hints = [*idle_threads(parallel, n_trials, threads)]
    assert [hint.partition("; ")[2] for hint in hints] == [
        f"schedule.parallel = {number} uses more" for number in [better] if number
    ]


def test_the_range_of_a_target_is_not_blurred_by_scaling() -> None:
    rng = np.random.default_rng(0)
    counts = rng.poisson(2.0, (500, 1)).astype(np.float64)
    mean, scale = counts.mean(0), counts.std(0)
    y = ((counts - mean) / scale).astype(np.float32)
    assert target_range(y[:, 0] * scale + mean)["least"] == 0.0


def test_the_range_of_a_target_far_from_zero_has_digits_of_its_own() -> None:
    values = 5_800_000 + 29.0 * np.array([-1.0, 1.0])
    expected = {"mean": 5_800_000, "deviation": 29, "least": 5_799_971, "greatest": 5_800_029}
    assert target_range(values) == expected
    assert target_range(values[:1])["least"] == 5_799_971
