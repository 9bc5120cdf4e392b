"""The copy of the ledger: written at intervals, offered if the ledger is damaged, restored."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from shlex import split

import pytest

from sweeper.errors import DamagedLedgerError, LedgerError, StudyError, SweeperError
from sweeper.faults import plan_faults
from sweeper.ledger import Ledger, check_file
from sweeper.rundir import RunDir
from sweeper.sweep.session import backup
from sweeper.sweep.session.backup import INTERVAL_S, Backups
from sweeper.sweep.verify import repair, restore_ledger, verify
from tests.command_line import CommandLine, settings
from tests.crashes import Study

HARMS: dict[str, Callable[[Path], None]] = {
    "it is missing": lambda path: path.unlink(),
    "the ledger is empty": lambda path: path.write_bytes(b""),
    "SQLite says: ": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "row 1 of table session is damaged": lambda path: path.write_bytes(
        path.read_bytes().replace(b'"n_trials":5', b'"n_trials":6')
    ),
}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A finished study."""
    study = Study(tmp_path_factory.mktemp("unbroken"), "supervised", "padded")
    study.run()
    return study


@pytest.fixture(scope="module")
def halfway(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study that was killed after two rounds, with a copy from after the first."""
    study = Study(tmp_path_factory.mktemp("halfway"), "supervised", "padded")
    assert study.crash("ledger.close:end", 2)
    # committed rows are in the log next to the ledger until somebody opens it
    Ledger.open(study.run_dir.ledger).close()
    return study


@pytest.fixture(autouse=True)
def _off() -> Iterator[None]:
    yield
    plan_faults(None)


def test_a_copy_has_the_contents_of_the_ledger(unbroken: Study) -> None:
    run_dir = unbroken.run_dir
    with closing(Ledger.open(run_dir.ledger)) as ledger:
        rounds = ledger.n_closed_rounds()
    assert check_file(run_dir.backup) == rounds
    assert verify(run_dir).damage == ()
    assert not [path for path in run_dir.root.iterdir() if path.name.endswith(("-wal", "-shm"))]


def test_a_copy_is_written_when_the_last_one_is_old_enough(
    halfway: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(halfway).run_dir
    now = run_dir.backup.stat().st_mtime
    assert check_file(run_dir.backup) == 1
    with closing(Ledger.open(run_dir.ledger)) as ledger:
        Backups(run_dir, pytest.fail, lambda: now + INTERVAL_S - 1).after_round(ledger)
        assert check_file(run_dir.backup) == 1
        Backups(run_dir, pytest.fail, lambda: now + INTERVAL_S).after_round(ledger)
        assert check_file(run_dir.backup) == 2
        run_dir.backup.unlink()
        Backups(run_dir, pytest.fail, lambda: now).after_round(ledger)
        assert check_file(run_dir.backup) == 2


def test_a_study_continues_if_the_copy_cannot_be_written(
    halfway: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(halfway).run_dir
    before, told = run_dir.backup.read_bytes(), list[str]()
    with closing(Ledger.open(run_dir.ledger)) as ledger:
        backups = Backups(run_dir, told.append)
        for _ in range(2):
            plan_faults("ledger.backup:begin=raise:ENOSPC")
            backups.now(ledger)
    (said,) = told
    assert said.startswith(
        f"the ledger is not backed up: {run_dir.backup}: cannot be written: No sp"
    )
    assert run_dir.backup.read_bytes() == before


def test_a_failed_copy_is_retried_after_the_usual_interval(
    halfway: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(halfway).run_dir
    now = run_dir.backup.stat().st_mtime + INTERVAL_S
    times = iter([now, now, now + INTERVAL_S - 1, now + INTERVAL_S])
    with closing(Ledger.open(run_dir.ledger)) as ledger:
        backups = Backups(run_dir, lambda told: None, lambda: next(times))
        plan_faults("ledger.backup:begin=raise:ENOSPC")
        for expected in (1, 1, 2):
            backups.after_round(ledger)
            assert check_file(run_dir.backup) == expected


@pytest.mark.parametrize("found", HARMS)
def test_a_damaged_ledger_is_refused_with_the_command_that_restores_the_copy(
    found: str, halfway: Study, unbroken: Study, copied: Callable[[Study], Study]
) -> None:
    study = copied(halfway)
    run_dir = study.run_dir
    HARMS[found](run_dir.ledger)
    hint = (
        "restore ledger.backup.db, which ends with round 1: python -m sweeper verify "
        f"{run_dir.root} --restore-ledger"
    )
    with pytest.raises(DamagedLedgerError) as refused:
        study.run()
    assert str(refused.value).startswith(f"{run_dir.ledger}: {found}")
    assert str(refused.value).endswith(f"; {hint}")
    (damage,) = verify(run_dir).damage
    assert (damage.file, damage.hint) == ("ledger.db", hint)
    # the user follows the hint and resumes: round 2 is trained again
    assert "which ends with round 1" in restore_ledger(run_dir)
    repair(run_dir)
    assert {damage.file.partition("/")[0] for damage in verify(run_dir).damage} <= {"checkpoints"}
    assert run_dir.damaged.exists() == (found != "it is missing")
    run_dir.damaged.unlink(missing_ok=True)
    study.run()
    assert study.left() == unbroken.left()


def test_the_command_is_quoted_for_a_shell(halfway: Study, tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path / "with a space")
    shutil.copytree(halfway.run_dir.root, run_dir.root)
    run_dir.ledger.unlink()
    with pytest.raises(DamagedLedgerError) as refused:
        backup.open_ledger(run_dir)
    command = str(refused.value).partition(": python ")[2]
    assert split(command) == ["-m", "sweeper", "verify", str(run_dir.root), "--restore-ledger"]
    shutil.rmtree(run_dir.metrics)
    run_dir.backup.replace(run_dir.ledger)
    hints = {damage.file: damage.hint for damage in verify(run_dir).damage}
    assert f"verify '{run_dir.root}' --repair" in hints["metrics"]


def test_a_copy_is_only_restored_on_request(
    halfway: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(halfway).run_dir
    before = run_dir.ledger.read_bytes()
    with pytest.raises(StudyError, match="the ledger is intact, so nothing needs to be restored"):
        restore_ledger(run_dir)
    run_dir.ledger.write_bytes(b"")
    with pytest.raises(DamagedLedgerError):
        backup.open_ledger(run_dir)
    assert run_dir.ledger.read_bytes() == b""
    run_dir.ledger.write_bytes(before)
    backup.open_ledger(run_dir).close()


def test_a_damaged_copy_is_not_offered(halfway: Study, copied: Callable[[Study], Study]) -> None:
    study = copied(halfway)
    run_dir = study.run_dir
    run_dir.backup.write_bytes(run_dir.backup.read_bytes()[:9000])
    run_dir.ledger.write_bytes(b"")
    told = f"{run_dir.ledger}: the ledger is empty; restore a copy of it, or start over with --fr"
    with pytest.raises(DamagedLedgerError, match=told):
        study.run()
    with pytest.raises(DamagedLedgerError, match=r"ledger\.backup\.db"):
        restore_ledger(run_dir)
    run_dir.ledger.unlink()
    with pytest.raises(SweeperError, match="ledger"):
        study.run()


def test_a_ledger_that_is_removed_while_the_study_runs_ends_it(
    halfway: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(halfway).run_dir
    with closing(Ledger.open(run_dir.ledger)) as ledger:
        run_dir.ledger.unlink()
        with pytest.raises(LedgerError, match="removed or replaced while the study ran"):
            ledger.add_session({})


def test_the_command(
    halfway: Study, copied: Callable[[Study], Study], command: CommandLine
) -> None:
    study = copied(halfway)
    run = ("run", str(study.directory / "study.toml"), "--quiet")
    options = settings(f"results.dir={study.run_dir.root}", "execution.strategy=padded")
    study.run_dir.ledger.write_bytes(b"")
    refused = command(*run, *options)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "Traceback" not in refused.stderr
    *_, words = refused.stderr.rstrip().partition(": python -m sweeper ")
    done = command(*words.split())
    assert "ledger.db was restored from ledger.backup.db, which ends with round 1" in done.stdout
    assert command(*run, *options).returncode == 0


def test_sessions_are_those_of_the_copy_while_the_ledger_cannot_be_read(
    unbroken: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(unbroken).run_dir
    recorded = backup.sessions(run_dir)
    assert len(recorded) == 1
    with closing(Ledger.open(run_dir.ledger)):  # as a study that trains
        assert backup.sessions(run_dir) == recorded
    run_dir.ledger.write_bytes(b"")
    assert backup.sessions(run_dir) == recorded
    run_dir.backup.unlink()
    assert backup.sessions(run_dir) == []
