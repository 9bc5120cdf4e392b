"""Rows that a function of the user's own returns."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sweeper.config import StudyConfig
from sweeper.config.data import FunctionTable
from sweeper.data.arrays import check_columns, tabled
from sweeper.data.columns import as_pandas
from sweeper.data.identity import array_of
from sweeper.data.parquet_files import with_index, with_text_labels
from sweeper.data.raw import RawData
from sweeper.errors import DataError
from sweeper.keywords import unfit_keywords
from sweeper.user_code import RAISED, LoadError, load_function, told

_KEY = "data.function"
# by kind of array, as NumPy calls it; a time has the unit of its array
_MISSING: Mapping[str, Any] = {"f": np.nan, "c": np.nan, "M": "NaT", "m": "NaT"}


def read_function(config: StudyConfig, data: FunctionTable) -> RawData:
    """The rows that the function returns: (x, y), a DataFrame, or a dict of arrays by name.

    Raises:
        DataError: there is no such function, it raises, or what it returns is no table.
    """
    # standard output is the program's own
    with redirect_stdout(sys.stderr):
        returned = as_pandas(_called(config, data))
    wanted = (*data.target, data.split.group, data.split.time)
    if isinstance(returned, pd.DataFrame):
        frame, targets = with_text_labels(with_index(returned, wanted)), data.target
    else:
        frame, names = _tabled(config, data, returned)
        targets = tuple(column for name in data.target for column in names.get(name, (name,)))
    if frame.empty:
        found = f"'{data.function}' returns no rows, or no columns"
        raise DataError(config.problem(_KEY, found, "return at least one"))
    return RawData(f"what '{data.function}' returns", _KEY, frame, targets, drop=data.drop)


def _called(config: StudyConfig, data: FunctionTable) -> Any:
    try:
        function = load_function(data.function, config.base_dir)
    except LoadError as error:
        raise DataError(config.problem(_KEY, error.found, error.mend)) from error.__cause__
    problems = [*unfit_keywords(config, "data.args", data.function, function, data.args)]
    if problems:
        raise DataError(problems)
    try:
        return function(**data.args)
    except RAISED as error:
        found = f"'{data.function}' raised {told(error)}"
        raise DataError(config.problem(_KEY, found, "mend the function")) from error


def _tabled(
    config: StudyConfig, data: FunctionTable, returned: Any
) -> tuple[pd.DataFrame, dict[str, tuple[str, ...]]]:
    """One table of what was returned, and the columns that each part has become."""
    if isinstance(returned, tuple) and len(returned) == 2:
        returned = dict(zip(("x", "y"), returned, strict=True))
    if not isinstance(returned, Mapping) or not returned:
        found = f"'{data.function}' returns {type(returned).__name__}"
        mend = "return (x, y), a DataFrame or a dict of arrays"
        raise DataError(config.problem(_KEY, found, mend))
    arrays: list[tuple[str, Any]] = []
    names: dict[str, tuple[str, ...]] = {}
    for name, value in returned.items():
        part = as_pandas(value)
        if isinstance(part, pd.Series) and config.edition > 1:
            part = part.to_frame(str(name))
        if isinstance(part, pd.DataFrame):
            part = with_text_labels(part)
            arrays += [(str(column), values.array) for column, values in part.items()]
            names[str(name)] = tuple(part.columns)
        else:
            arrays.append((str(name), _array(config, data, str(name), part)))
    whole = f"what '{data.function}' returns"
    check_columns(config, _KEY, whole, names)
    frame, columns = tabled(config, _KEY, whole, arrays)
    return frame, {**columns, **names}


def _array(config: StudyConfig, data: FunctionTable, name: str, part: Any) -> NDArray[Any]:
    """The part as an array, in which masked values are missing."""
    if isinstance(part, np.ma.MaskedArray):
        return _unmasked(part)
    try:
        array = np.asarray(part)
        is_list = config.edition > 1 and isinstance(part, list | tuple) and array.ndim == 1
        # in which NumPy may have changed integers
        return array_of(part) if is_list and array.dtype.kind == "f" else array
    except (TypeError, ValueError, RuntimeError) as error:
        found = f"'{name}' of what '{data.function}' returns is no array ({error})"
        mend = "return arrays, or lists whose rows are all of one length"
        raise DataError(config.problem(_KEY, found, mend)) from error


def _unmasked(part: Any) -> NDArray[Any]:
    missing = _MISSING.get(part.dtype.kind)
    if missing is not None:
        return part.filled(np.array(missing, part.dtype))
    # there are no missing integers, truth values or texts but among objects
    values = np.array(part.data, object)
    values[np.ma.getmaskarray(part)] = None
    return values
