"""Reading a ledger returns what was written, in the order in which it was written."""

from __future__ import annotations

import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from sweeper.errors import DamagedLedgerError, LedgerError
from sweeper.faults import plan_faults
from sweeper.ledger import Closing, Ledger, is_held
from sweeper.ledger.digests import digest_of
from sweeper.trial import Memory, TrialSpec
from tests.command_line import contents

CLOSING = Closing(("val_loss",), 1, {}, {})


def write_rounds(ledger: Ledger, rounds: int) -> None:
    """Trial `n` begins and ends in round `n + 1`."""
    for number in range(rounds):
        spec = TrialSpec(number, {}, {}, number)
        ledger.open_round(number + 1, [spec], {}, Memory())
        # the text of a row sorts differently from its number
        ledger.close_round(number + 1, CLOSING, [], {number: {"trial_number": number}})


def test_rows_come_by_number(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db")
    sessions = [{"run_id": run_id} for run_id in ("c", "a", "b")]
    for session in sessions:
        ledger.add_session(session)
    write_rounds(ledger, 12)

    assert ledger.sessions() == sessions
    assert [row["trial_number"] for row in ledger.trial_rows()] == list(range(12))
    assert [closed.round for closed in ledger.closed_rounds()] == list(range(1, 13))
    ledger.close()


@pytest.mark.parametrize("row", ["meta", "session", "round", "trial", "ending", "closing"])
def test_a_changed_row_is_found_when_the_ledger_is_opened(row: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path)
    ledger.add_session({"run_id": "a"})
    write_rounds(ledger, 2)
    ledger._db.execute(f"UPDATE {row} SET body = replace(body, '1', '2')")
    ledger._db.execute(f"UPDATE {row} SET body = body || ' '")
    ledger.close()

    with pytest.raises(LedgerError, match=r"start over with --fresh |reads 1"):
        Ledger.open(path)


def test_a_version_that_is_not_valid_json_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path)
    ledger._db.execute(
        "UPDATE meta SET body = '{}', digest = ?", (digest_of("schema_version", "{}"),)
    )
    ledger.close()
    with pytest.raises(DamagedLedgerError, match=r"a row cannot be read \(KeyError: "):
        Ledger.open(path)


class FailingDisk:
    """A connection to a ledger on a disk that cannot be read."""

    def execute(self, *_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
        raise error


def test_a_disk_that_cannot_be_read_is_reported() -> None:
    ledger = Ledger(cast("Any", FailingDisk()), "ledger.db")
    with pytest.raises(LedgerError, match="Input/output error") as raised:
        ledger.sessions()
    assert not isinstance(raised.value, DamagedLedgerError)


def test_a_round_is_closed_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path)
    ledger.add_session({"run_id": "a"})
    write_rounds(ledger, 2)
    late = {0: {"trial_number": 0, "value": 1.0}}
    with pytest.raises(sqlite3.IntegrityError):
        ledger.close_round(1, CLOSING, [], late)
    with pytest.raises(sqlite3.IntegrityError):
        ledger.close_round(3, CLOSING, [], late)
    assert ledger.trial_rows() == [{"trial_number": 0}, {"trial_number": 1}]
    assert ledger.n_closed_rounds() == 2
    ledger.close()
    Ledger.open(path).close()


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_nothing_of_a_round_is_written_if_its_commit_fails(error: str, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db")
    plan_faults(f"ledger.commit:begin=raise:{error}")
    with pytest.raises(OSError):
        write_rounds(ledger, 1)
    plan_faults(None)
    write_rounds(ledger, 1)
    assert ledger.n_closed_rounds() == 1
    ledger.close()


def opened(directory: Path) -> Ledger:
    """A ledger of three rounds, the last of them in its log."""
    directory.mkdir()
    ledger = Ledger.create(directory / "ledger.db")
    ledger.add_session({"run_id": "a"})
    ledger.close()
    ledger = Ledger.open(directory / "ledger.db")
    write_rounds(ledger, 3)
    return ledger


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """That ledger after it was closed."""
    opened(tmp_path / "closed").close()
    return tmp_path / "closed" / "ledger.db"


@pytest.fixture
def with_log(tmp_path: Path) -> Path:
    """That ledger as a crash leaves it."""
    ledger = opened(tmp_path / "open")
    shutil.copytree(tmp_path / "open", tmp_path / "log")
    ledger.close()
    assert (tmp_path / "log" / "ledger.db-wal").stat().st_size
    return tmp_path / "log" / "ledger.db"


@pytest.mark.parametrize("kind", ["closed", "with_log"])
def test_reading_changes_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(kind)
    before = contents(path.parent)
    ledger = Ledger.read(path)
    assert contents(path.parent) == before
    assert ledger.n_closed_rounds() == 3
    ledger.close()
    assert contents(path.parent) == before


@pytest.mark.parametrize("linked", ["ledger.db", "ledger.db-wal"])
def test_links_are_not_read(linked: str, with_log: Path, tmp_path: Path) -> None:
    link = with_log.parent / linked
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LedgerError, match=r"it is a link, and .* put a copy of the file"):
        Ledger.read(with_log)


def test_a_new_ledger_can_be_closed_in_any_thread(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ledger.close).result()


def test_a_closed_ledger_is_not_called_damaged(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    ledger.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        ledger.sessions()


def test_a_log_is_only_removed_while_no_process_can_open_the_ledger_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, it may be the log of a study that has just started, with its committed rows."""
    path, unlink, removed = tmp_path / "ledger.db", Path.unlink, list[str]()
    Ledger.create(path).close()
    Ledger.open(path).close()  # from now on, it has a log while it is open

    def unlink_if_locked(log: Path, missing_ok: bool = False) -> None:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            other.execute("PRAGMA locking_mode=EXCLUSIVE")
            with pytest.raises(sqlite3.OperationalError, match="database is locked"):
                other.execute("PRAGMA journal_mode=WAL")
        removed.append(log.name)
        unlink(log, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink_if_locked)
        assert not is_held(path)
    assert removed == ["ledger.db-wal"]
    assert [*tmp_path.iterdir()] == [path]
