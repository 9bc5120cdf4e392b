"""Rows that were removed from a ledger are noticed when it is opened, whatever the table."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sweeper.errors import DamagedLedgerError
from sweeper.ledger import Closing, Ledger
from sweeper.ledger.checking import missing_rows
from sweeper.sweep.verify import repair, restore_ledger, verify
from sweeper.trial import Memory
from tests.crashes import Study
from tests.ledger.test_ledger import write_rounds

LAST = "rowid = (SELECT max(rowid) FROM {table})"
FIRST = "rowid = (SELECT min(rowid) FROM {table})"
# what is removed, and what the message then says about the ledger of the finished study
REMOVED = {
    f"trial WHERE {LAST}": "row 4 of table trial is missing",
    f"trial WHERE {FIRST}": "row 0 of table trial is missing",
    "trial": "row 0 of table trial is missing",
    f"round WHERE {LAST}": "of table round is missing",
    f"round WHERE {FIRST}": "row 1 of table round is missing",
    "round": "of table round is missing",
    f"closing WHERE {LAST}": "of table closing is missing",
    "closing": "of table closing is missing",
    "session": "table session is empty, but there are 5 trials",
    "ending": "is damaged",
    "bucket": "is damaged",
}

# of a study that was killed: the open round, which adds no trial
OPEN = f"round WHERE {LAST}"


@pytest.fixture(scope="module")
def halfway(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study that was killed with a round open, and trials in training."""
    study = Study(tmp_path_factory.mktemp("halfway"), "supervised", "padded")
    assert study.crash("ledger.close:begin", 2)
    Ledger.open(study.run_dir.ledger).close()
    return study


def remove(path: Path, what: str) -> None:
    """Remove rows from a ledger, as a user may with SQLite's own shell."""
    table = what.partition(" ")[0]
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(f"DELETE FROM {what.format(table=table)}").rowcount


@pytest.mark.parametrize("what", REMOVED)
def test_a_ledger_that_lacks_rows_is_refused(
    what: str, ended: Study, copied: Callable[[Study], Study]
) -> None:
    study = copied(ended)
    remove(study.run_dir.ledger, what)
    (damage,) = verify(study.run_dir).damage
    assert damage.file == "ledger.db"
    assert REMOVED[what] in damage.found
    assert "--restore-ledger" in damage.hint
    with pytest.raises(DamagedLedgerError, match=REMOVED[what]):
        study.run()
    restore_ledger(study.run_dir)
    repair(study.run_dir)
    assert verify(study.run_dir).damage == ()


@pytest.mark.parametrize("what", [name for name in REMOVED if name not in ("ending", OPEN)])
def test_a_ledger_of_a_killed_study_that_lacks_rows_is_refused(
    what: str, halfway: Study, copied: Callable[[Study], Study]
) -> None:
    study = copied(halfway)
    before = {damage.file for damage in verify(study.run_dir).damage}
    assert before <= {
        "trials.parquet",
        "buckets.parquet",
        "spans.parquet",
        "metrics",
        "status.json",
    }
    remove(study.run_dir.ledger, what)
    with pytest.raises(DamagedLedgerError):
        study.run()


def test_an_open_round_without_new_trials_is_planned_again(
    ended: Study, halfway: Study, copied: Callable[[Study], Study]
) -> None:
    study = copied(halfway)
    remove(study.run_dir.ledger, OPEN)
    study.run()
    assert study.left() == ended.left()


def test_looking_for_missing_rows_is_fast(tmp_path: Path) -> None:
    """100,000 trials: tens of milliseconds on an idle machine."""
    with closing(Ledger.create(tmp_path / "ledger.db")) as ledger:
        ledger.add_session({})
        write_rounds(ledger, 2)
        ledger.open_round(3, [], {}, Memory())
        ledger.close_round(3, Closing((), 0.0, {}, {}), [], {})
        numbers = [(number,) for number in range(2, 100_000)]
        for table in ("trial", "ending"):
            with ledger._transaction():
                ledger._db.executemany(f"INSERT INTO {table} VALUES (?, 3, '{{}}', '')", numbers)
        began = time.perf_counter()
        assert [*missing_rows(ledger._db)] == []
        took_s = time.perf_counter() - began
        assert took_s < 1.0
