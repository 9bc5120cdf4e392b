"""The digest depends on every deterministic value, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import compute, parquet

from sweeper.ledger import Ledger
from sweeper.results.publish import Publisher
from sweeper.rundir import RunDir
from tests.digest import deterministic_digest
from tests.results.committed import close_rounds, study


@pytest.fixture
def published(run_dir: RunDir, ledger: Ledger) -> RunDir:
    """Four rounds in one part."""
    close_rounds(ledger, 4)
    Publisher(run_dir, study()).publish(ledger, final=True)
    return run_dir


def test_cuts_and_circumstances_do_not_change_the_digest(
    published: RunDir, tmp_path: Path, open_ledger: Callable[[str], Ledger]
) -> None:
    other, ledger = RunDir(tmp_path / "other"), open_ledger("other.db")
    for seconds in range(4):
        close_rounds(ledger, 1, elapsed_s=float(seconds))
        Publisher(other, study()).publish(ledger, final=True)
    assert deterministic_digest(published) == deterministic_digest(other)


def test_the_order_of_rows_does_not_change_the_digest(published: RunDir) -> None:
    digest = deterministic_digest(published)
    for path in (published.trials, published.metrics / "part-000001-000004.parquet"):
        rows = parquet.read_table(path)
        parquet.write_table(rows.take(list(range(len(rows)))[::-1]), path)
    assert digest == deterministic_digest(published)


@pytest.mark.parametrize("name", ["value", "params_rate", "state", "told_through_round"])
def test_every_bit_of_a_trial_counts(published: RunDir, name: str) -> None:
    digest = deterministic_digest(published)
    rows = parquet.read_table(published.trials)
    change(rows, name, published.trials)
    assert digest != deterministic_digest(published)


@pytest.mark.parametrize("name", ["value", "epoch", "metric"])
def test_every_bit_of_a_metric_counts(published: RunDir, name: str) -> None:
    digest = deterministic_digest(published)
    path = published.metrics / "part-000001-000004.parquet"
    change(parquet.read_table(path), name, path)
    assert digest != deterministic_digest(published)


def test_null_is_not_zero(published: RunDir) -> None:
    digest = deterministic_digest(published)
    rows = parquet.read_table(published.trials)
    replace(rows, "best_value", compute.fill_null(rows["best_value"], 0.0), published.trials)
    assert digest != deterministic_digest(published)


def test_circumstances_do_not_count(published: RunDir) -> None:
    digest = deterministic_digest(published)
    rows = parquet.read_table(published.trials)
    for name in ("train_s", "run_id", "attempts"):
        change(rows, name, published.trials)
        assert digest == deterministic_digest(published)


def change(rows: pa.Table, name: str, path: Path) -> None:
    """Write `rows` to `path` with the smallest change to the first value of the column."""
    values = rows[name].to_pylist()
    match values[0]:
        case float():
            values[0] = math.nextafter(values[0], 2.0)
        case int():
            values[0] += 1
        case str():
            values[0] += "."
    replace(rows, name, pa.array(values, rows.schema.field(name).type), path)


def replace(rows: pa.Table, name: str, values: pa.Array, path: Path) -> None:
    """Write `rows` to `path` with `values` in the column."""
    index = rows.schema.get_field_index(name)
    parquet.write_table(rows.set_column(index, rows.schema.field(name), values), path)
