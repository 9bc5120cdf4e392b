"""The source of truth of a study; the only importer of sqlite3."""

from sweeper.ledger.file import Counts, Remains, check_file, count_committed, is_held, read_remains
from sweeper.ledger.ledger import Ledger
from sweeper.ledger.records import BucketRecord, ClosedRound, Closing, OpenRound

__all__ = [
    "BucketRecord",
    "ClosedRound",
    "Closing",
    "Counts",
    "Ledger",
    "OpenRound",
    "Remains",
    "check_file",
    "count_committed",
    "is_held",
    "read_remains",
]
