"""Measures the simple models of a study in a thread of its own, while the study trains.

A study does not depend on them: errors are recorded as the reason why there are none.
"""

from __future__ import annotations

import logging
import threading

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.programs.baseline import measure_baseline
from sweeper.results.baseline import Baseline, read_baseline, write_baseline
from sweeper.rundir import RunDir

# the work is limited, so that a study of more than a few seconds never waits for it
_PATIENCE_S = 20.0
_log = logging.getLogger("sweeper")


def stored_baseline(run_dir: RunDir, data: Dataset) -> Baseline | None:
    """The simple models in a run directory, if they were fitted to the same data."""
    known = read_baseline(run_dir)
    return None if known is None or known.digest != data.digest else known


class BaselineOfStudy:
    """The simple models of one study; its methods are for one thread."""

    def __init__(self, config: StudyConfig, data: Dataset, run_dir: RunDir) -> None:
        self._config = config
        self._data = data
        self._run_dir = run_dir
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start to measure them, unless an earlier session has."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="baseline", daemon=True)
            self._thread.start()

    def finish(self) -> None:
        """Wait until they are measured, if that does not take long."""
        self.begin()
        assert self._thread is not None, "begin has started it"
        self._thread.join(_PATIENCE_S)

    def _write(self) -> None:
        try:
            if stored_baseline(self._run_dir, self._data) is None:
                write_baseline(self._run_dir, measure_baseline(self._config, self._data))
        except OSError as error:  # the disk is full
            _log.warning("%s was not written: %s", self._run_dir.baseline.name, error)
