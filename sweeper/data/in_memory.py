"""Rows in memory, as the Parquet file that their study reads.

It is written once: to a temporary directory for checks and plans, and from there into the run
directory. All sessions read it like any other Parquet file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from sweeper.data.columns import as_pandas, native
from sweeper.errors import DataError, Problem, counted, did_you_mean, listed
from sweeper.files import ScratchDirectory
from sweeper.rundir import RunDir

_CHUNK_ROWS = 100_000
_FORMS = "pass a DataFrame of pandas or Polars, or (X, y) as arrays"
_RENAME = "df.columns = df.columns.astype(str)"
_JOIN = 'df.columns = ["_".join(map(str, name)) for name in df.columns]'
# what Arrow raises for values that have no type in Parquet
_UNFIT = pa.ArrowException, TypeError, ValueError, OverflowError


@dataclass(eq=False)
class RowsInMemory:
    """A table of pandas or Arrow with columns to predict, `targets`; messages call it `name`.

    A copy of it is the same object. Other processes get prepared arrays instead, so it is pickled
    without its rows.
    """

    name: str
    table: pd.DataFrame | pa.Table
    targets: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return UncopiedRows, (self.name,)

    def __copy__(self) -> RowsInMemory:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RowsInMemory:
        return self

    @property
    def file(self) -> Path:
        """A temporary Parquet file of the rows, which is removed with this object at the latest."""
        return self._written

    def forget(self) -> None:
        """Remove the file; it is written again if it is needed again."""
        if "_written" in vars(self):
            del self._written, self._directory

    @cached_property
    def _directory(self) -> ScratchDirectory:
        return ScratchDirectory()

    @cached_property
    def _written(self) -> Path:
        path = self._directory.path / RunDir(Path()).rows.name
        if isinstance(self.table, pa.Table):
            parquet.write_table(self.table, path)
            return path
        schema = pa.Schema.from_pandas(self.table, preserve_index=False)
        # in chunks: a second copy of all rows may not fit into memory
        with parquet.ParquetWriter(path, schema) as writer:
            for start in range(0, len(self.table), _CHUNK_ROWS):
                rows = self.table.iloc[start : start + _CHUNK_ROWS]
                writer.write_table(pa.Table.from_pandas(rows, schema, preserve_index=False))
        return path

    @property
    def frame(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame, numbered from 0."""
        return as_pandas(self.table).reset_index(drop=True)


@dataclass(frozen=True, slots=True)
class UncopiedRows:
    """What rows in memory are in a pickled study; messages call them `name`."""

    name: str
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        """Not available: reading it raises a DataError."""
        found = f"the rows of {self.name} are not copied with a pickled study"
        raise DataError(Problem("", "data", found, "call load_study again, with its data"))

    def forget(self) -> None:
        """Change nothing."""


def rows_in_memory(data: Any, targets: Sequence[str], place: tuple[str, str]) -> RowsInMemory:
    """The rows of a pandas or Polars DataFrame or of arrays `(X, y)`, shaped (rows, features) and
    (rows,) or (rows, targets).

    Arrays have no `targets` but y; `place` is where the user has named those, and under which key.

    Raises:
        DataError: it is none of these, has no rows, or a column has no unique name or a type that
            Parquet lacks; with all problems.
    """
    if isinstance(data, tuple) and len(data) == 2:
        if targets:
            found = "arrays (X, y) already say what to predict"
            raise DataError(Problem(*place, found, "remove it, or pass a DataFrame"))
        frame, targets = _join_xy(*data)
        return RowsInMemory("the data", _check_table(frame, "the data"), tuple(targets))
    name = "the DataFrame"
    table = _arrow(data) if hasattr(data, "to_arrow") else data
    if not isinstance(table, pd.DataFrame | pa.Table):
        kind = type(data).__name__
        hint = f"pass data.collect(), or {_FORMS}" if hasattr(data, "collect") else _FORMS
        raise DataError(Problem("", "data", f"a {kind} is not a table", hint))
    if isinstance(table, pd.DataFrame):
        table = table.copy(deep=False)  # later changes of the caller's table do not reach it
    checked, notes = _check_table(table, name), tuple(_index_notes(table))
    columns = _names(checked)
    if not targets:
        hint = f"pass target=...; its columns are {listed(columns)}"
        raise DataError(Problem(*place, "not named", hint))
    absent = [one for one in dict.fromkeys(targets) if one not in columns]
    if len(absent) > len(columns):  # probably the values of a column
        found = f"{name} has no columns {listed([repr(one) for one in absent])}"
        raise DataError(Problem(*place, found, f"its columns are {listed(columns)}"))
    if absent:
        raise DataError(_no_column(place, name, one, table) for one in absent)
    return RowsInMemory(name, checked, tuple(targets), notes)


def _arrow(data: Any) -> pd.DataFrame | pa.Table:
    """A Polars table as one of Arrow; of pandas if it has types that Arrow lacks."""
    with suppress(ValueError):
        return data.to_arrow()
    return as_pandas(data)


def _names(table: pd.DataFrame | pa.Table) -> list[Any]:
    return list(table.column_names if isinstance(table, pa.Table) else table.columns)


def _no_column(place: tuple[str, str], name: str, wanted: str, table: Any) -> Problem:
    columns = _names(table)
    hint = did_you_mean(wanted, columns) or f"its columns are {listed(columns)}"
    if wanted in getattr(getattr(table, "index", None), "names", ()):
        hint = "it is the index: pass df.reset_index()"
    return Problem(*place, f"{name} has no column '{wanted}'", hint)


