"""Rows that a user-defined function returns."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sweeper.config import StudyConfig
from sweeper.config.data import FunctionTable
from sweeper.config.user_code import (
    Function,
    LoadError,
    check_keywords,
    imported_again,
    load_function,
)
from sweeper.config.user_errors import RAISED, describe_error
from sweeper.data.columns import as_pandas
from sweeper.data.identity import array_of
from sweeper.data.npz import as_one_table, check_columns
from sweeper.data.parquet import with_index, with_text_labels
from sweeper.data.raw import RawData
from sweeper.errors import DataError

_KEY = "data.function"
# a function that takes longer is not called a second time
_QUICK_S = 2.0
# names of kinds of arrays in NumPy; a time has the unit of its array
_MISSING: Mapping[str, Any] = {"f": np.nan, "c": np.nan, "M": "NaT", "m": "NaT"}


def read_function(config: StudyConfig, data: FunctionTable) -> RawData:
    """The rows that the function returns: (x, y), a DataFrame, or a dict of arrays by name.

    Raises:
        DataError: the function does not exist, raises, or does not return a table.
    """
    # standard output belongs to the program
    with redirect_stdout(sys.stderr):
        returned = _result(config, data)
    wanted = (*data.target, data.split.group, data.split.time, data.split.column, data.weight)
    if isinstance(returned, pd.DataFrame):
        frame, targets = with_text_labels(with_index(returned, wanted)), data.target
    else:
        frame, names = _as_table(config, data, returned)
        targets = tuple(column for name in data.target for column in names.get(name, (name,)))
    if frame.empty:
        found = f"'{data.function}' returns no rows, or no columns"
        raise DataError(config.problem(_KEY, found, "return at least one"))
    notes = (*_index_notes(data, returned, frame),) if config.edition > 1 else ()
    whole = f"the result of '{data.function}'"
    return RawData(whole, _KEY, frame, targets, drop=data.drop, notes=notes)


def _index_notes(data: FunctionTable, returned: Any, frame: pd.DataFrame) -> Iterator[str]:
    """Which named indices of pandas tables and columns among the result are not read."""
    parts = returned if isinstance(returned, tuple) else (returned,)
    parts = returned.values() if isinstance(returned, Mapping) else parts
    tables = (part for part in parts if isinstance(part, pd.DataFrame | pd.Series))
    for level in dict.fromkeys(name for one in tables for name in one.index.names):
        if level is not None and str(level) not in frame:
            yield (
                f"the index '{level}' returned by '{data.function}' is not read as a column: "
                "return df.reset_index() if the model should learn from it"
            )


def _result(config: StudyConfig, data: FunctionTable) -> Any:
    """The result of the function; if it is fast, it is called twice and must return the same."""
    function = _function(config, data)
    began = time.monotonic()
    returned = as_pandas(_call(config, data, function))
    is_quick = time.monotonic() - began < _QUICK_S
    if is_quick and config.edition > 1 and not _repeats(config, data, returned):
        found = (
            f"'{data.function}' returns different rows each time it is imported and called, so "
            "the study could not be resumed or reproduced"
        )
        fix = "draw with a fixed seed, such as np.random.default_rng(0), or save the rows to a file"
        raise DataError(config.problem(_KEY, found, fix))
    return returned


def _function(config: StudyConfig, data: FunctionTable) -> Function:
    try:
        function = load_function(data.function, config.base_dir)
    except LoadError as error:
        raise DataError(config.problem(_KEY, error.found, error.hint)) from error.__cause__
    problems = [*check_keywords(config, "data.args", data.function, function, data.args)]
    if problems:
        raise DataError(problems)
    return function


def _call(config: StudyConfig, data: FunctionTable, function: Function) -> Any:
    try:
        return function(**data.args)
    except RAISED as error:
        found = f"'{data.function}' raised {describe_error(error)}"
        raise DataError(config.problem(_KEY, found, "fix the function")) from error


def _repeats(config: StudyConfig, data: FunctionTable, returned: Any) -> bool:
    """Whether the function returns equal rows again when its module is imported again."""
    module = data.function.partition(":")[0]
    try:
        with imported_again(module, config.base_dir):
            again = as_pandas(_call(config, data, _function(config, data)))
    except DataError:
        return True  # something opened or registered the first time may be in the way
    return _is_same(returned, again)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two results hold the same values; for unknown objects only the type is compared."""
    if type(one) is not type(other):
        return False
    if isinstance(one, pd.DataFrame | pd.Series):
        return one.equals(other)
    if isinstance(one, Mapping):
        return [*one] == [*other] and all(_is_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if _is_structured(one):
        return True  # refused later in any case
    if isinstance(one, np.ma.MaskedArray):
        return _is_same(_without_mask(one), _without_mask(other))
    if isinstance(one, np.ndarray | bool | int | float | str | np.generic):
        return pd.Series(np.ravel(one)).equals(pd.Series(np.ravel(other)))
    if hasattr(one, "__array__"):
        return _is_same(np.asarray(one), np.asarray(other))
    return True


def _as_table(
    config: StudyConfig, data: FunctionTable, returned: Any
) -> tuple[pd.DataFrame, dict[str, tuple[str, ...]]]:
    """One table of everything returned, and the columns that each part has become."""
    if isinstance(returned, tuple) and len(returned) == 2:
        returned = dict(zip(("x", "y"), returned, strict=True))
    if not isinstance(returned, Mapping) or not returned:
        found = f"'{data.function}' returns {type(returned).__name__}"
        hint = "return (x, y), a DataFrame or a dict of arrays"
        raise DataError(config.problem(_KEY, found, hint))
    if config.edition > 1:
        _check_indices(config, data, returned)
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
    whole = f"the result of '{data.function}'"
    check_columns(config, _KEY, whole, names)
    frame, columns = as_one_table(config, _KEY, whole, arrays)
    return frame, {**columns, **names}


def _check_indices(config: StudyConfig, data: FunctionTable, returned: Mapping[str, Any]) -> None:
    """Refuse parts with equally many rows but different indices: they would be paired by position.

    Raises:
        DataError: with the names of two such parts.
    """
    parts = {n: part for n, part in returned.items() if isinstance(part, pd.DataFrame | pd.Series)}
    for (one, first), (other, second) in pairwise(parts.items()):
        if len(first) == len(second) and not first.index.equals(second.index):
            found = f"'{one}' and '{other}' returned by '{data.function}' have different indices"
            fix = (
                f"return {other}.loc[{one}.index], or reset_index(drop=True) of both if their rows "
                "belong together in order"
            )
            raise DataError(config.problem(_KEY, found, fix))


def _array(config: StudyConfig, data: FunctionTable, name: str, part: Any) -> NDArray[Any]:
    """The part as an array, in which masked values are missing."""
    wrong = f"'{name}' returned by '{data.function}' is"
    if hasattr(part, "toarray"):
        found = f"{wrong} a sparse {type(part).__name__}"
        raise DataError(config.problem(_KEY, found, f"return {name}.toarray()"))
    if _is_structured(part):
        found, fix = f"{wrong} a structured array", f"return pandas.DataFrame({name})"
        raise DataError(config.problem(_KEY, found, fix))
    if isinstance(part, np.ma.MaskedArray):
        return _without_mask(part)
    try:
        array = np.asarray(part)
        is_list = config.edition > 1 and isinstance(part, list | tuple) and array.ndim == 1
        # NumPy may have changed integers in it
        return array_of(part) if is_list and array.dtype.kind == "f" else array
    except (TypeError, ValueError, RuntimeError) as error:
        hint = "return arrays, or lists whose rows have the same length"
        raise DataError(config.problem(_KEY, f"{wrong} not an array ({error})", hint)) from error


def _is_structured(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype.names is not None


def _without_mask(part: Any) -> NDArray[Any]:
    missing = _MISSING.get(part.dtype.kind)
    if missing is not None:
        return part.filled(np.array(missing, part.dtype))
    # only object arrays have missing integers, booleans or strings
    values = np.array(part.data, object)
    values[np.ma.getmaskarray(part)] = None
    return values
