"""Commands that look at studies find them below a directory, and wait for one that starts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sweeper
from sweeper.cli.commands.looking import _page
from sweeper.cli.commands.printing import status_record
from sweeper.cli.main import app_for
from sweeper.errors import SweeperError
from sweeper.results.status import write_status
from sweeper.rundir import RunDir
from tests.documents import GUIDES
from tests.live_status import STATUS

FINISHED = replace(STATUS, state="finished", diverged=0)


def begin(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    write_status(RunDir(directory), FINISHED)


@pytest.mark.parametrize(
    ("existing", "awaited", "why"),
    [
        (
            "runs/digits",
            "runs/digit",
            "it does not exist yet (did you mean 'runs/digits'?)",
        ),
        ("runs/digits", "digits", "it does not exist yet (did you mean 'runs/digits'?)"),
        (None, "runs/digits", "it does not exist yet"),
        ("runs/digits", "empty", "no study has been run there yet"),
        ("runs/digits", "starting", "it is starting"),
    ],
)
def test_watching_waits_for_a_study_and_says_what_is_missing(
    existing: str | None,
    awaited: str,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.sleep", lambda _: begin(Path(awaited)))
    Path("empty").mkdir()
    Path("starting").mkdir()
    RunDir(Path("starting")).ledger.touch()
    if existing:
        begin(Path(existing))
    sweeper.command("status", "--watch", awaited)
    shown = capsys.readouterr()
    assert shown.err == f"waiting for a study in {awaited}: {why}; press Ctrl-C to stop\n"
    assert f"digits ({awaited})" in shown.out


def test_watching_a_directory_shows_the_newest_study_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.sleep", lambda _: begin(Path("mine/digits")))
    for waits in (True, False):
        sweeper.command("status", "--watch", "mine")
        shown = capsys.readouterr()
        assert "digits (mine/digits)" in shown.out
        assert ("waiting for a study in mine" in shown.err) is waits


def test_watching_a_study_that_starts_does_not_show_those_within(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    begin(Path("digits/confirm"))
    RunDir(Path("digits")).ledger.touch()
    monkeypatch.setattr("time.sleep", lambda _: begin(Path("digits")))
    sweeper.command("status", "--watch", "digits")
    shown = capsys.readouterr()
    assert shown.err.startswith("waiting for a study in digits: it is starting; ")
    assert "digits (digits)" in shown.out


def test_watching_in_json_waits_for_a_study_and_prints_its_status_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunDir(tmp_path)
    monkeypatch.setattr("time.sleep", lambda _: write_status(run, STATUS))
    sweeper.command("status", "--watch", "--json", str(tmp_path))
    shown = json.loads(capsys.readouterr().out)
    assert (shown["run_dir"], shown["state"]) == (str(tmp_path), "running")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("best", "runs/digit"), "runs/digits"),
        (("trials", "digits"), "runs/digits"),
        (("status", "runs/digit"), "runs/digits"),
        (("verify", "runs/digit"), "runs/digits"),
        (("report", "runs/digit"), "runs/digits"),
        (("delete", "runs/digit", "--yes"), "runs/digits"),
        (("validate", "hous.toml"), "house.toml"),
        (("run", "house.tml"), "house.toml"),
        (("predict", "best_house", "rows.csv"), "best_houses"),
    ],
)
def test_a_misspelt_path_is_refused_with_the_one_that_may_be_meant(
    words: tuple[str, ...], meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begin(Path("runs/digits"))
    Path("house.toml").touch()
    Path("rows.csv").touch()
    Path("best_houses").mkdir()
    Path("best_houses", "model.safetensors").touch()
    with pytest.raises(SweeperError) as refused:
        sweeper.command(*words)
    assert str(refused.value).startswith(f"{words[1]}: no such ")
    assert str(refused.value).endswith(f"; did you mean '{meant}'?")


def test_without_watching_a_missing_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SweeperError, match="no study has been run here"):
        sweeper.command("status", str(tmp_path))
    RunDir(tmp_path).ledger.touch()
    with pytest.raises(SweeperError, match=r"has no status, .* wait for it with .* --watch DIR"):
        sweeper.command("status", str(tmp_path))


def test_a_directory_stands_for_the_studies_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/b", "runs/a", "runs/a/confirm", "runs/group/c"):
        begin(Path(name))
    sweeper.command("report", "runs/")
    assert "written to report.html" in capsys.readouterr().out
    text = Path("report.html").read_text(encoding="utf-8")
    assert all(f"{name}" in text for name in ("runs/a", "runs/b", "runs/group/c"))


def test_a_study_that_is_named_twice_is_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/a", "runs/b"):
        begin(Path(name))
    page = _page([Path("runs"), Path("runs/b"), tmp_path / "runs" / "a"])
    assert [study.run_dir.root.name for study in page.studies] == ["a", "b"]


@pytest.mark.parametrize("port", ["99999", "65536", "-1"])
def test_a_port_that_does_not_exist_is_refused(port: str, tmp_path: Path) -> None:
    words = ["dashboard", str(tmp_path), "--port", port]
    done = CliRunner().invoke(app_for(words), words)
    assert done.exit_code == 2
    limit = "greater than or equal to 0" if port == "-1" else "less than or equal to 65535"
    assert f"Invalid value for '--port': Input should be {limit}" in done.output


def test_the_guide_describes_each_field_of_a_status(tmp_path: Path) -> None:
    _, _, section = GUIDES["results"].partition("### Watch a study from a program")
    described = {*re.findall(r"`(\w+)`", section.partition("\n## ")[0])}
    assert {*status_record(RunDir(tmp_path), STATUS)} <= described
