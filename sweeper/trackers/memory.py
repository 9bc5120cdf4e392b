"""What a run directory remembers about trackers: a key of its own, and what was logged where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sweeper.errors import Problem, SetupError
from sweeper.files import read_json, write_record
from sweeper.rundir import HINT, RunDir
from sweeper.trackers.tracker import Logged


@dataclass(slots=True)
class TrackerLog:
    """The content of `trackers.json`, written whole after each change."""

    run_dir: RunDir
    key: str
    logged: dict[str, Any]

    def of(self, place: str) -> Logged:
        """What was logged to a place."""
        found = self.logged.get(place, {"points": 0, "trials": []})
        return Logged(found["points"], frozenset(found["trials"]))

    def keep(self, place: str, logged: Logged) -> None:
        """Remember what was logged to a place."""
        self.logged[place] = {"points": logged.points, "trials": sorted(logged.trials)}
        self._write()

    def _write(self) -> None:
        record = {"key": self.key, "logged": self.logged}
        write_record(self.run_dir.trackers, self.run_dir.staging, record)


def read_tracker_log(run_dir: RunDir) -> TrackerLog:
    """What a run directory remembers about trackers; it gets its key the first time.

    Raises:
        SetupError: it is damaged.
    """
    try:
        found = read_json(run_dir.trackers)
        memory = TrackerLog(run_dir, str(found["key"]), dict(found["logged"]))
        for place in memory.logged:
            memory.of(place)
    except FileNotFoundError:
        memory = TrackerLog(run_dir, uuid4().hex[:12], {})
        memory._write()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        found = f"it does not say what was logged ({error})"
        raise SetupError(Problem(str(run_dir.trackers), "", found, HINT)) from error
    return memory
