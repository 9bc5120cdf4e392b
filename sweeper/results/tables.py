"""Builds the Arrow tables of the published files from the records of a ledger.

Arrays are built from their buffers, because all other ways to convert Python or NumPy values import
pandas, which takes longer than publishing a small study.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from sweeper.config import StudyConfig
from sweeper.config.alternating import AlternatingTable
from sweeper.results.columns import BOOL, DOUBLE, INT32, INT64, STRING, TIME
from sweeper.trial import CurveBlock, Scalar

# arrays of the standard library reject values that would be rounded or cut, unlike NumPy's
_CODES = {INT32: "i", INT64: "q", TIME: "q", DOUBLE: "d"}


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """`values` as an array of a published type, with None as null and times in microseconds.

    Raises:
        TypeError: a value has another type.
        OverflowError: a value does not fit.
    """
    missing = np.array([value is None for value in values], bool)
    if kind == STRING:
        return _texts(["" if value is None else value for value in values], missing)
    filled = [0 if value is None else value for value in values]
    if kind == BOOL:
        return _whole(_bits(np.array(filled, bool)), BOOL, missing)
    return _whole(array(_CODES[kind], filled), kind, missing)


def numbers(values: np.ndarray, kind: pa.DataType, missing: np.ndarray | None = None) -> pa.Array:
    """A flat array of numbers as an Arrow array, null where `missing` is true."""
    missing = np.zeros(len(values), bool) if missing is None else missing
    return _whole(values.astype(kind.to_pandas_dtype(), copy=False), kind, missing)


def repeated(texts: Sequence[str], times: int) -> pa.Array:
    """The strings in order, the whole sequence `times` times."""
    return _texts(texts, np.zeros(len(texts) * times, bool), times)


def _texts(texts: Sequence[str], missing: np.ndarray, times: int = 1) -> pa.Array:
    encoded = [text.encode() for text in texts]
    lengths = np.tile(np.array([len(text) for text in encoded], np.int64), times)
    offsets = array("i", [0, *np.cumsum(lengths).tolist()])
    buffers = [_validity(missing), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded) * times)]
    return pa.Array.from_buffers(STRING, len(missing), buffers)


def _whole(values: Any, kind: pa.DataType, missing: np.ndarray) -> pa.Array:
    """The Arrow array that shares the memory of `values`."""
    return pa.Array.from_buffers(kind, len(missing), [_validity(missing), pa.py_buffer(values)])


def _validity(missing: np.ndarray) -> pa.Buffer | None:
    return pa.py_buffer(_bits(~missing)) if missing.any() else None


def _bits(values: np.ndarray) -> np.ndarray:
    return np.packbits(values, bitorder="little")


PhaseOf = Callable[[int, int], str]
"""Maps a trial and an epoch to a phase."""


def phase_of(
    config: StudyConfig, params_of: Callable[[int], Mapping[str, Scalar]]
) -> PhaseOf | None:
    """The phases of a study, if it has any; `params_of` is called if they are searched."""
    train = config.train
    if not isinstance(train, AlternatingTable):
        return None
    searched = (*config.search, *config.same_as)
    is_searched = any(key.startswith(("train.phases.", "train.warmup.")) for key in searched)
    if not is_searched:
        return lambda number, epoch: train.phase_at(epoch)

    @cache
    def own(number: int) -> AlternatingTable:
        table = config.settings_of(params_of(number)).train
        assert isinstance(table, AlternatingTable)
        return table

    return lambda number, epoch: own(number).phase_at(epoch)


def rows_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """`rows` as a table of `schema`: missing columns are null, unknown ones are left out.

    Times are seconds since 1970, UTC; numbers that are not finite are null.
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
    """One row per value of the curves, by round, trial, replicate, fold, epoch and metric."""
    tables = [_block_table(block, study, schema, folds, phase_of) for block in blocks]
    return pa.concat_tables([rows_table([], schema), *tables]).combine_chunks()


def n_values(block: CurveBlock) -> int:
    """How many rows of metrics the block has."""
    return sum(curve.by_member.size for curve in block.curves)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    convert = _CONVERSIONS.get(kind)
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return array_of(values, kind)


# Choices of mixed types share a text column.
_CONVERSIONS: dict[pa.DataType, Callable[[Any], Any]] = {
    DOUBLE: lambda value: value if math.isfinite(value) else None,
    TIME: lambda seconds: round(seconds * 1e6),  # in microseconds
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
    arrays = [
        numbers(columns[field.name], field.type)
        if isinstance(columns[field.name], np.ndarray)
        else columns[field.name]
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
