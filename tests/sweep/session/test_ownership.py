"""A copy of a ledger is only restored in the directory of its own study."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import sweeper
from sweeper.errors import DamagedLedgerError, LedgerError
from sweeper.rundir import RunDir
from sweeper.sweep.session.backup import find_mismatch
from sweeper.sweep.verify import repair, restore_ledger, verify
from tests.command_line import contents
from tests.crashes import PROGRAMS, Study
from tests.sweep.test_missing_rows import remove

PUBLISHED = ("trials.parquet", "status.json")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A finished study, in two sessions."""
    study = Study(tmp_path_factory.mktemp("ended"), "supervised", "padded")
    assert study.crash("ledger.close:end", 2)
    study.run()
    return study


@pytest.fixture(scope="module")
def other(ended: Study, tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """The same study with another seed."""
    path = tmp_path_factory.mktemp("other") / "run"
    overrides = ["study.seed=9", f"results.dir={path}", "execution.strategy=padded"]
    sweeper.run(sweeper.load_study(ended.directory / "study.toml", overrides))
    return RunDir(path)


@pytest.fixture
def run_dir(tmp_path: Path, ended: Study) -> RunDir:
    """A copy of the directory of the first one."""
    shutil.copytree(ended.run_dir.root, tmp_path / "run")
    return RunDir(tmp_path / "run")


HARMS: dict[str, Callable[[RunDir], None]] = {
    "a row is gone": lambda run_dir: remove(run_dir.ledger, "trial"),
    "it is cut off": lambda run_dir: run_dir.ledger.write_bytes(run_dir.ledger.read_bytes()[:9000]),
    "it is empty": lambda run_dir: run_dir.ledger.write_bytes(b""),
    "it is missing": lambda run_dir: run_dir.ledger.unlink(),
}


@pytest.mark.parametrize("what", HARMS)
@pytest.mark.parametrize("gone", [(), PUBLISHED, (*PUBLISHED, "study.toml")])
def test_a_copy_of_another_study_is_not_restored(
    gone: tuple[str, ...], what: str, run_dir: RunDir, other: RunDir
) -> None:
    shutil.copy(other.backup, run_dir.backup)
    HARMS[what](run_dir)
    for name in gone:
        (run_dir.root / name).unlink()
    is_readable = what == "a row is gone"
    if len(gone) == 3 and not is_readable:  # nothing is left that identifies the study
        assert find_mismatch(run_dir) is None
        return
    told = "what can be read of ledger.db is of another study"
    if not is_readable:
        told = "its study.seed is 9, but that of study.toml is 2"
        if not gone:
            told = "trials.parquet is of another study"
    before = contents(run_dir.root)
    hint = "restore this study's own copy, or start over with --fresh (in Python fresh=True)"
    with pytest.raises(LedgerError) as refused:
        restore_ledger(run_dir)
    assert str(refused.value) == f"{run_dir.backup}: it is of another study: {told}; {hint}"
    assert contents(run_dir.root) == before
    (damage,) = verify(run_dir).damage  # nor is it offered as the fix
    assert damage.hint == "restore a copy of it, or start over with --fresh (in Python fresh=True)"


@pytest.mark.parametrize("what", HARMS)
@pytest.mark.parametrize("gone", [(), PUBLISHED, (*PUBLISHED, "study.toml")])
def test_a_copy_of_the_study_itself_is_restored(
    gone: tuple[str, ...], what: str, run_dir: RunDir, ended: Study
) -> None:
    HARMS[what](run_dir)
    for name in gone:
        (run_dir.root / name).unlink()
    restore_ledger(run_dir)
    repair(run_dir)
    assert verify(run_dir).damage == ()


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, marks=[pytest.mark.slow] * (program != "supervised"))
        for program in PROGRAMS
    ],
)
def test_a_study_file_alone_does_not_distinguish_studies(program: str, tmp_path: Path) -> None:
    study = Study(tmp_path / "study", program, "padded")
    assert study.crash("ledger.close:end", 2)
    run_dir = study.run_dir
    for path in (run_dir.trials, run_dir.status):
        path.unlink()
    run_dir.ledger.write_bytes(b"")
    assert find_mismatch(run_dir) is None
    with pytest.raises(DamagedLedgerError, match="--restore-ledger"):
        study.run()


def test_an_old_copy_without_finished_trials_is_accepted(tmp_path: Path) -> None:
    study = Study(tmp_path / "study", "supervised", "padded")
    assert study.crash("ledger.close:end", 2)
    shutil.copy(study.run_dir.backup, tmp_path)
    study.run()  # in which all of them have
    shutil.copy(tmp_path / "ledger.backup.db", study.run_dir.backup)
    study.run_dir.ledger.write_bytes(b"")
    study.run_dir.status.unlink()
    assert find_mismatch(study.run_dir) is None
