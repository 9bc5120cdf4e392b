"""What is read from a ledger is what was written, in the order in which it was written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sweeper.errors import LedgerError
from sweeper.faults import plan_faults
from sweeper.ledger import Closing, Ledger
from sweeper.trial import Memory, TrialSpec

CLOSING = Closing(("val_loss",), 1, {}, {})


def write_rounds(ledger: Ledger, rounds: int) -> None:
    """Trial `n` begins and ends in round `n + 1`."""
    for number in range(rounds):
        spec = TrialSpec(number, {}, {}, number)
        ledger.open_round(number + 1, [spec], {}, Memory())
        # a row's own text does not sort as its number does
        ledger.close_round(number + 1, CLOSING, [], {number: {"trial_number": number}})


def test_rows_come_by_number(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db")
    sessions = [{"run_id": run_id} for run_id in ("c", "a", "b")]
    for session in sessions:
        ledger.add_session(session)
    write_rounds(ledger, 12)

    assert ledger.sessions() == sessions
    assert [row["trial_number"] for row in ledger.trial_rows()] == list(range(12))
    assert [closed.round for closed in ledger.rounds()] == list(range(1, 13))
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

    with pytest.raises(LedgerError, match=r"start over with --fresh|reads 1"):
        Ledger.open(path)


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
    assert ledger.closed_rounds() == 2
    ledger.close()
    Ledger.open(path).close()


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_nothing_of_a_round_is_written_where_its_commit_fails(error: str, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db")
    plan_faults(f"ledger.commit:begin=raise:{error}")
    with pytest.raises(OSError):
        write_rounds(ledger, 1)
    plan_faults(None)
    write_rounds(ledger, 1)
    assert ledger.closed_rounds() == 1
    ledger.close()
