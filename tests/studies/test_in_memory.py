"""A study with its rows in memory can be killed and resumed, and its directory holds everything."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pyarrow import parquet

import sweeper
from sweeper import api
from sweeper.data.lint import data_warnings
from sweeper.data.prepare import prepare
from sweeper.errors import DataError, StudyError
from sweeper.results.events import StudyOpened
from sweeper.rundir import RunDir
from sweeper.sweep.session.reconcile import reconcile, refusals
from sweeper.sweep.verify import verify
from tests.digest import deterministic_digest
from tests.processes import ROOT

RNG = np.random.default_rng(0)
HOUSES = pd.DataFrame({"area": RNG.normal(100.0, 20.0, 200), "city": RNG.choice(["a", "b"], 200)})
HOUSES["price"] = 3 * HOUSES["area"] + 10 * (HOUSES["city"] == "a")
SETTINGS = {
    "study.n_trials": 4,
    "train": {"epochs": 3, "batch_size": 32},
    "schedule": {"round_epochs": 1, "parallel": 2},
    "search": {"optimizer.lr": {"type": "float", "low": 1e-3, "high": 1e-2}},
    "model": {"depth": 1, "width": 8},
}
SCRIPT = """
import sweeper
from sweeper.faults import plan_faults
from tests.studies.test_in_memory import HOUSES, SETTINGS
plan_faults("ledger.close:end=kill@2")
sweeper.run(SETTINGS, data=HOUSES, target="price")
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """The run directory of an unbroken run."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    results = sweeper.run({**SETTINGS, "results.dir": directory}, data=HOUSES, target="price")
    assert results.state == "finished"
    return results.run_dir


def test_a_killed_study_resumes_with_the_same_rows(
    whole: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, env=there)
    assert done.returncode == -signal.SIGKILL
    written = (tmp_path / "runs" / "study" / "data.parquet").stat().st_mtime_ns
    monkeypatch.chdir(tmp_path)

    results = sweeper.run(SETTINGS, data=HOUSES.copy(), target="price")

    assert deterministic_digest(results.run_dir) == deterministic_digest(whole)
    # the same rows are not written again
    assert results.run_dir.rows.stat().st_mtime_ns == written


def test_other_rows_are_refused(whole: RunDir) -> None:
    given = {**SETTINGS, "results.dir": whole.root}
    other = HOUSES.assign(area=HOUSES["area"] + 1e-9)
    began = f"the data has changed since the study in {whole.root} began; restore it"
    for use in (sweeper.run, api.check):
        study = sweeper.load_study(given, data=other, target="price")
        with pytest.raises(StudyError, match=f"^in the mapping: data: {began}"):
            use(study)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("settings", "follows"),
    [
        ({}, {"data.drop": True, "train.batch_size": True, "search.model.width": True}),
        ({"data": {"scale": "none"}, "study.seed": 1}, {"data.scale": False, "study.seed": False}),
        (
            {"train.batch_size": 2, "data.drop": ["city"]},
            {"train.batch_size": False, "data.drop": False},
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:columns left out:UserWarning")
def test_settings_that_follow_from_other_rows_are_not_called_changed_by_the_user(
    settings: dict[str, Any], follows: dict[str, bool], tmp_path: Path
) -> None:
    given = {"results.dir": tmp_path}
    began = sweeper.load_study(given, data=pd.concat([HOUSES] * 4), target="price").canonical()
    rows = HOUSES.assign(id=range(200))
    now = sweeper.load_study({**given, **settings}, data=rows, target="price")
    found = {one.key: one for one in refusals(now, reconcile(began, now.canonical()).refused)}
    said = "it is not set and follows from the rows, which may be others"
    said_of = {
        key: found[next(one for one in found if one.startswith(key))].found.endswith(said)
        for key in follows
    }
    assert said_of == follows


def test_checks_and_plans_write_nothing(tmp_path: Path) -> None:
    given = {**SETTINGS, "results.dir": tmp_path / "run"}
    study = sweeper.load_study(given, data=HOUSES, target="price")
    assert (api.check(study).train_rows, api.plan(study).data.train_rows) == (140, 140)
    assert not study.run_dir.exists()


def test_the_recorded_copy_is_the_same_study(whole: RunDir) -> None:
    pd.testing.assert_frame_equal(pd.read_parquet(whole.rows), HOUSES)
    before = deterministic_digest(whole)
    copy = sweeper.load_study(whole.study_file, {"results.dir": str(whole.root)})
    assert sweeper.run(copy).state == "finished"
    assert deterministic_digest(whole) == before


def test_a_fresh_start_from_the_copy_takes_its_rows_along(whole: RunDir, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    for name in ("study.toml", "data.parquet", "ledger.db"):
        (directory / name).write_bytes((whole.root / name).read_bytes())
    again = sweeper.load_study(directory / "study.toml", {"results.dir": str(directory)})
    results = sweeper.run(again, fresh=True)
    assert results.run_dir.rows.read_bytes() == whole.rows.read_bytes()


def test_the_winner_is_used_wherever_the_directory_is(whole: RunDir, tmp_path: Path) -> None:
    moved = whole.root.rename(tmp_path / "moved")
    try:
        for command in (
            ("export", moved, "--to", tmp_path / "best"),
            ("refit", moved, "--to", tmp_path / "refit"),
        ):
            sweeper.command(*map(str, command))
        predicted = sweeper.load(tmp_path / "refit").predict(HOUSES)
        assert np.corrcoef(predicted, HOUSES["price"])[0, 1] > 0.5
    finally:
        moved.rename(whole.root)


def test_a_refit_is_resumed_wherever_the_directory_is(whole: RunDir, tmp_path: Path) -> None:
    first = RunDir(Path(shutil.copytree(whole.root, tmp_path / "first")))
    sweeper.command("refit", str(first.root), "0", "--to", str(tmp_path / "before"), "--quiet")
    moved = RunDir(first.root.rename(tmp_path / "moved"))
    trained = deterministic_digest(RunDir(moved.refit / "0"))

    def refit(name: str) -> None:
        sweeper.command("refit", str(moved.root), "0", "--to", str(tmp_path / name), "--quiet")

    refit("after")
    assert deterministic_digest(RunDir(moved.refit / "0")) == trained

    rows = shutil.copy(moved.rows, tmp_path / "other.parquet")
    study = moved.refit / "0" / "study.toml"
    other = f"data.path={rows}"
    with pytest.raises(StudyError, match=r"data\.path: was .* when the study in"):
        sweeper.run(sweeper.load_study(study, [other, f"results.dir={study.parent}"]))


def test_verify_reports_missing_and_other_rows(whole: RunDir, tmp_path: Path) -> None:
    run_dir = RunDir(Path(shutil.copytree(whole.root, tmp_path / "run")))
    assert run_dir.rows.name in verify(run_dir).looked_at[-1]
    again = "resume the study in Python with the same rows, which writes it again"

    def damage() -> list[tuple[str, str, str]]:
        return [(one.file, one.found, one.hint) for one in verify(run_dir).damage]

    assert damage() == []
    HOUSES.assign(area=HOUSES["area"] + 1.0).to_parquet(run_dir.rows)
    other = "it has other rows than the study began with"
    assert damage() == [("data.parquet", other, again)]
    run_dir.rows.write_bytes(whole.rows.read_bytes()[:-9])
    assert [name for name, _, _ in damage()] == ["data.parquet"]
    sweeper.run({**SETTINGS, "results.dir": run_dir.root}, data=HOUSES, target="price")
    assert damage() == []
    run_dir.rows.unlink()
    assert damage() == [("data.parquet", "it is missing", again)]


def test_later_changes_of_a_table_do_not_reach_its_study() -> None:
    frame = HOUSES.copy()
    study = sweeper.load_study(SETTINGS, data=frame, target="price")
    frame["area"] = 0.0
    frame.loc[:, "price"] = 1.0
    assert study.rows is not None
    pd.testing.assert_frame_equal(pd.read_parquet(study.rows.file), HOUSES)


def test_arrays_and_frames_train_on_the_same_rows() -> None:
    x = HOUSES[["area"]].to_numpy()
    frame = pd.DataFrame({"x_0": x[:, 0], "y": HOUSES["price"]})
    one = sweeper.load_study(SETTINGS, data=(x, HOUSES["price"].to_numpy()))
    other = sweeper.load_study(SETTINGS, data=frame, target="y")
    assert prepare(one).digest == prepare(other).digest


@pytest.mark.parametrize("table", [HOUSES, pl.DataFrame(HOUSES)], ids=["pandas", "polars"])
def test_tables_of_features_and_targets_keep_their_names(table: Any) -> None:
    study = sweeper.load_study(SETTINGS, data=(table[["area", "city"]], table["price"]))
    whole = sweeper.load_study(SETTINGS, data=HOUSES, target="price")
    assert study.data.target == ("price",)
    assert prepare(study).digest == prepare(whole).digest


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["u", "v"] * 100, dtype="category"),
        pd.Series([True, False] * 100),
        pd.Series([1, None] * 100, dtype="Int64"),
        pd.Series([1.5, None] * 100, dtype="Float32"),
        pd.Series(["u", None] * 100, dtype="string"),
        pd.Series(["u", "v"] * 100, dtype=object),
        pd.date_range("2026-01-01", periods=200).to_series(index=range(200)),
    ],
    ids=lambda column: str(column.dtype),
)
def test_columns_of_any_type_are_read_as_from_parquet(
    column: pd.Series[Any], tmp_path: Path
) -> None:
    frame = HOUSES.assign(other=column)
    frame.to_parquet(tmp_path / "rows.parquet")
    settings = {**SETTINGS, "data": {"impute": "median", "drop": [], "split.time": "other"}}
    if column.dtype.kind != "M":
        del settings["data"]["split.time"]
    path = {"source": "parquet", "path": str(tmp_path / "rows.parquet"), "target": "price"}
    loss = {"train": {**SETTINGS["train"], "loss": "mse", "metrics": ["r2", "rmse"]}}
    file = {**settings, **loss, "study.metric": "val_r2", "data": {**settings["data"], **path}}
    memory = sweeper.load_study({**settings, **loss}, data=frame, target="price")
    assert prepare(memory).digest == prepare(sweeper.load_study(file)).digest


def test_a_named_index_is_reported_as_not_read() -> None:
    named = HOUSES.set_index(pd.RangeIndex(200, name="house"))
    study = sweeper.load_study(SETTINGS, data=named, target="price")
    noted = "the index 'house' of the DataFrame is not read as a column: pass df.reset_index()"
    assert any(one.startswith(noted) for one in data_warnings(study, prepare(study)))


def test_problems_of_rows_do_not_speak_of_a_file() -> None:
    wrong = HOUSES.assign(area=HOUSES["area"].replace(HOUSES["area"][3], np.inf))
    study = sweeper.load_study(SETTINGS, data=wrong, target="price")
    with pytest.raises(DataError) as error:
        prepare(study)
    assert str(error.value) == (
        "in the mapping: data: column 'area' of the DataFrame: 1 value is infinite or too large "
        "for float32 (row 4); fix the DataFrame or add 'area' to data.drop"
    )


def test_the_rows_are_written_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.data.in_memory._CHUNK_ROWS", 64)
    study = sweeper.load_study(SETTINGS, data=HOUSES, target="price")
    assert study.rows is not None
    assert parquet.ParquetFile(study.rows.file).num_row_groups == 4
    pd.testing.assert_frame_equal(pd.read_parquet(study.rows.file), HOUSES)


def test_no_temporary_file_is_left_once_the_directory_has_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    given = {**SETTINGS, "study.n_trials": 1, "results.dir": tmp_path / "run"}
    study = sweeper.load_study(given, data=HOUSES, target="price")
    assert study.rows is not None
    written: list[bool] = []

    def watch(event: object) -> None:
        if isinstance(event, StudyOpened):
            written.append(any((tmp_path / "temporary").glob("sweeper-*")))

    sweeper.run(study, observer=watch)
    assert written == [False]
    assert study.rows.file.is_file()
    del study
    gc.collect()
    assert [*(tmp_path / "temporary").glob("sweeper-*")] == []


def test_categories_of_numbers_are_categories_in_memory_too(tmp_path: Path) -> None:
    codes = [[1, 2, 3][i % 3] for i in range(200)]
    gaps = pd.array([None if i % 5 == 0 else 10 * code for i, code in enumerate(codes)], "Int64")
    frame = HOUSES.assign(
        code=pd.Categorical(codes),
        gap=pd.Categorical(gaps),
        half=pd.Categorical(np.array(codes) / 2),
    )
    config = sweeper.load_study(SETTINGS, data=frame, target="price")
    names = prepare(config).feature_names
    assert names == (
        *("area", "city_a", "city_b", "code_1", "code_2", "code_3"),
        *("gap_10", "gap_20", "gap_30", "gap_nan", "half_0.5", "half_1", "half_1.5"),
    )
    assert "code" in prepare(config.with_edition(3)).feature_names  # as in studies that began so


def test_arrays_in_the_other_byte_order_are_the_same_rows() -> None:
    x, y = RNG.normal(size=(200, 3)), RNG.integers(0, 2, 200)
    native, swapped = (
        prepare(sweeper.load_study(SETTINGS, data=(x.astype(f"{order}f8"), y.astype(f"{order}i4"))))
        for order in "<>"
    )
    assert native.digest == swapped.digest


def test_a_column_that_parquet_cannot_hold_is_refused_by_name() -> None:
    frame = HOUSES.assign(bin=pd.cut(HOUSES["area"], 4))
    with pytest.raises(DataError, match=r"column 'bin' of the DataFrame holds .* type Interval"):
        sweeper.load_study(SETTINGS, data=frame, target="price")


def test_a_copy_of_a_study_has_its_rows_and_a_pickle_reports_that_it_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    HOUSES.assign(area=0.0).to_parquet("data.parquet")  # another table under the recorded name
    study = sweeper.load_study(SETTINGS, data=HOUSES, target="price")
    expected = prepare(study).digest
    assert prepare(copy.deepcopy(study)).digest == prepare(copy.copy(study)).digest == expected
    pickled = pickle.loads(pickle.dumps(study))
    with pytest.raises(DataError, match="not copied with a pickled study; call load_study again"):
        sweeper.run(pickled)
