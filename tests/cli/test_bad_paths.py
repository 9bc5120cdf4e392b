"""Paths that are long, odd or of the wrong kind are refused, or work like any other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import sklearn

import sweeper
from sweeper import api
from sweeper.errors import SweeperError
from sweeper.rundir import RunDir
from tests.command_line import STUDY, CommandLine, settings
from tests.small_studies import bent

_CSV = bent(
    STUDY, 'data={source = "csv", path = "rows.csv", target = "kind"}', "train.batch_size=2"
)
_ROWS = "size,kind\n" + "".join(f"{row},{row % 2}\n" for row in range(20))
assert sklearn.__version__  # if it is imported, data is prepared in this process


def names(directory: Path) -> list[str]:
    """Everything below a directory."""
    return sorted(str(path) for path in directory.rglob("*"))


def refusal(directory: Path, text: str, *overrides: str) -> list[str]:
    """The problems of a study, which writes nothing."""
    (directory / "study.toml").write_text(text, encoding="utf-8")
    before = names(directory)
    with pytest.raises(SweeperError) as refused:
        api.check(sweeper.load_study(directory / "study.toml", overrides))
    assert names(directory) == before
    return str(refused.value).splitlines()


@pytest.mark.parametrize("source", ["csv", "npz", "parquet"])
@pytest.mark.parametrize(
    "path",
    ["x" * 300, "x/" * 3000, "/dev/zero", ".", "rows.csv/x", "a\\u0000b", "\\u001b[31m", "pipe"],
)
def test_a_missing_data_file_is_refused(
    source: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a directory with Parquet files would be a table
    (tmp_path / "rows.csv").write_text(_ROWS)
    os.mkfifo(tmp_path / "pipe")
    target = "" if source == "npz" else ', target = "kind"'
    data = f'data={{source = "{source}", path = "{path}"{target}}}'
    (line,) = refusal(tmp_path, bent(STUDY, data))
    assert ": data.path: no file '" in line
    assert line.isprintable()


def test_an_invalid_pattern_is_refused(tmp_path: Path) -> None:
    data = 'data={source = "parquet", path = "a**", target = "kind"}'
    (line,) = refusal(tmp_path, bent(STUDY, data))
    assert line.endswith("('**' stands for whole folders); write e.g. rows/*.parquet")


@pytest.mark.parametrize("path", ["x" * 300, "x/" * 3000, "a\\u0000b"])
def test_a_missing_file_of_constants_is_refused(path: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(bent(STUDY, f'execution.costs="{path}"'))
    with pytest.raises(SweeperError, match=r"execution\.costs: no file"):
        api.plan(sweeper.load_study(tmp_path / "study.toml"))


@pytest.mark.parametrize(
    "path", ["x" * 300, "x/" * 3000, "study.toml", "study.toml/run", "pipe", "/dev/null"]
)
def test_an_impossible_run_directory_is_refused(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (line,) = refusal(tmp_path, bent(STUDY, f'results.dir="{path}"'))
    assert ": results.dir: cannot write to " in line
    assert line.endswith("; name a directory that you may write to")


@pytest.mark.slow
def test_odd_paths_work_like_others(tmp_path: Path, command: CommandLine) -> None:
    """Spaces and letters of every language, a link from elsewhere, a relative path."""
    home = tmp_path / "größe der Häuser 日本"
    home.mkdir()
    (home / "rows.csv").write_text(_ROWS)
    (home / "die studie.toml").write_text(_CSV, encoding="utf-8")
    (tmp_path / "link.toml").symlink_to(home / "die studie.toml")
    results = "results.dir=meine läufe/eins zwei"
    shown = command(*("run", "größe der Häuser 日本/die studie.toml"), *settings(results))
    assert shown.returncode == 0, shown.stderr
    assert RunDir(tmp_path / "meine läufe" / "eins zwei").trials.exists()
    again = command("status", "meine läufe/eins zwei")
    assert "finished" in again.stdout

    linked = command("validate", "link.toml")  # data is looked up next to the link, or here
    assert linked.returncode == 3
    assert f"no file 'rows.csv' in {tmp_path}" in linked.stderr


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("/dev/null", "a pipe or a device"),
        (".", "it is a directory"),
        ("pipe", "a pipe or a device"),
        ("x" * 300, "cannot be read"),
    ],
)
def test_the_command_line_refuses_files_that_are_not_studies(
    name: str, found: str, tmp_path: Path, command: CommandLine
) -> None:
    os.mkfifo(tmp_path / "pipe")
    shown = command("validate", name)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert found in shown.stderr
    assert "Traceback" not in shown.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
