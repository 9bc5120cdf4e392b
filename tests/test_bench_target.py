"""`scripts/bench_target` compares searches of the same rows, and shows what each one took."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sweeper
from sweeper.data.prepare import prepare
from tests.documents import ROOT

DIGITS = ROOT / "studies" / "digits.toml"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return runpy.run_path(str(ROOT / "scripts" / "bench_target"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with small tables of the same columns as those that are measured."""
    rng = np.random.default_rng(0)
    rows = 600
    frame = pd.DataFrame(
        {
            "numbers": rng.normal(size=rows),
            "gaps": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows)),
            "words": rng.choice(["a", "b", "c"], rows),
            "median_house_value": rng.normal(200, 100, rows),
            "Exited": rng.integers(0, 2, rows),
            "income": rng.choice(["<=50K", ">50K"], rows),
        }
    ).assign(RowNumber=range(rows), CustomerId=range(rows), Surname="x")
    for name in ("adult", "churn", "housing"):
        frame.to_parquet(tmp_path / f"{name}.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["adult", "churn", "digits", "housing"])
@pytest.mark.parametrize("seed", [0, 1])
def test_tools_train_on_the_rows_of_the_study(
    name: str, seed: int, script: dict[str, Any], folder: Path
) -> None:
    table = script["known_tables"](folder, folder)[name]
    space = script["space_of"](table, script["Size"](), seed)
    ours = prepare(sweeper.load_study(DIGITS, space.overrides()))
    theirs = space.problem.load()

    np.testing.assert_allclose(theirs.x, ours.x_train, atol=1e-5)
    np.testing.assert_allclose(theirs.x_val, ours.x_val, atol=1e-5)
    np.testing.assert_allclose(theirs.y, ours.y_train.squeeze(), atol=1e-5)
    np.testing.assert_allclose(theirs.y_val, ours.y_val.squeeze(), atol=1e-5)
    np.testing.assert_allclose(theirs.x_test, ours.x_test, atol=1e-5)
    np.testing.assert_allclose(theirs.y_test, ours.y_test.squeeze(), atol=1e-5)


def test_each_way_is_a_study_that_stops_at_the_target(script: dict[str, Any], folder: Path) -> None:
    target = script["Figure"]("", 0, "sklearn", "", 30.0, 0.0, 0.97, 0.97)
    for table in script["known_tables"](folder, folder).values():
        space = script["space_of"](table, script["Size"](), 3)
        for way in script["WAYS"]:
            config = sweeper.load_study(DIGITS, script["until"](target, way, space).overrides())
            assert config.study.stop is not None
            assert config.study.stop.value == pytest.approx(0.97, abs=1e-5)
            assert (config.study.n_trials, config.study.seed, config.max_epochs) == (256, 3, 64)
            assert config.schedule.round_epochs is None


def test_ratios_are_to_the_run_of_the_same_seed(script: dict[str, Any]) -> None:
    figure = script["Figure"]
    runs = [
        figure("digits", 0, "sklearn", "", 30.0, 60.0, 0.97, 0.97),
        figure("digits", 0, "sklearn", "halving", 10.0, 15.0, 0.97, 0.98),
        figure("digits", 0, "sklearn", "none", 15.0, 30.0, 0.97, 0.97 - 1e-7),
        figure("digits", 1, "sklearn", "", 40.0, 80.0, 0.98, 0.98),
        figure("digits", 1, "sklearn", "halving", 8.0, 20.0, 0.98, 0.975),
        figure("digits", 0, "torch", "", 6.0, 0.0, 0.96, 0.96),
        figure("digits", 0, "torch", "halving", 0.0, 0.0, 0.96, 0.96, failed="too slow"),
        figure("digits", 0, "ray", "", 0.0, 0.0, 0.0, 0.0, failed="too slow"),
    ]

    *_, first, second = script["table"](runs)

    assert first == (
        "| `digits` | scikit-learn, RandomizedSearchCV | 0.9750 (0.9700 to 0.9800) | 35 (30 to 40) "
        "| 3.0, CPU 4.0, 1 of 2 missed |  |  | 2.0, CPU 2.0 |"
    )
    assert second == "|  | PyTorch and joblib | 0.9600 | 6 | too slow |  |  |  |"


def test_a_tool_is_as_good_as_another_from_when_its_score_rises(script: dict[str, Any]) -> None:
    figure = script["Figure"]
    rises = [*script["rising"]([(9.0, 0.97), (4.0, 0.9), (6.0, 0.8), (12.0, 0.96)])]
    runs = [
        figure("digits", 0, "sklearn", "", 30.0, 60.0, 0.97, 0.97, test=0.96),
        figure("digits", 0, "sklearn", "halving", 10.0, 15.0, 0.97, 0.98),
        figure("digits", 0, "torch", "", 20.0, 0.0, 0.97, 0.97, rises=rises),
        figure("digits", 0, "realmlp", "", 0.0, 0.0, 0.0, 0.0, failed="not finished in 600 s"),
    ]

    assert rises == [(4.0, 0.9), (9.0, 0.97)]
    _, _, first, second, third = script["results_table"](runs)
    title = "scikit-learn, RandomizedSearchCV"
    assert first == f"| `digits` | {title} | 30 | 0.9700 | 0.9600 | 30 |  |"
    assert second == "|  | PyTorch and joblib | 20 | 0.9700 |  | 9 |  |"
    assert third == "|  | RealMLP-TD | not finished in 600 s |  |  |  |  |"


def test_idle_core_seconds_add_up_by_what_the_others_do(script: dict[str, Any]) -> None:
    def span(place: str, activity: str, began: float, ended: float) -> dict[str, Any]:
        known = {"place": place, "activity": activity, "round": 1, "bucket_id": 0}
        return {**known, "began": began, "ended": ended}

    spans = [
        span("thread 0", "train", 0, 4),
        span("thread 1", "train", 0, 3),
        span("program", "commit", 4, 6),
        span("thread 0", "train", 7, 8),
        span("thread 1", "compile", 7, 8),
        span("program", "publish", 8, 20),
    ]
    buckets = [{"round": 1, "bucket_id": 0, "epochs_to": 3}]

    found = script["idle_reasons"](spans, buckets, (0, 8), 2)

    assert found == {"committing": 2, "idle": 2, "tail of a round, up to epoch 3": 1}


def test_figures_of_a_run_replace_those_that_it_had(script: dict[str, Any]) -> None:
    first = {"table": "digits", "parallel": 32, "idle": 0.09}
    other = {"table": "digits", "parallel": None, "idle": 0.08}
    again = {**first, "idle": 0.07}

    assert script["join"]([first, other], again) == [other, again]


@pytest.mark.slow
def test_a_tiny_run_measures_each_way(script: dict[str, Any]) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "bench_target"), "--tiny"]
    done = subprocess.run([*command, "--tools", "sklearn"], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    head, first, *_ = (line for line in done.stdout.splitlines() if line.startswith("| "))
    assert "until as good as" in head
    row = first.split("|")[5:-1]
    assert len(row) == len(script["WAYS"])
    assert all(cell.strip() for cell in row)
