"""If a disk is full at any kind of file, the study stops cleanly and resumes with the same rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.results.compare import TableDifference
from sweeper.sweep.verify import verify
from tests.crashes import Study
from tests.disk.conftest import Disk, Program

pytestmark = [pytest.mark.disk, pytest.mark.timeout(600)]

# the instant at which the disk is full, and the file that the error names
INSTANTS = {
    "directory.make:begin": "run",
    "ledger.create:begin": "ledger.db",
    "ledger.session:begin": "ledger.db",
    "study.copy:begin": "study.toml",
    "preparation.note:begin": "preparation.json",
    "ledger.open:begin@2": "ledger.db",
    "checkpoint.write:begin@2": "checkpoints/r",
    "model.keep:begin": "trial-",
    "ledger.close:begin@2": "ledger.db",
    "ledger.backup:begin": "ledger.backup.db",
    "publish.part:begin": "part-",
    "publish.tables:begin@2": "trials.parquet",
    "status.write:begin@3": "status.json",
}


@pytest.fixture(scope="module")
def unbroken(
    tmp_path_factory: pytest.TempPathFactory, compile_cache: Path
) -> Callable[[str], dict[str, object]]:
    """What is left of the study on a disk that is never full, by its strategy."""
    left: dict[str, dict[str, object]] = {}

    def unbroken(strategy: str) -> dict[str, object]:
        if strategy not in left:
            study = Study(tmp_path_factory.mktemp("unbroken"), "supervised", strategy)
            assert study.config.study.name
            assert Program(study, compile_cache)().code == 0
            left[strategy] = study.left()
        return left[strategy]

    return unbroken


def program_on(disk: Disk, cache: Path, strategy: str = "padded") -> Program:
    """The study, its file written."""
    study = Study(disk.place / "study", "supervised", strategy)
    assert study.config.study.name
    return Program(study, cache)


@pytest.mark.parametrize("instant", INSTANTS)
def test_a_full_disk_ends_the_study_cleanly(
    instant: str,
    disk: Disk,
    tmp_path: Path,
    compile_cache: Path,
    unbroken: Callable[[str], dict[str, object]],
) -> None:
    run = program_on(disk, compile_cache)
    ended = run.held(instant, disk, tmp_path / "held")
    assert ended.code == 3, ended.said
    assert "Traceback" not in ended.said
    last = ended.said.splitlines()[-1]
    assert "cannot be written: " in last
    assert INSTANTS[instant] in (ended.said if "backup" in instant else last)  # then it continues
    assert "free some disk space" in last or "check that there is disk space" in last
    again = run()
    assert again.code == 0, again.said
    assert run.study.left() == unbroken("padded")
    assert verify(run.study.run_dir).damage == ()


@pytest.mark.parametrize("instant", ["worker.data:begin", "checkpoint.write:begin@2"])
def test_a_full_disk_with_workers_ends_the_study_cleanly(
    instant: str,
    disk: Disk,
    tmp_path: Path,
    compile_cache: Path,
    unbroken: Callable[[str], dict[str, object]],
) -> None:
    run = program_on(disk, compile_cache, "process")
    ended = run.held(instant, disk, tmp_path / "held")
    assert ended.code == 3, ended.said
    assert "Traceback" not in ended.said, ended.said
    assert "cannot be written: No space left on device; free some disk space" in ended.said
    assert run().code == 0
    assert run.study.left() == unbroken("process")


def test_a_full_cache_is_reported_once_and_not_used(
    disk: Disk, tmp_path: Path, compile_cache: Path, unbroken: Callable[[str], dict[str, object]]
) -> None:
    study = Study(tmp_path / "study", "supervised", "exact")
    assert study.config.study.name
    with disk.full():
        ended = Program(study, disk.place / "cache")()
    assert ended.code == 0, ended.said
    assert ended.said.count("compiled programs are not kept in ") == 1
    assert "Warning" not in ended.said
    assert study.left() == unbroken("exact")


def test_a_cache_that_was_full_halfway_is_fixed(
    disk: Disk, tmp_path: Path, unbroken: Callable[[str], dict[str, object]]
) -> None:
    study = Study(tmp_path / "study", "supervised", "exact")
    assert study.config.study.name
    run = Program(study, disk.place / "cache")
    assert run.held("compile:begin@2", disk, tmp_path / "held").code == 0
    shutil.rmtree(study.run_dir.root)
    again = run()
    assert again.code == 0
    assert "not kept" not in again.said
    assert study.left() == unbroken("exact")


def test_a_full_directory_for_temporary_files_does_not_stop_the_study(
    disk: Disk, tmp_path: Path, compile_cache: Path, unbroken: Callable[[str], dict[str, object]]
) -> None:
    study = Study(tmp_path / "study", "supervised", "padded")
    assert study.config.study.name
    with disk.full():
        ended = Program(study, compile_cache)(TMPDIR=str(disk.place))
    assert ended.code == 0, ended.said
    assert "Traceback" not in ended.said
    assert study.left() == unbroken("padded")


def test_a_read_only_disk_ends_the_study_cleanly(
    disk: Disk, compile_cache: Path, unbroken: Callable[[str], dict[str, object]]
) -> None:
    run = program_on(disk, compile_cache)
    for place in ("before", "ledger.close:end@2"):
        if place != "before":
            assert run(SWEEPER_FAULT=f"{place[:-2]}=kill@2").code == -9
        disk.mount("remount", "ro")
        ended = run()
        assert (ended.code, len(ended.said.splitlines())) == (3, 1)
        assert f"cannot write to {run.study.run_dir.root}; name a directory" in ended.said
        if place != "before":  # the kill came before its last rows were published
            found = {damage.found for damage in verify(run.study.run_dir).damage}
            assert found == {TableDifference.BEHIND.value}
        disk.mount("remount", "rw")
    assert run().code == 0
    assert run.study.left() == unbroken("padded")
