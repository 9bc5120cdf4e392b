"""Readers of a study's tables in three libraries, while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import duckdb
import pandas as pd
import polars as pl

from sweeper.rundir import RunDir

Count = Callable[[RunDir], tuple[int, int]]


def by_pandas(run_dir: RunDir) -> tuple[int, int]:
    """The rows of trials and metrics, by pandas."""
    return len(pd.read_parquet(run_dir.trials)), len(pd.read_parquet(run_dir.metrics))


def by_polars(run_dir: RunDir) -> tuple[int, int]:
    """The rows of trials and metrics, by Polars."""
    return len(pl.read_parquet(run_dir.trials)), len(pl.read_parquet(run_dir.metrics))


def by_duckdb(run_dir: RunDir) -> tuple[int, int]:
    """The rows of trials and metrics, by DuckDB."""
    with duckdb.connect() as connection:
        return (
            connection.read_parquet(str(run_dir.trials)).to_arrow_table().num_rows,
            connection.read_parquet(str(run_dir.metrics / "*.parquet")).to_arrow_table().num_rows,
        )


LIBRARIES: tuple[Count, ...] = (by_pandas, by_polars, by_duckdb)


class Reader(threading.Thread):
    """Counts the rows of a study repeatedly, until it is told to stop."""

    def __init__(self, count: Count, run_dir: RunDir, pause_s: float = 0.0) -> None:
        super().__init__(name=count.__name__)
        self._count = count
        self._run_dir = run_dir
        self._pause_s = pause_s
        self._stop_reading = threading.Event()
        self.seen = [(0, 0)]
        self.error: Exception | None = None

    def run(self) -> None:
        """Read until told to stop, or until a read fails."""
        try:
            while not self._stop_reading.wait(self._pause_s):
                self.seen.append(self._count(self._run_dir))
        except Exception as error:
            self.error = error

    def end(self) -> None:
        """Read a last time, and stop."""
        self._stop_reading.set()
        self.join()
        self.seen.append(self._count(self._run_dir))

    @property
    def has_seen_growth(self) -> bool:
        """Whether trials had more rows at least twice, and metrics, written less often, once."""
        trials, metrics = (len(set(rows)) for rows in zip(*self.seen, strict=True))
        return trials > 2 and metrics > 1

    @property
    def is_waiting(self) -> bool:
        """Whether it reads on, and more rows are still to come, however busy the machine is."""
        return self.is_alive() and not self.has_seen_growth

    @property
    def has_lost_rows(self) -> bool:
        """Whether a later read ever found fewer rows than an earlier one."""
        return any(sorted(rows) != list(rows) for rows in zip(*self.seen, strict=True))
