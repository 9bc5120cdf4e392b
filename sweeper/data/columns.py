"""Columns as NumPy arrays, whatever kind of table they come from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import (
    infer_dtype,
    is_bool_dtype,
    is_complex_dtype,
    is_float_dtype,
    is_numeric_dtype,
)

from sweeper.data.identity import (
    NotNumbersError,
    array_of,
    floats,
    is_exact,
    means_missing,
    written,
)
from sweeper.errors import listed

_NUMBERS = ("boolean", "decimal", "floating", "integer", "mixed-integer-float")
_CHANGED = ("decimal", "integer", "mixed-integer-float")
_TEXT = ("string", "empty")
_SCALARS = (str, int, float, Decimal, np.integer, np.floating, np.bool_)
# text with more values than this that rarely repeat is a name or a date, not a category
MAX_TEXT_VALUES = 100
# at most this many rows of units, types or descriptions below a header
_TOP = 3
_UNITS_SHOWN = 4
_THOUSANDS = r"\s*[-+]?[1-9]\d{0,2}(?:\.\d{3})+\s*"
# with fewer rows, nothing can be said
_LEAST_ROWS = 10
_FIRST_DAY, _LAST_DAY, _DAYS_TRIED = 1800_01_01, 2200_12_31, 1000


def declared_categories(frame: pd.DataFrame) -> frozenset[str]:
    """The columns that are categories by their type."""
    kinds = ("category", "dictionary<")  # as pandas and Arrow name them
    return frozenset(str(n) for n in frame if str(frame[n].dtype).startswith(kinds))


def plain(
    frame: pd.DataFrame, categories: Collection[str] = ()
) -> tuple[pd.DataFrame, frozenset[str]]:
    """The columns as numbers, booleans or text, and which are categories by their type.

    No value is changed, except that a decimal that is a category keeps 28 digits at most. Missing
    values are NaN. Columns in `categories`, and those that are categories by their type, become
    integers, floats with the fewest digits, or text. Everything else is unchanged: see
    `check_kind`.
    """
    declared = declared_categories(frame)
    categories = declared.union(categories)
    columns = {str(name): frame[name] for name in frame}
    found = {name: _plain(column, name in categories) for name, column in columns.items()}
    changed = {name: column for name, column in found.items() if column is not columns[name]}
    return with_columns(frame, changed), declared


def with_columns(frame: pd.DataFrame, columns: Mapping[str, Any]) -> pd.DataFrame:
    """The table with these columns, whatever their names: `assign` takes none called `self`."""
    found = frame.copy(deep=False)
    for name, column in columns.items():
        found[name] = column
    return found


def native(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns in the byte order of this machine, which pandas needs and files may not have."""
    types: dict[Any, Any] = {
        name: dtype.newbyteorder("=")
        for name, dtype in frame.dtypes.items()
        if isinstance(dtype, np.dtype) and not dtype.isnative
    }
    return frame.astype(types) if types else frame


def as_pandas(table: Any) -> Any:
    """A Polars or Arrow table as a DataFrame of the same types; others unchanged."""
    if hasattr(table, "to_arrow"):  # Polars
        try:
            table = table.to_arrow()
        except ValueError:  # a type missing in Arrow, such as Int128
            return pd.DataFrame({name: array_of(table[name].to_list()) for name in table.columns})
    if hasattr(table, "column_names") and hasattr(table, "to_pandas"):
        return table.to_pandas(types_mapper=pd.ArrowDtype)
    return table


def cells(column: pd.Series[Any]) -> NDArray[Any]:
    """The values of a column as an array that can hold each of them; missing objects are None."""
    dtype = column.dtype
    if isinstance(dtype, pd.SparseDtype):
        return cells(column.sparse.to_dense())
    if isinstance(dtype, pd.CategoricalDtype):
        values = [*cells(pd.Series(column.cat.categories)), None]
        return array_of(values)[column.cat.codes.to_numpy()]
    own = np.dtype(getattr(dtype, "numpy_dtype", dtype if isinstance(dtype, np.dtype) else object))
    if isinstance(dtype, np.dtype) and own.kind in "biufc":
        return column.to_numpy()
    gaps = column.isna().to_numpy()
    if own.kind == "f":
        return column.to_numpy(own, na_value=np.nan)
    if own.kind in "biu" and not gaps.any():
        return column.to_numpy(own)
    values = np.array(column.to_numpy(object))
    values[gaps] = None
    return values


