"""The apps show several studies, without mixing their objectives."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

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
    from streamlit.testing.v1 import AppTest

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


def test_streamlit_says_that_no_study_was_run(runs: Path) -> None:
    app = streamlit().run()
    app.sidebar.text_input[0].set_value("nowhere").run()
    assert not app.exception
    assert [it.value for it in app.info] == ["no study has been run in nowhere/"]


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
