"""Publishes how much each parameter matters, computed while the study trains.

A separate thread does this, rarely enough to take at most a hundredth of the time. Its errors are
only logged: a study does not depend on it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sweeper.config import StudyConfig
from sweeper.results.columns import LEAST_TRIALS
from sweeper.results.importance import write_importance
from sweeper.results.schema import importance_schema
from sweeper.rundir import RunDir
from sweeper.sweep.state import EndedTrials
from sweeper.trial import TrialState

if TYPE_CHECKING:
    from sweeper.study.importance import Importance

_GROWTH = 1.1
_EVERY_S, _SHARE = 10.0, 0.01
_log = logging.getLogger("sweeper")


class Importances:
    """The importances of one study, from its finished trials; its methods are for one thread."""

    def __init__(
        self,
        config: StudyConfig,
        run_dir: RunDir,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._run_dir = run_dir
        self._clock = clock
        self._known: Importance | None = None
        self._added = set[int]()
        self._thread: threading.Thread | None = None
        self._published, self._cost_s, self._at = 0, 0.0, clock()

    def consider(self, rounds: int, ended: EndedTrials) -> None:
        """Start to compute them again, if there are enough new trials and enough time has passed.

        `ended` are the finished trials after this many `rounds`.
        """
        waits_s = max(_EVERY_S, self._cost_s / _SHARE)
        is_working = self._thread is not None and self._thread.is_alive()
        if is_working or self._clock() - self._at < waits_s or not self._are_due(ended):
            return
        self._thread = threading.Thread(
            target=self._publish, args=(rounds, _new(ended, self._added))
        )
        self._thread.daemon = True
        self._thread.start()

    def finish(self, rounds: int, ended: EndedTrials) -> None:
        """Publish the importances from all finished trials."""
        if self._thread is not None:
            self._thread.join()
        if self._are_due(ended, growth=1.0):
            self._publish(rounds, _new(ended, self._added))

    def _are_due(self, ended: EndedTrials, growth: float = _GROWTH) -> bool:
        is_more = ended.counts[TrialState.COMPLETE] > growth * self._published
        return is_more and has_importances(self._config, ended)

    def _publish(self, rounds: int, rows: list[Mapping[str, Any]]) -> None:
        started = self._clock()
        try:
            if self._known is None:
                from sweeper.study.importance import Importance

                self._known = Importance(self._config)
            self._known.add(rows)
            self._added |= {row["trial_number"] for row in rows}
            importances = {
                metric: self._known.of(index)
                for index, metric in enumerate(self._config.study.objectives)
            }
            schema = importance_schema(self._config)
            write_importance(self._run_dir, schema, importances, rounds, len(self._added))
            self._published = len(self._added)
        except Exception as error:  # any error of a library: the study continues without
            _log.warning("importance.parquet was not written: %s: %s", type(error).__name__, error)
        self._at = self._clock()
        self._cost_s = self._at - started


def has_importances(config: StudyConfig, ended: EndedTrials) -> bool:
    """Whether importances can be computed for a study with these finished trials."""
    return bool(config.search) and ended.counts[TrialState.COMPLETE] >= LEAST_TRIALS


def _new(ended: Mapping[int, Mapping[str, Any]], added: set[int]) -> list[Mapping[str, Any]]:
    """The rows of complete trials that have not been added yet."""
    rows = (row for number, row in ended.items() if number not in added)
    return [row for row in rows if row["state"] == TrialState.COMPLETE]
