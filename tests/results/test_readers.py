"""Readers of a running study see complete files, and never fewer rows than before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import pandas as pd
import polars as pl
import pytest

from sweeper.ledger import Ledger
from sweeper.results.publish import Publisher
from sweeper.rundir import RunDir
from tests.results.committed import close_rounds, study

Count = Callable[[RunDir], tuple[int, int, int]]


def by_pandas(run_dir: RunDir) -> tuple[int, int, int]:
    paths = (run_dir.trials, run_dir.metrics, run_dir.buckets)
    trials, metrics, buckets = (len(pd.read_parquet(path)) for path in paths)
    return trials, metrics, buckets


def by_polars(run_dir: RunDir) -> tuple[int, int, int]:
    paths = (run_dir.trials, run_dir.metrics, run_dir.buckets)
    trials, metrics, buckets = (len(pl.read_parquet(path)) for path in paths)
    return trials, metrics, buckets


def by_duckdb(run_dir: RunDir) -> tuple[int, int, int]:
    paths = (run_dir.trials, run_dir.metrics / "*.parquet", run_dir.buckets)
    with duckdb.connect() as connection:
        trials, metrics, buckets = (
            connection.read_parquet(str(p)).to_arrow_table().num_rows for p in paths
        )
    return trials, metrics, buckets


@contextmanager
def publishing(run_dir: RunDir, ledger: Ledger) -> Iterator[None]:
    """Close a round and rewrite every file, again and again, until the block ends."""
    show = Publisher(run_dir, study())
    show.publish(ledger)
    stop, errors = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            while not stop.is_set():
                close_rounds(ledger, 1)
                show.publish(ledger, final=True)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert errors == []


@pytest.mark.parametrize("count", [by_pandas, by_polars, by_duckdb])
def test_readers_never_see_partial_files(run_dir: RunDir, ledger: Ledger, count: Count) -> None:
    seen = [(0, 0, 0)]
    with publishing(run_dir, ledger):
        end = time.monotonic() + 0.7
        while time.monotonic() < end:
            seen.append(count(run_dir))
    for column in zip(*seen, strict=True):
        assert sorted(column) == list(column)
    assert seen[-1] > (0, 0, 0)
