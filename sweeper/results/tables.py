"""Arrow tables of the published files, from what a ledger holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sweeper.results.arrays import array_of, numbers, repeated
from sweeper.results.columns import DOUBLE, STRING, TIME
from sweeper.results.phases import PhaseOf
from sweeper.trial import CurveBlock


def rows_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """`rows` as a table of `schema`: what a row lacks is null, what the schema lacks is left out.

    Times are seconds since 1970, UTC; a number that is not finite is null.
    """
    columns = [_column([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def metrics_table(
    blocks: Iterable[CurveBlock],
    study: str,
    schema: pa.Schema,
    folds: int = 1,
    phase_of: PhaseOf | None = None,
) -> pa.Table:
    """One row a value of the curves, by round, trial, replicate, fold, epoch and metric."""
    tables = [_block_table(block, study, schema, folds, phase_of) for block in blocks]
    return pa.concat_tables([rows_table([], schema), *tables]).combine_chunks()


def n_values(block: CurveBlock) -> int:
    """How many rows of metrics the block is."""
    return sum(curve.by_member.size for curve in block.curves)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    convert = _CONVERSIONS.get(kind)
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return array_of(values, kind)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


# Choices of mixed kinds share a column of text.
_CONVERSIONS: dict[pa.DataType, Callable[[Any], Any]] = {
    DOUBLE: _finite,
    TIME: _microseconds,
    STRING: str,
}


def _block_table(
    block: CurveBlock, study: str, schema: pa.Schema, folds: int, phase_of: PhaseOf | None
) -> pa.Table:
    curves = [curve for curve in block.curves if curve.values.size]
    if not curves:
        return rows_table([], schema)
    parts = [(c, member, values) for c in curves for member, values in enumerate(c.by_member)]
    values = np.concatenate([values for _, _, values in parts])
    lengths = [len(values) for _, _, values in parts]
    trials = np.repeat([curve.number for curve, _, _ in parts], lengths)
    members = np.repeat([member for _, member, _ in parts], lengths)
    epochs = np.concatenate([np.arange(c.first_epoch, c.last_epoch + 1) for c, _, _ in parts])
    steps = epochs * np.repeat([curve.steps_per_epoch for curve, _, _ in parts], lengths)
    n_epochs, n_metrics = values.shape
    phases = pa.nulls(values.size, STRING)
    if phase_of is not None:
        of_epochs = map(phase_of, trials.tolist(), epochs.tolist())
        phases = array_of(np.repeat([*of_epochs], n_metrics).tolist(), STRING)
    columns = {
        "study": repeated([study], values.size),
        "trial_number": np.repeat(trials, n_metrics),
        "replicate": np.repeat(members // folds, n_metrics),
        "fold": np.repeat(members % folds, n_metrics),
        "epoch": np.repeat(epochs, n_metrics),
        "step": np.repeat(steps, n_metrics),
        "metric": repeated(block.metrics, n_epochs),
        "phase": phases,
        "value": numbers(values.ravel(), DOUBLE, ~np.isfinite(values).ravel()),
        "elapsed_s": np.full(values.size, block.elapsed_s),
    }
    return pa.Table.from_arrays([_array(columns[f.name], f.type) for f in schema], schema=schema)


def _array(column: pa.Array | np.ndarray, kind: pa.DataType) -> pa.Array:
    return numbers(column, kind) if isinstance(column, np.ndarray) else column
