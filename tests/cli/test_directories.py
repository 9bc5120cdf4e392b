"""list and delete: run directories as a whole."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path

import pytest

from sweeper.cli.main import command
from sweeper.errors import SetupError, StudyError, StudyHeldError
from sweeper.rundir import RunDir
from sweeper.sweep.session.lock import hold
from tests.command_line import STUDY
from tests.in_process import study_in, trained


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("first")
    trained(study_in(directory, STUDY, "study.n_trials=2", "train.epochs=2"))
    return directory / "run"


@pytest.fixture
def run(first: Path, tmp_path: Path) -> Path:
    """A finished study in runs/a of the current directory."""
    return Path(shutil.copytree(first, tmp_path / "runs" / "a"))


def test_run_directories_are_listed_with_their_facts(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, run.parent / "group" / "b")
    (run.parent / "group" / "b" / "status.json").write_text("{}")
    shutil.copytree(run, run / "confirm")

    command("list", str(run.parent), "--json")
    found = {Path(one["run_dir"]).name: one for one in json.loads(capsys.readouterr().out)["runs"]}

    assert {name: one["state"] for name, one in found.items()} == {"a": "finished", "b": "unknown"}
    assert (found["a"]["n_finished"], found["a"]["n_trials"]) == (2, 2)
    assert found["a"]["bytes"] == sum(f.stat().st_size for f in run.rglob("*") if f.is_file())
    command("list", str(run))
    assert "2 of 2" in capsys.readouterr().out
    with pytest.raises(SetupError, match="no study has been run here"):
        command("list", str(run / "models"))


def test_a_run_directory_with_a_link_is_listed_and_the_link_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, run.parent / "b")
    (run / "status.json").rename(tmp_path / "status.json")
    (run / "status.json").symlink_to(tmp_path / "status.json")
    command("list", str(run.parent), "--json")
    found = capsys.readouterr()
    listed = {Path(one["run_dir"]).name: one for one in json.loads(found.out)["runs"]}
    assert {name: one["state"] for name, one in listed.items()} == {"a": "unknown", "b": "finished"}
    assert "study" not in listed["a"]
    assert found.err == listed["a"]["problem"] + "\n"
    assert found.err.startswith(f"{run / 'status.json'}: it is a link")


def test_everything_that_a_study_wrote_is_deleted(run: Path) -> None:
    for inner in ("confirm", "confirm.20260101-000000-000000", "refit/trial-1"):
        shutil.copytree(run, run.parent / "inner", dirs_exist_ok=True)
        shutil.move(run.parent / "inner", run / inner)
    for log in ("sweeper.log", "worker-0.log", "worker-0.before.log"):
        (run / "logs" / log).touch()
    command("delete", str(run), "--yes")
    assert not run.exists() and run.parent.exists()


def test_other_files_are_left_and_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("notes.txt", "models/mine.eqx"):
        (run / name).write_text("mine")
    command("delete", str(run), "--yes")
    assert sorted(path.name for path in run.rglob("*")) == ["mine.eqx", "models", "notes.txt"]
    assert "not written by sweeper: models, models/mine.eqx, notes.txt" in capsys.readouterr().out


def test_nothing_is_deleted_without_an_answer(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(run.rglob("*"))
    monkeypatch.setattr("typer.confirm", lambda question: "2 of 2 trials" not in question)
    command("delete", str(run))
    assert sorted(run.rglob("*")) == before
    assert capsys.readouterr().out == "nothing was deleted\n"


def test_without_anybody_to_answer_delete_names_the_option(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(run.rglob("*"))
    monkeypatch.setattr("sys.stdin", StringIO(""))
    with pytest.raises(StudyError, match="nobody confirmed this; use --yes to delete it"):
        command("delete", str(run))
    assert sorted(run.rglob("*")) == before


def test_what_is_not_a_run_directory_is_not_deleted(run: Path, tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text("{}")
    with pytest.raises(SetupError, match="it does not exist"):
        command("delete", str(tmp_path / "nonsuch"), "--yes")
    for path in (tmp_path, run.parent, run / "models"):
        with pytest.raises(StudyError, match="not a run directory"):
            command("delete", str(path), "--yes")
    with pytest.raises(StudyError, match="a file, not a run directory"):
        command("delete", str(run / "ledger.db"), "--yes")


def test_links_are_not_deleted_and_not_followed(run: Path, tmp_path: Path) -> None:
    before = sorted(run.rglob("*"))
    (tmp_path / "link").symlink_to(run)
    (run / "models" / "trial-000009.eqx").symlink_to(tmp_path)
    for path in (tmp_path / "link", run):
        with pytest.raises(SetupError, match="link"):
            command("delete", str(path), "--yes")
    (run / "models" / "trial-000009.eqx").unlink()
    assert sorted(run.rglob("*")) == before


def test_a_study_that_runs_is_not_deleted(run: Path) -> None:
    before = {path for path in run.rglob("*") if path.is_file()}
    with hold(RunDir(run)), pytest.raises(StudyHeldError):
        command("delete", str(run), "--yes")
    assert {path for path in run.rglob("*") if path.is_file()} == before