def check_kind(column: pd.Series[Any]) -> str | None:
    """What the column holds other than numbers and text; None if nothing."""
    if is_complex_dtype(column.dtype):
        return "complex numbers"
    if is_numeric_dtype(column.dtype) or isinstance(column.dtype, pd.StringDtype):
        return None
    kind = infer_dtype(column, skipna=True)
    if kind in _TEXT or not column.count():
        return None
    first = column.dropna().iloc[0]
    if "date" in kind or "time" in kind or kind == "period":
        return "times"
    if isinstance(first, date | time | timedelta):
        return "times"
    if kind in _CHANGED:
        return f"numbers that a float would change, such as {_first_changed(column)}"
    types = sorted({type(value).__name__ for value in column.dropna()})
    return f"values of type {' and '.join(types[:3])}"


def holds_booleans(column: pd.Series[Any]) -> bool:
    """Whether the column holds booleans, even if some are missing."""
    return is_bool_dtype(column.dtype) or infer_dtype(column, skipna=True) == "boolean"


def has_too_many_values(column: pd.Series[Any]) -> bool:
    """Whether text looks like names or row numbers rather than categories."""
    return column.nunique() > max(MAX_TEXT_VALUES, column.count() / 2)


def is_number(column: pd.Series[Any]) -> bool:
    """Whether the column is numeric by its type, and not boolean."""
    return is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype)


def strays(column: pd.Series[Any], decimal: str = ".") -> pd.Series[bool]:
    """Which rows have text that is not a number with this decimal separator."""
    if is_numeric_dtype(column.dtype):
        return pd.Series(False, column.index)
    return _numbers_in(column, decimal).isna() & column.notna()


def _numbers_in(texts: pd.Series[Any], decimal: str) -> pd.Series[Any]:
    """The numbers that texts spell, NaN for other texts."""
    if not isinstance(texts.dtype, pd.StringDtype):
        return pd.to_numeric(texts, errors="coerce")
    places, found = pd.factorize(texts)  # most texts are repeated, and read once
    different = pd.Series(found, dtype=texts.dtype)
    if decimal != ".":
        different = different.str.replace(decimal, ".", regex=False)
    numbers = pd.to_numeric(different, errors="coerce").reindex(places)
    return pd.Series(numbers.to_numpy(), texts.index, name=texts.name)


def with_points(column: pd.Series[Any], decimal: str) -> pd.Series[bool]:
    """Which rows have a number as text with a point that may separate thousands: 1.250.

    None if decimals are points, also in spite of `decimal`: 3.75 has no thousands.
    """
    none = pd.Series(False, column.index)
    if decimal == "." or not isinstance(column.dtype, pd.StringDtype):
        return none
    has_point = column.str.contains(".", regex=False, na=False) & ~strays(column, decimal)
    has_comma = column.str.contains(decimal, regex=False, na=False)
    is_decimal = has_point & ~column.str.fullmatch(_THOUSANDS, na=False)
    return none if is_decimal.any() and not has_comma.any() else has_point


def as_floats(frame: pd.DataFrame, decimal: str) -> NDArray[np.float64]:
    """The numbers of columns without `strays`, also of those that are text."""
    texts = [str(name) for name in frame if isinstance(frame[name].dtype, pd.StringDtype)]
    if texts and decimal != ".":
        pointed = {name: frame[name].str.replace(decimal, ".", regex=False) for name in texts}
        frame = with_columns(frame, pointed)
    return frame.to_numpy(np.float64)


def header_of_data(frame: pd.DataFrame, decimal: str = ".") -> str:
    """A warning if the column names of a CSV file look like a row of data; else empty.

    Numbers that count the columns are accepted as names.
    """
    names = [str(name) for name in frame]
    numbers = _numbers_in(pd.Series(names, dtype="str"), decimal)
    is_number = [is_numeric_dtype(dtype) for dtype in frame.dtypes]
    fits = [
        not np.isnan(number) if numeric else _is_like_values(name, frame[name])
        for name, number, numeric in zip(names, numbers, is_number, strict=True)
    ]
    steps = numbers.dropna().diff().dropna()
    is_counting = len(steps) > 0 and (steps == 1).all()
    if not (any(is_number) and all(fits)) or is_counting:
        return ""
    return f"line 1 looks like data, not like column names ({', '.join(names[:4])}, ...)"


def _is_like_values(name: str, column: pd.Series[Any]) -> bool:
    """Whether the name of a column is one of its texts, or like H00577 and H00123."""
    if (column == name).any():
        return True
    first = column.dropna().iloc[:_DAYS_TRIED].astype(str)
    return any(map(str.isdigit, name)) and _shape(name) in set(first.map(_shape))


