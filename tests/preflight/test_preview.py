"""Hints in the preview of a study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sweeper import api
from sweeper.preflight.preview import idle_threads, target_range
from tests.in_process import study_in
from tests.small_studies import DIGITS, PARTS


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
    assert target_range(values[:1])["least"] == 5_799_970
    assert target_range(np.full(3, 2.5e-8))["mean"] == 2.5e-8


USERS = """
import equinox as eqx
import jax
import optax


def net(in_size, out_size, seed, key):
    return eqx.nn.Linear(in_size, out_size, key=jax.random.fold_in(key, seed))


def make(lr, seed):
    return optax.adam(lr * (1 + seed % 7))
"""
_NET = "{kind='python',function='wide_users:net'"
_DECAY = "optimizer.weight_decay=0.1"


@pytest.mark.parametrize(
    ("text", "key", "settings"),
    [
        (DIGITS, "model.seed", (f"model={_NET}}}", _DECAY)),
        (PARTS, "model.b.seed", (f"model.b={_NET},input='a'}}", _DECAY)),
        (DIGITS, "optimizer.seed", ("optimizer={name='wide_users:make',lr=1e-3}",)),
    ],
)
def test_an_argument_may_be_one_of_very_many_integers(
    text: str, key: str, settings: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "wide_users.py").write_text(USERS, encoding="utf-8")
    bound = "study.constraints=[{metric='n_parameters',max=100000}]"
    wide = f"search={{{key}={{type='int',low=0,high=2147483647}}}}"
    config = study_in(tmp_path, text, *settings, bound, wide)
    assert api.check(config).name == config.study.name
    assert api.plan(config).as_dict()["structures_in_space"] == 2**31
