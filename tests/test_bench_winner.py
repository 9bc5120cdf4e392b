"""`scripts/bench_winner` ranks tools by their test scores, and names runs that failed."""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from tests.documents import ROOT


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return runpy.run_path(str(ROOT / "scripts" / "bench_winner"))


def test_ranks_are_of_tools_that_ran_on_every_split(script: dict[str, Any]) -> None:
    figure, (own, *others, last) = script["Figure"], script["RANKED"]
    runs = [
        figure("HI", 0, tool, test) for tool, test in zip((own, *others), (3, 1, 2, 4), strict=True)
    ]
    runs += [figure("HI", 1, tool, 0.5) for tool in (own, *others[:2])]
    runs += [figure("HI", 1, others[2], failed="exit 1"), figure("HI", 0, last, 9)]

    found = script["ranks"](runs)

    assert found == dict(zip((own, *others), (2, 3, 2.5, 2.5), strict=True))


def test_a_table_counts_once_in_the_ranks(script: dict[str, Any]) -> None:
    figure, (own, other, *_) = script["Figure"], script["RANKED"]
    runs = [figure("HI", 0, own, 1), figure("HI", 0, other, 2)]
    for seed in range(3):
        runs += [figure("churn", seed, own, 2), figure("churn", seed, other, 1)]

    assert script["ranks"](runs) == {own: 1.5, other: 1.5}


def test_the_report_has_means_times_and_the_gain_of_the_ensemble(script: dict[str, Any]) -> None:
    own = script["Figure"]("HI", 0, "sweeper", 0.82, 0.8, 44.0, 0.8, 4.0)
    runs = [own, replace(own, seed=1, test=0.84, single=0.8).without_times()]
    runs += [script["Figure"]("HI", 0, "lightgbm_default", failed="not finished in 1200 s")]

    *rows, _, said = script["report"](runs)

    assert rows[-1] == (
        "| `HI` | accuracy | 0.8000 ± 0.0000 | 0.8300 ± 0.0100, 44 s | not finished in 1200 s |"
    )
    assert said.startswith("The ensemble's error is 15.0 % below that of the best single trial")
    assert said.endswith("takes 4.0 s of a run (median), or 9 % of it (9 to 9).")


def test_a_tool_that_ran_on_some_splits_is_compared_on_these(script: dict[str, Any]) -> None:
    figure = script["Figure"]
    runs = [figure("HI", seed, "sweeper", 0.8 + seed / 10, single=0.7) for seed in range(2)]
    runs += [figure("HI", 1, "tabm", 0.85, wall_s=300.0)]

    *_, (title, _, row) = [[*script["report"](runs)][-3:]]

    assert "TabM" in title
    assert row == "| `HI` | 1 | 0.7000 | 0.9000 | 0.8500 |"
    assert not any("TabM" in line for line in [*script["report"](runs[:2])])


@pytest.mark.slow
def test_a_tool_gets_the_split_of_the_project(script: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.random(300), "id": range(300), "y": rng.random(300)})
    frame["kind"] = rng.choice(["a", "b"], 300)
    frame.to_parquet(tmp_path / "Males.parquet")
    table = replace(script["TABLES"]["Males"], target="y")
    script["TABLES"]["Males"] = table
    task = script["Task"]("Males", 3, tmp_path / "Males.parquet", tmp_path, True)
    task.write_study()

    found = task.theirs("gradient_boosting")

    import sweeper
    from sweeper.data.prepare import prepare

    study = sweeper.load_study(tmp_path / "study.toml", ["study.seed=3"])
    assert study.canonical()["data"]["drop"] == ["id"]
    data = prepare(study)
    y = [part[:, 0] * data.y_scale[0] + data.y_mean[0] for part in (data.y_train, data.y_test)]
    places = [np.abs(part[:, None] - frame["y"].to_numpy()).argmin(1) for part in y]
    rows = frame.drop(columns=["id", "y"]).assign(kind=frame["kind"].astype("category"))
    model = HistGradientBoostingRegressor(random_state=3)
    model.fit(rows.iloc[np.sort(places[0])], frame["y"].iloc[np.sort(places[0])])
    expected = model.score(rows.iloc[places[1]], frame["y"].iloc[places[1]])
    assert found.test == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_all_of_it_runs() -> None:
    import subprocess

    command = [sys.executable, str(ROOT / "scripts" / "bench_winner"), "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| `digits` | accuracy | 0." in done.stdout
