"""What a table of the user's could be used for: which column to predict, and as what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_bool_dtype, is_float_dtype, is_numeric_dtype

from sweeper.data.columns import has_too_many_values, plain, unfit_kind
from sweeper.data.naming import counted, did_you_mean
from sweeper.errors import DataError, Problem

# read no further to guess
_ROWS = 100_000
# as people call what they want to predict, the likeliest first
_TARGETS = ("target", "label", "labels", "class", "y", "outcome", "output", "price", "value")
# whole numbers of so many values are classes, of more they are counted
_MOST_CLASSES = 20

_READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "csv": lambda path: pd.read_csv(path, nrows=_ROWS, low_memory=False),
    "parquet": pd.read_parquet,
}


@dataclass(frozen=True, slots=True)
class Guess:
    """A table as a study could use it; `source` is the kind of file, `rows` how many it has.

    `drop` are columns that a study cannot learn from: those that hold neither numbers nor text,
    nothing at all, or text that is hardly the same twice. `has_gaps` tells of missing values in the
    others. The target has so many different `values`, and the `rarest` is that of so many rows.
    """

    source: str
    target: str
    is_classes: bool
    rows: int
    drop: tuple[str, ...] = ()
    has_gaps: bool = False
    values: int = 0
    rarest: int = 0


def guess(path: Path) -> Guess:
    """What could be predicted from the table at `path`: a column by its name, else the last one.

    Raises:
        DataError: there is no such file, or it is no table.
    """
    source = path.suffix.lower().removeprefix(".")
    if source not in _READERS:
        known = " or ".join(f".{name}" for name in _READERS)
        raise DataError(Problem(str(path), "", "of an unknown kind", f"name a file in {known}"))
    if not path.is_file():
        near = did_you_mean(path.name, [other.name for other in path.parent.glob(f"*.{source}")])
        raise DataError(Problem(str(path), "", "no such file", near or "write its path"))
    try:
        frame = _READERS[source](path)
    except (OSError, ValueError, ImportError) as error:
        mend = f"name a {source.upper()} file with a row of column names"
        raise DataError(Problem(str(path), "", f"cannot be read ({error})", mend)) from error
    if frame.empty or len(frame.columns) < 2:
        found = f"{counted(len(frame), 'row')} and {counted(len(frame.columns), 'column')}"
        raise DataError(Problem(str(path), "", found, "name one with rows and two columns or more"))
    names = {str(name).lower(): str(name) for name in reversed(frame.columns)}
    target = next((names[name] for name in _TARGETS if name in names), str(frame.columns[-1]))
    features = plain(frame.drop(columns=target))[0]
    drop = tuple(str(name) for name in features if _is_of_no_use(features[name]))
    has_gaps = bool(features.drop(columns=[*drop]).isna().to_numpy().any())
    counts = frame[target].value_counts()
    return Guess(
        source,
        target,
        _is_classes(frame[target]),
        len(frame),
        drop,
        has_gaps,
        values=len(counts),
        rarest=int(counts.min()) if len(counts) else 0,
    )


def _is_of_no_use(column: pd.Series[Any]) -> bool:
    is_text = not is_numeric_dtype(column.dtype)
    return (
        unfit_kind(column) is not None
        or not column.count()
        or (is_text and has_too_many_values(column))
    )


def _is_classes(column: pd.Series[Any]) -> bool:
    if is_bool_dtype(column.dtype) or not is_numeric_dtype(column.dtype):
        return True
    return not is_float_dtype(column.dtype) and column.nunique() <= _MOST_CLASSES
