"""Files in the current directory hide no module from the program or its workers."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from sweeper.__main__ import _search_current_directory_last
from sweeper.results.status import read_status
from tests.cli.test_streams import shell
from tests.command_line import CommandLine
from tests.processes import ROOT

# of the standard library and others: what Python imports for loky, and what sweeper imports
HIDDEN = ("json", "threading", "signal", "argparse", "pickle", "numpy", "optuna", "jax", "joblib")
HOSTILE = """
from pathlib import Path

(Path(__file__).parent / "imported").touch()
raise ImportError(f"{__file__} hides a module")
"""
WORKERS = "--set execution.threads=0 --set execution.workers=1 --set study.n_trials=2"


def test_workers_start_next_to_files_named_like_modules_and_without_streams(
    command: CommandLine, tmp_path: Path
) -> None:
    command.write()
    for name in HIDDEN:
        (tmp_path / f"{name}.py").write_text(HOSTILE, encoding="utf-8")
    done = shell(f"run study.toml {WORKERS} <&- >&- 2>&-", tmp_path)
    assert done.returncode == 0
    assert read_status(command.run_dir).state == "finished"
    assert not (tmp_path / "imported").exists()


@pytest.mark.slow
def test_a_checkout_that_is_not_installed_can_train_in_workers(
    command: CommandLine, tmp_path: Path
) -> None:
    command.write()
    shutil.copytree(ROOT / "sweeper", tmp_path / "sweeper")
    with (tmp_path / "sweeper" / "executors" / "worker.py").open("a", encoding="utf-8") as file:
        file.write("\nPath('imported').touch()\n")
    done = shell(f"run study.toml {WORKERS}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("first", "package", "expected"),
    [
        ("here", "elsewhere", ["lib", "here"]),
        ("here", "here", ["here", "lib"]),
        ("bin", "elsewhere", ["bin", "lib"]),
    ],
)
def test_only_the_current_directory_is_searched_last_and_not_in_a_checkout(
    first: str, package: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", [str(tmp_path / first), str(tmp_path / "lib")])
    file = tmp_path / package / "sweeper" / "__main__.py"
    monkeypatch.setattr("sweeper.__main__.__file__", str(file))
    _search_current_directory_last()
    assert sys.path == [str(tmp_path / name) for name in expected]
