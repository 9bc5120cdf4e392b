"""pandas, Polars and DuckDB read a study for as long as it runs, and never meet half a file."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import duckdb
import pandas as pd
import polars as pl
import pytest

from sweeper.rundir import RunDir
from tests.command_line import CommandLine, settings

Count = Callable[[RunDir], tuple[int, int]]
LONG = settings("study.n_trials=1_000_000", "schedule.parallel=32", "study.sampler={name='random'}")


def by_pandas(run_dir: RunDir) -> tuple[int, int]:
    return len(pd.read_parquet(run_dir.trials)), len(pd.read_parquet(run_dir.metrics))


def by_polars(run_dir: RunDir) -> tuple[int, int]:
    return len(pl.read_parquet(run_dir.trials)), len(pl.read_parquet(run_dir.metrics))


def by_duckdb(run_dir: RunDir) -> tuple[int, int]:
    with duckdb.connect() as connection:
        return (
            connection.read_parquet(str(run_dir.trials)).to_arrow_table().num_rows,
            connection.read_parquet(str(run_dir.metrics / "*.parquet")).to_arrow_table().num_rows,
        )


class Reader(threading.Thread):
    """Counts the rows of a study, again and again, until it is told to stop."""

    def __init__(self, count: Count, run_dir: RunDir) -> None:
        super().__init__(name=count.__name__)
        self._count = count
        self._run_dir = run_dir
        self._stop_reading = threading.Event()
        self.seen = [(0, 0)]
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self._stop_reading.is_set():
                self.seen.append(self._count(self._run_dir))
        except Exception as error:
            self.error = error

    def end(self) -> None:
        """Read a last time, and stop."""
        self._stop_reading.set()
        self.join()
        self.seen.append(self._count(self._run_dir))


@pytest.mark.parametrize(
    "seconds", [8, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(180)])]
)
def test_a_running_study_can_be_read_at_any_time(seconds: int, command: CommandLine) -> None:
    command.write()
    readers = [Reader(count, command.run_dir) for count in (by_pandas, by_polars, by_duckdb)]
    with command.started("run", "study.toml", "--quiet", *LONG) as process:
        while not command.run_dir.trials.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        for reader in readers:
            reader.start()
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    for reader in readers:
        reader.end()

    assert (process.returncode, out) == (130, said), said
    for reader in readers:
        assert reader.error is None, reader.name
        for rows in zip(*reader.seen, strict=True):
            assert sorted(rows) == list(rows), reader.name
            assert len(set(rows)) > 2, reader.name
    assert len({reader.seen[-1] for reader in readers}) == 1