def _index_notes(table: pd.DataFrame | pa.Table) -> Iterator[str]:
    levels = [] if isinstance(table, pa.Table) else table.index.names
    for level in (level for level in levels if level is not None):
        yield (
            f"the index '{level}' of the DataFrame is not read as a column: pass df.reset_index() "
            "if the model should learn from it"
        )


def _check_table(table: pd.DataFrame | pa.Table, name: str) -> pd.DataFrame | pa.Table:
    """The table in the byte order of this machine, if it can be written as Parquet."""
    if problems := [*_name_problems(table, name)]:
        raise DataError(problems)
    if not len(table) or not _names(table):
        counts = counted(len(table), "row"), counted(len(_names(table)), "column")
        raise DataError(Problem("", "data", f"{name} has {' and '.join(counts)}", "add some"))
    if isinstance(table, pa.Table):
        return table
    frame = native(table)
    if problems := [*_type_problems(frame, name)]:
        raise DataError(problems)
    return frame


def _name_problems(table: pd.DataFrame | pa.Table, name: str) -> Iterator[Problem]:
    if isinstance(table, pd.DataFrame) and table.columns.nlevels > 1:
        found = f"the column names of {name} have {table.columns.nlevels} levels"
        yield Problem("", "data", found, f"join them, as in {_JOIN}")
        return
    columns = _names(table)
    for column in (column for column in columns if not isinstance(column, str)):
        found = f"column {column!r} of {name} has a name of type {type(column).__name__}"
        yield Problem("", "data", found, f"name it by a string, as in {_RENAME}")
    for column in (column for column, count in Counter(columns).items() if count > 1):
        found = f"{name} has several columns {column!r}"
        yield Problem("", "data", found, "give each column its own name")


def _type_problems(table: pd.DataFrame, name: str) -> Iterator[Problem]:
    sparse = [one for one, kind in table.dtypes.items() if isinstance(kind, pd.SparseDtype)]
    if sparse:
        named = listed([f"'{one}'" for one in sparse])
        found = f"{name} has {counted(len(sparse), 'sparse column')}, {named}"
        hint = f"make each dense, as in df['{sparse[0]}'] = df['{sparse[0]}'].sparse.to_dense()"
        yield Problem("", "data", found, hint)
        table = table.drop(columns=sparse)
    try:
        _write_row(table)
    except _UNFIT:
        for column in table:
            try:
                _write_row(table[[column]])
            except _UNFIT as error:
                kinds = sorted({type(value).__name__ for value in table[column].dropna()})
                found = f"column '{column}' of {name} holds values of type {listed(kinds[:3])}"
                reason = str(error.args[0]).partition("\n")[0] if error.args else str(error)
                hint = f"make them numbers or text, or leave the column out ({reason})"
                yield Problem("", "data", found, hint)


def _write_row(table: pd.DataFrame) -> None:
    """Write the first row of a table as Parquet, in memory: a schema may hold what files cannot."""
    schema = pa.Schema.from_pandas(table, preserve_index=False)
    row = pa.Table.from_pandas(table.iloc[:1], schema, preserve_index=False)
    parquet.write_table(row, pa.BufferOutputStream())


def _join_xy(x: Any, y: Any) -> tuple[pd.DataFrame, list[str]]:
    """One table of features and targets, and the names of the targets.

    Raises:
        DataError: their shapes do not fit.
    """
    features, targets = _part("X", x, (2,)), _part("y", y, (1, 2))
    if len(features) != len(targets):
        counts = f"X has {counted(len(features), 'row')}, y has {counted(len(targets), 'row')}"
        raise DataError(Problem("", "data", counts, "pass as many of both"))
    indices = [part.index for part in (x, y) if isinstance(part, pd.DataFrame | pd.Series)]
    if indices and not indices[0].equals(indices[-1]):
        found, hint = "X and y have different indices", "pass y.loc[X.index], or reset both indices"
        raise DataError(Problem("", "data", found, hint))
    whole = pd.concat([features, targets], axis=1)
    return whole, [*map(str, targets.columns)]


def _part(name: str, part: Any, axes: tuple[int, ...]) -> pd.DataFrame:
    """X or y as a table; without names, they are as in a file of arrays: x_0, x_1, ..., and y."""
    if hasattr(part, "to_arrow"):  # of Polars
        part = as_pandas(part if hasattr(part, "columns") else part.to_frame(part.name or "y"))
    if isinstance(part, pd.Series):
        part = part.to_frame("y" if part.name is None else part.name)
    if isinstance(part, pd.DataFrame):
        return part.reset_index(drop=True)
    if hasattr(part, "toarray"):
        found, hint = f"{name} is a sparse {type(part).__name__}", f"pass {name}.toarray()"
        raise DataError(Problem("", "data", found, hint))
    try:
        array = part if isinstance(part, np.ndarray) else np.asarray(part)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(Problem("", "data", f"{name} is not an array ({error})", _FORMS)) from error
    if array.ndim not in axes or array.dtype.names is not None:
        wanted = "(rows, features)" if name == "X" else "(rows,) or (rows, targets)"
        found = f"{name} has the shape {array.shape}"
        raise DataError(Problem("", "data", found, f"pass an array shaped {wanted}"))
    if array.dtype.kind == "V":  # bfloat16 and others that NumPy lacks
        array = array.astype(np.float32)
    if array.ndim == 1:
        return pd.DataFrame({name.lower(): array})
    names = [f"{name.lower()}_{index}" for index in range(array.shape[1])]
    return pd.DataFrame(array, columns=names if name == "X" or len(names) > 1 else ["y"])