def _shape(text: str) -> str:
    """The text with all letters and all digits replaced by one each: H00577 as a99999."""
    return "".join("9" if c.isdigit() else "a" if c.isalpha() else c for c in text)


def units_rows(
    frame: pd.DataFrame, texts: Collection[str] = (), decimal: str = "."
) -> tuple[int, str]:
    """How many rows of units or descriptions are below the header of a CSV file, and a message.

    These rows have no numbers in the columns that hold numbers further down. `texts` are columns
    that are not numbers.
    """
    columns = [frame[name] for name in frame if name not in texts]
    numbers = [column for column in columns if is_numeric_dtype(column.dtype)]
    with_units = [column for column in columns if _is_text_above_numbers(column, decimal)]
    if not with_units:
        return 0, ""
    n_rows = max(
        int(strays(column.iloc[:_TOP], decimal).to_numpy().nonzero()[0][-1])
        for column in with_units
    )
    n_rows += 1
    above = [column.iloc[:n_rows] for column in (*numbers, *with_units)]
    units = [str(text) for column in with_units for text in column.iloc[:n_rows].dropna()]
    if any((column.notna() & ~strays(column, decimal)).any() for column in above):
        return 0, ""
    if all(map(means_missing, units)):
        return 0, ""
    shown = listed([repr(unit) for unit in units[:_UNITS_SHOWN]])
    what = "looks like units or descriptions" if n_rows == 1 else "look like descriptions"
    return n_rows, f"{what} ({shown}), not like data"


def repeated_headers(
    frame: pd.DataFrame, texts: Collection[str] = (), decimal: str = "."
) -> tuple[int, ...]:
    """The rows of a CSV file that repeat its header; empty if no column is numbers without them.

    Concatenated files have such rows. `texts` are columns that are not numbers in any case.
    """
    if frame.columns.empty or any(is_numeric_dtype(dtype) for dtype in frame.dtypes):
        return ()
    is_header = np.logical_and.reduce([(frame[name] == name).to_numpy() for name in frame])
    others = frame[~is_header]
    are_numbers = (
        others[name].count() > 0 and not strays(others[name], decimal).any()
        for name in frame
        if name not in texts
    )
    rows = np.flatnonzero(is_header).tolist()
    return tuple(rows) if 0 < len(rows) < len(others) and any(are_numbers) else ()


def _is_text_above_numbers(column: pd.Series[Any], decimal: str) -> bool:
    """Whether a column holds text in its first rows only, and numbers in the others."""
    top = column.iloc[:_TOP]
    if not isinstance(column.dtype, pd.StringDtype) or not strays(top, decimal).any():
        return False
    # the first rows are enough for most text columns
    return all(
        rows.count() > 1 and not strays(rows, decimal).any()
        for rows in (column.iloc[_TOP : 100 + _TOP], column.iloc[_TOP:])
    )


def columns_of_sums(frame: pd.DataFrame) -> list[str]:
    """The columns whose last number is the sum of all others, if at least half of them are."""
    if len(frame) < _LEAST_ROWS:
        return []
    columns = [frame[name] for name in frame if is_number(frame[name])]
    names = [str(column.name) for column in columns if column.iloc[-1:].count()]
    sums = [str(column.name) for column in columns if _ends_in_sum(column.to_numpy(np.float64))]
    return sums if 2 * len(sums) >= len(names) else []


def _ends_in_sum(numbers: NDArray[np.float64]) -> bool:
    others, last = numbers[:-1], numbers[-1]
    if not np.count_nonzero(np.nan_to_num(others)) > 1:
        return False
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers near the largest float
        return bool(np.isclose(np.nansum(others), last, rtol=1e-9, atol=0))


def dates_as_numbers(column: pd.Series[Any]) -> str:
    """A warning if a column holds days such as 20260131 as numbers; else empty."""
    if not is_number(column) or column.dtype.kind not in "iu":
        return ""
    if column.min() < _FIRST_DAY or column.max() > _LAST_DAY:
        return ""
    days = column.unique()
    is_day = pd.to_datetime(
        pd.Series(days[:_DAYS_TRIED]).astype(str), format="%Y%m%d", errors="coerce"
    )
    if len(days) < _LEAST_ROWS or is_day.isna().any():
        return ""
    return (
        f"holds dates as numbers, such as {days[0]}; as numbers, 31 January and 1 February are 70 "
        "apart: write the days since a fixed date, or leave it out with data.drop"
    )


