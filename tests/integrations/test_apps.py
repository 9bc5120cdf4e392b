"""The apps show several studies, without mixing their objectives."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from sweeper.rundir import RunDir
from tests.integrations import published
from tests.processes import ROOT

# the apps' libraries warn of each other
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("default")]
STUDIES = ROOT / "studies"


@pytest.fixture
def runs(run_dir: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory with runs/, in it two studies of val_loss and one of val_accuracy."""
    for name in ("first", "second", "third"):
        shutil.copytree(run_dir.root, tmp_path / "runs" / name)
    changed = {"objective": "val_accuracy", "direction": "maximize"}
    path = tmp_path / "runs" / "third" / "trials.parquet"
    table = parquet.read_table(path)
    for column, value in changed.items():
        place = table.schema.get_field_index(column)
        table = table.set_column(place, table.schema.field(place), pa.array([value] * len(table)))
    parquet.write_table(table, path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def streamlit() -> Any:
    from streamlit import cache_data
    from streamlit.testing.v1 import AppTest

    cache_data.clear()  # other tests have other files in directories of these names
    return AppTest.from_file(str(STUDIES / "streamlit_app.py"), default_timeout=120)


def test_streamlit_shows_the_runs_of_an_objective(run_dir: RunDir, runs: Path) -> None:
    app = streamlit().run()
    assert not app.exception
    assert app.sidebar.selectbox[0].options == ["val_accuracy", "val_loss"]
    assert app.sidebar.multiselect[0].value == ["third"]
    app.sidebar.selectbox[0].select("val_loss").run()
    assert not app.exception
    app.sidebar.multiselect[0].set_value(["first", "second"]).run()
    assert not app.exception
    shown = app.dataframe[0].value
    rows = published.rows(run_dir)
    best = published.best(run_dir, 1)
    assert len(shown) == 2 * len(rows)
    assert shown["value"].iloc[0] == rows[best[0]]["value"]
    assert [it.value for it in app.header] == [
        "Trials",
        "History",
        "Curves",
        "Parallel coordinates",
    ]
    app.sidebar.multiselect[0].set_value([]).run()
    assert not app.exception
    assert [it.value for it in app.info] == ["choose a run"]


def test_apps_do_not_call_a_trial_the_best_that_violates_a_constraint(
    run_dir: RunDir, runs: Path
) -> None:
    """Of the study that is maximized, only the trial with the least value meets them."""
    (only,) = published.best(run_dir, 1)
    path = runs / "runs" / "third" / "trials.parquet"
    table = parquet.read_table(path)
    feasible = pa.array([number == only for number in table["trial_number"].to_pylist()])
    parquet.write_table(table.append_column("feasible", feasible), path)
    app = streamlit().run()
    assert not app.exception
    assert app.dataframe[0].value["trial_number"].iloc[0] == only
    _, found = runpy.run_path(str(STUDIES / "marimo_app.py"))["app"].run()
    assert found["complete"]["trial_number"].iloc[0] == only
    (so_far,) = found["lines"].data
    assert pd.Series(so_far.y).dropna().unique() == [published.rows(run_dir)[only]["value"]]


def test_streamlit_says_that_no_study_was_run(runs: Path) -> None:
    app = streamlit().run()
    app.sidebar.text_input[0].set_value("nowhere").run()
    assert not app.exception
    assert [it.value for it in app.info] == ["no study has been run in nowhere/"]


@pytest.mark.parametrize("state", ["begun", "earlier"])
def test_apps_say_that_there_is_nothing_to_show(runs: Path, state: str) -> None:
    """A study has no rows when it begins; those of earlier versions lack the objective."""
    for path in (runs / "runs").glob("*/trials.parquet"):
        table = parquet.read_table(path)
        changed = table[:0] if state == "begun" else table.drop_columns(["objective", "direction"])
        parquet.write_table(changed, path)
    app = streamlit().run()
    assert not app.exception
    assert [it.value for it in app.info] == ["no trials to show"]
    earlier = "studies of an earlier version are missing: `sweeper verify DIR --repair` adds them"
    assert [it.value for it in app.warning] == ([earlier] if state == "earlier" else [])
    outputs, found = runpy.run_path(str(STUDIES / "marimo_app.py"))["app"].run()
    assert "trials" not in found
    said = "no trials to show" if state == "begun" else "studies of an earlier version"
    assert said in outputs[-1].text


def test_marimo_keeps_what_is_selected_when_files_are_read_again(runs: Path) -> None:
    app = runpy.run_path(str(STUDIES / "marimo_app.py"))["app"]
    _, found = app.run()
    found["objective"]._update(["val_loss"])
    found["table"]._update(["0", "7"])
    shown = found["table"].value
    assert found["kept"]["objective"] == "val_loss"
    assert found["kept"]["trials"] == {*zip(shown["run"], shown["trial_number"], strict=True)}


def test_marimo_shows_the_runs_of_an_objective(run_dir: RunDir, runs: Path) -> None:
    app = runpy.run_path(str(STUDIES / "marimo_app.py"))["app"]
    _, found = app.run()
    assert found["objective"].value == "val_accuracy"
    assert {*found["trials"]["run"]} == {"third"}
    assert len(found["every"]) == 3 * len(published.rows(run_dir))
    curves = published.curves(run_dir, int(found["table"].value["trial_number"].iloc[-1]))
    drawn = {line.y.tolist()[0] for line in found["curves"].data}
    assert drawn >= {curve[0][1] for curve in curves.values()}
    assert len(found["parallel"].data[0].dimensions) == 4
