"""The truth of a study; the only importer of sqlite3."""

from sweeper.ledger.file import checked
from sweeper.ledger.ledger import Ledger
from sweeper.ledger.records import BucketRecord, ClosedRound, Closing, OpenRound

__all__ = ["BucketRecord", "ClosedRound", "Closing", "Ledger", "OpenRound", "checked"]