def in_single_quotes(frame: pd.DataFrame) -> str:
    """Which fields of a CSV file are in single quotes, and are therefore text; empty if none."""
    if all(_is_quoted(str(name)) for name in frame):
        return f"column names are in single quotes, such as {next(iter(frame))}"
    for name in frame:
        column = frame[name]
        if not is_numeric_dtype(column.dtype) and infer_dtype(column, skipna=True) == "string":
            values = column.dropna().unique()
            if len(values) > 1 and all(map(_is_quoted, values)):
                return f"values of column '{name}' are in single quotes, such as {values[0]}"
    return ""


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] == "'"


def without_strays(column: pd.Series[Any], whole: pd.Series[Any], decimal: str) -> pd.Series[Any]:
    """Some rows of the `whole` column of a CSV file; as numbers, if only other rows have text."""
    if not isinstance(column.dtype, pd.StringDtype) or not strays(whole, decimal).any():
        return column
    return column if strays(column, decimal).any() else _numbers_in(column, decimal)


def without_fractions(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of integral floats as integers; pandas makes floats of integers next to gaps."""
    if not is_float_dtype(column.dtype) or not len(column):
        return column
    # neither pandas nor Arrow can compare all floats of 16 bits
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    is_whole = (np.abs(numbers) < 2**53) & (numbers == np.floor(numbers))
    if not is_whole.all():
        return column
    return pd.Series(numbers.astype(np.int64), column.index, name=column.name)


def _plain(column: pd.Series[Any], is_category: bool) -> pd.Series[Any]:
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuc":
        return column
    if dtype == np.float64 or (isinstance(dtype, pd.StringDtype) and dtype.na_value is np.nan):
        return column
    values = cells(column)
    if is_category:
        return _category(column, values)
    if values.dtype.kind in "biuf":
        return _series(column, floats(values) if values.dtype.kind == "f" else values)
    kind = infer_dtype(values, skipna=True)
    if kind in _NUMBERS:
        return _numbers(column, values, kind)
    return _series(column, values, "str") if kind == "string" else column


def _numbers(column: pd.Series[Any], values: NDArray[Any], kind: str) -> pd.Series[Any]:
    """Python numbers as an array; unchanged if a float would change one."""
    if kind in ("boolean", "integer") and not column.isna().any():
        numbers = np.array(values.tolist())
        if numbers.dtype.kind in "biu":
            return _series(column, numbers)
    try:
        return _series(column, floats(values))
    except NotNumbersError:
        return _series(column, values)


def _category(column: pd.Series[Any], values: NDArray[Any]) -> pd.Series[Any]:
    """The same values as integers, floats or text, whichever can hold all of them."""
    objects = values if values.dtype == object else array_of(list(values))
    try:
        codes, unique = pd.factorize(objects)
    except TypeError:  # lists and the like
        return column
    alike = _alike(list(unique), has_gaps=bool((codes < 0).any()))
    if alike is None:
        return column
    if isinstance(alike[0], str):  # different values with the same text are one category
        return _series(column, array_of([*alike, None])[codes], "str")
    return _series(column, np.array([*alike, np.nan] if (codes < 0).any() else alike)[codes])


def _alike(values: Sequence[Any], *, has_gaps: bool) -> list[Any] | None:
    """These values as Python objects of one type; None if that is impossible."""
    n_texts = sum(isinstance(value, str) for value in values)
    is_scalar = all(isinstance(value, _SCALARS) for value in values)
    texts = [written(value) for value in values]
    if n_texts:
        return texts if is_scalar else None
    n_booleans = sum(isinstance(value, bool | np.bool_) for value in values)
    if n_booleans:
        alike = texts if has_gaps else [bool(value) for value in values]
        return alike if n_booleans == len(values) else None
    if all(isinstance(value, int | np.integer) for value in values) and not has_gaps:
        whole = [int(value) for value in values]
        return whole if np.array(whole).dtype.kind in "iu" else texts
    if values and is_scalar:
        near = [float(text) for text in texts]
        both = zip(texts, near, strict=True)
        return near if all(is_exact(Decimal(text), one) for text, one in both) else texts
    return None


def _first_changed(column: pd.Series[Any]) -> str:
    """The first number of a column that would change as a float."""
    values = column.dropna().to_numpy(object)
    try:
        floats(values)
    except NotNumbersError as error:
        return str(values[error.rows[0]])
    return str(values[0])


def _series(column: pd.Series[Any], values: Any, dtype: Any = None) -> pd.Series[Any]:
    return pd.Series(values, column.index, dtype, name=column.name)
