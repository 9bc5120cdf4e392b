"""Which values are the same category, and which numbers a float holds exactly.

A value is compared by its written form: text unchanged, integers as their digits, other numbers
with the fewest digits that restore them in their own precision, booleans as True and False, days as
2026-01-31. A value without an equal is compared as a number, if that leaves one candidate.

Only needs NumPy and the standard library: exported models include this file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING_WORDS = (
    *("", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "nan", "NaN", "-nan", "-NaN"),
    *("None", "null", "NULL", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""The strings in a CSV file that mean a missing value, unless data.missing_values lists others."""

# these words, and signs without a letter or digit, mean missing numbers
_GAP_WORDS = frozenset(
    (
        *("unknown", "missing", "na", "n.a.", "n.a", "n/a", "nan", "none", "null", "nil", "void"),
        *("nd", "n.d.", "n/d", "nat", "undefined", "empty", "blank", "tbd", "not available"),
        *("not applicable", "not known", "no data", "(null)", "(blank)", "(none)", "(missing)"),
        *("\\n", "#n/a", "#value!", "#div/0!", "#ref!", "#num!", "#null!", "#name?"),
    )
)

UNKNOWN = -1
"""The index of a value that is not known."""

_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)
_CODE = re.compile(r"\s*(\+|-?0\d)|.*[eE]")
_INFINITE = ("inf", "infinity")
_TRUTHS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
EXACT = 2**53
"""Floats hold every integer up to this one."""


def is_missing(value: Any) -> bool:
    """Whether a value means none: None, NaN, NaT, or pandas' NA."""
    return value is None or repr(value) == "<NA>" or bool(value != value)


def means_missing(text: str) -> bool:
    """Whether a text is blank, a sign such as ? or -, or a word such as unknown."""
    bare = text.strip().lower()
    return bare in _GAP_WORDS or not any(letter.isalnum() for letter in bare)


def written(value: Any) -> str:
    """The form in which a value is compared and shown."""
    match value:
        case str():
            return str(value)
        case bool() | np.bool_():
            return str(bool(value))
        case int() | np.integer():
            return str(int(value))
        case float() | np.floating():
            return _written_float(value)
        case Decimal():
            nearest = float(value)
            is_float = np.isfinite(nearest) and Decimal(repr(nearest)) == value
            return _written_float(nearest) if is_float else str(value.normalize())
        case datetime():
            is_day = value.tzinfo is None and value.time() == datetime.min.time()
            return value.date().isoformat() if is_day else value.isoformat(" ")
        case date():
            return value.isoformat()
        case np.datetime64():
            found = _datetime_of(value)
            shortest = str(np.datetime_as_string(value, unit="auto")).replace("T", " ")
            return shortest if found is None else written(found)
        case _:
            return str(value)


def _datetime_of(value: np.datetime64) -> datetime | None:
    """The `datetime` that a value equals; None if it has finer digits or is out of range."""
    near = value.astype("datetime64[us]")
    found = near.item()
    return found if isinstance(found, datetime) and near == value else None


def _written_float(value: Any) -> str:
    if not np.isfinite(value):
        return repr(float(value))
    if value == int(value):
        return str(int(value))
    # in double precision the same number needs fewer digits than in a wider one
    is_double = value.dtype.itemsize >= 8 if isinstance(value, np.floating) else True
    return repr(float(value)) if is_double and float(value) == value else str(value)


def number_of(value: Any, *, lenient: bool = False) -> Decimal | None:
    """The number that a value is or that its text spells; None if it is neither.

    Text with leading zeros, a plus or an exponent may be a code: only a number if `lenient`.
    """
    if isinstance(value, str):
        is_number = _NUMBER.fullmatch(value) and (lenient or not _CODE.match(value))
        return Decimal(value.strip()) if is_number else None
    if isinstance(value, bool | np.bool_):
        return Decimal(int(value))
    if isinstance(value, int | float | np.integer | np.floating | Decimal) and np.isfinite(
        float(value)
    ):
        return Decimal(written(value))
    return None


def _single_of(value: Any) -> Decimal | None:
    """The number that a float spells in single precision, if it has that precision."""
    if not isinstance(value, float | np.floating) or not np.isfinite(value):
        return None
    if isinstance(value, np.floating) and value.dtype.itemsize < 8:
        return Decimal(written(value)) if value != int(value) else None
    with np.errstate(over="ignore"):
        single = np.float32(value)
    return Decimal(str(single)) if single == value and value != int(value) else None


def _exact_forms(value: Any) -> Iterable[Hashable]:
    """The texts that may represent a value, the likeliest first."""
    yield written(value)
    moment = _datetime_of(value) if isinstance(value, np.datetime64) else value
    if isinstance(moment, datetime):
        yield moment.isoformat(" ")
        yield moment.isoformat()
    elif not isinstance(value, str):
        yield str(value)
    if isinstance(value, np.datetime64):  # without seconds that are 0
        shortest = str(np.datetime_as_string(value, unit="auto"))
        yield shortest.replace("T", " ")
        yield shortest


class KnownValues:
    """The values of a category, to look other values up in.

    A missing value becomes `fill`, or stays None if that is among `values`. `words` are strings
    that mean a missing value unless they are known. If `lenient`, text is compared with numbers as
    a program reads them: 01234 is 1234.
    """

    def __init__(
        self,
        values: Sequence[Any],
        fill: Any = None,
        words: Iterable[str] = (),
        *,
        lenient: bool = False,
    ) -> None:
        known = [(value, place) for place, value in enumerate(values) if value is not None]

        def by(reading: Callable[[Any], Hashable]) -> dict[Hashable, int]:
            return _unique((reading(value), place) for value, place in known)

        self._missing = list(values).index(fill) if fill in values else UNKNOWN
        self._lenient = lenient
        self._words = frozenset(words)
        self._are_numbers = {number_of(value) is not None for value, _ in known}
        self._exact = by(written)
        self._numbers = by(number_of)
        self._all_numbers = by(lambda value: number_of(value, lenient=True))
        self._singles = by(_single_of)
        self._truths = by(lambda value: value if isinstance(value, bool) else None)
        self._is_boolean = all(value in _TRUTHS for value, _ in known if _is_text(value))
        self._words_of_truth = by(lambda value: _TRUTHS.get(value) if _is_text(value) else None)

    def place(self, value: Any) -> int | None:
        """The index of a value; `UNKNOWN` if it is not known, None if it is missing."""
        if is_missing(value):
            return None
        for form in _exact_forms(value):
            if form in self._exact:
                return self._exact[form]
        if written(value) in self._words:
            return None
        found = (table.get(key) for key, table in self._readings(value) if key is not None)
        return next((place for place in found if place is not None), UNKNOWN)

    def is_like(self, value: Any) -> bool:
        """Whether some known value is of the same kind: a number, or text."""
        return (number_of(value) is not None) in self._are_numbers

    def _readings(self, value: Any) -> Iterable[tuple[Hashable, dict[Hashable, int]]]:
        """Other readings of a value, each with the known values that are read in the same way."""
        number = number_of(value, lenient=self._lenient)
        yield number, self._numbers
        if _is_text(value):
            yield number, self._singles
            yield _TRUTHS.get(value), self._truths
            if self._is_boolean:
                yield _TRUTHS.get(value), self._words_of_truth
            return
        yield number, self._all_numbers
        single = _single_of(value)
        yield single, self._numbers
        yield single if single is not None else number, self._singles
        if isinstance(value, bool | np.bool_):
            yield bool(value), self._words_of_truth

    def places(self, column: Iterable[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The index of each value, and which values are missing."""
        seen: dict[tuple[type, Any], int | None] = {}
        found: list[int | None] = []
        for value in column:
            if not _is_plain(value):
                found.append(self.place(value))
                continue
            key = (type(value), value)
            if key not in seen:
                seen[key] = self.place(value)
            found.append(seen[key])
        gone = np.array([place is None for place in found], bool)
        return np.array([self._missing if p is None else p for p in found], np.int64), gone


def values_of(column: Any) -> list[Any]:
    """The values of a column, each in its own precision."""
    array = array_of(column)
    is_narrow = array.dtype.kind in "fM" and array.dtype != np.float64
    return list(array) if is_narrow else array.tolist()


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_plain(value: Any) -> bool:
    """Whether equal values of its type are the same category, so that one lookup is enough."""
    return isinstance(value, str | int | np.integer | bool | np.bool_) or (
        isinstance(value, float | np.floating) and bool(value == value)
    )


def _unique(pairs: Iterable[tuple[Hashable, int]]) -> dict[Hashable, int]:
    """The index by key, without keys that have several."""
    found: dict[Hashable, int] = {}
    twice: set[Hashable] = set()
    for key, place in pairs:
        if key in found:
            twice.add(key)
        found[key] = place
    return {key: place for key, place in found.items() if key is not None and key not in twice}


def in_order(values: Iterable[Any]) -> list[Any]:
    """Different values, sorted: as numbers if all are numbers, even as text."""
    known = list(values)
    numbers = [number_of(value, lenient=True) for value in known]
    if any(number is None for number in numbers) or not any(map(_is_text, known)):
        return sorted(known)
    pairs = sorted(zip(numbers, known, strict=True))
    return [value for _, value in pairs]


class NotNumbersError(ValueError):
    """A column that is not all numbers, or whose numbers a float cannot hold.

    `found` says why, `rows` are the row indices, from 0.
    """

    def __init__(self, found: str, rows: Sequence[int]) -> None:
        super().__init__(found)
        self.found, self.rows = found, rows


def floats(
    column: Any, words: Iterable[str] = (), *, exact: bool = True, decimal: str = "."
) -> NDArray[np.float64]:
    """A column of numbers as floats, NaN if missing.

    `words` are strings that mean a missing number; they may include a number such as -999, which
    is compared in the precision of the column. Text has this `decimal` separator. If `exact`,
    integers and decimals that a float would change are refused.

    Raises:
        NotNumbersError: a value is not a number, or would change.
    """
    array, texts = array_of(column), frozenset(words)
    found = _floats(array, texts, exact, decimal)
    gaps = numbers_among(texts, decimal)
    if not gaps or array.dtype.kind == "b":
        return found
    is_gap = np.isin(found, gaps)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            own = np.array(gaps).astype(array.dtype)
        is_gap |= np.isin(array, own[np.isfinite(own)])
    if array.dtype.kind == "O":  # False is not a 0 that means a gap
        is_gap &= np.array([not isinstance(one, bool | np.bool_) for one in array.tolist()], bool)
    return np.where(is_gap, np.nan, found)


def numbers_among(words: Iterable[str], decimal: str = ".") -> list[float]:
    """The numbers that are among `words`, written with a point or with this `decimal` separator."""
    forms = sorted({form for word in words for form in (word, word.replace(decimal, "."))})
    return [float(number) for form in forms if (number := number_of(form)) is not None]


def floats_of_rows(
    column: Any, words: Iterable[str] = (), *, exact: bool = True, decimal: str = "."
) -> NDArray[np.float64]:
    """A column of new numbers as `floats` reads it, including text as in a CSV file.

    Blank text is missing, True and False are 1 and 0 if nothing else is in the column, and numbers
    may have this `decimal` separator.

    Raises:
        NotNumbersError: a value is not a number, or would change.
    """
    array, words = array_of(column), frozenset(words)
    try:
        return floats(array, words, exact=exact, decimal=decimal)
    except NotNumbersError:
        if array.dtype.kind not in "OU":
            raise
        read = _without_blanks(array.tolist(), words)
        return floats(read, words, exact=exact, decimal=decimal)


def _without_blanks(values: Sequence[Any], words: frozenset[str]) -> list[Any]:
    """The values of a CSV file, with None for blank text; booleans if nothing else is left."""
    found = [None if _is_gap(value, words) else value for value in values]
    read = [_TRUTHS.get(value, value) if isinstance(value, str) else value for value in found]
    are_booleans = all(value is None or isinstance(value, bool | np.bool_) for value in read)
    return read if are_booleans else found


def _is_gap(value: Any, words: frozenset[str]) -> bool:
    if isinstance(value, str):
        return not value.strip() or value in words
    return is_missing(value)


def _floats(
    array: NDArray[Any], texts: frozenset[str], exact: bool, decimal: str
) -> NDArray[np.float64]:
    kind = array.dtype.kind
    if kind in "bf":
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    if kind in "iu":
        found = array.astype(np.float64)
        large = np.flatnonzero(np.abs(found) >= EXACT).tolist() if exact else []
        if rows := [row for row in large if int(found[row]) != int(array[row])]:
            raise NotNumbersError(_changed(array[rows[0]]), rows)
        return found
    values = array.tolist() if kind in "OU" else list(array)
    return _each(values, lambda value: _float(value, texts, exact, decimal))


def with_known(column: NDArray[np.float64], known: NDArray[np.float64]) -> NDArray[np.float64]:
    """A column, with the training rows' own numbers for those in another precision.

    `known` are sorted quantiles of the training rows. At some of them ranks jump, but 0.1 in single
    precision is 0.100000001: a number just above or below the jump.
    """
    of, of_single = jumps_of(known)
    if not len(of):
        return column
    with np.errstate(over="ignore"):
        single = column.astype(np.float32)
    place = np.searchsorted(of_single, single).clip(max=len(of) - 1)
    is_other = (single == column) | (of[place] == single)
    return np.where(is_other & (of_single[place] == single), of[place], column)


def jumps_of(known: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Quantiles at which ranks jump, and the same in single precision if that is another number.

    They are the ends, and numbers that several quantiles share. Integers, numbers such as 0.5 and
    those that single precision cannot distinguish are left out.
    """
    of = np.unique(np.r_[known[0], known[-1], known[1:][known[1:] == known[:-1]]])
    with np.errstate(over="ignore"):
        single = of.astype(np.float32)
    is_changed = single.astype(str).astype(np.float64) != single
    is_alone = ~np.isin(single, single[1:][single[1:] == single[:-1]])
    kept = is_changed & is_alone & (single != np.floor(single))
    return of[kept], single[kept]


def array_of(column: Any) -> NDArray[Any]:
    """The column as an array; list elements keep their types, which NumPy would unify."""
    if isinstance(column, list | tuple):
        array = np.empty(len(column), object)
        array[:] = column
        return array
    if hasattr(column, "null_count") and hasattr(column, "to_list"):  # Polars
        return array_of(column.to_list()) if column.null_count() else np.asarray(column)
    return np.asarray(column)


def labels_of(values: Sequence[Any]) -> NDArray[Any]:
    """The values as an array in which different ones stay different.

    NumPy would make floats of 1 and 2**63.
    """
    array = np.array(values)
    if array.dtype.kind != "f" or not all(isinstance(value, int) for value in values):
        return array
    return np.array(values, np.uint64 if min(values) >= 0 else object)


def _each(values: Sequence[Any], of: Callable[[Any], float]) -> NDArray[np.float64]:
    found = np.empty(len(values))
    wrong: dict[int, str] = {}
    for row, value in enumerate(values):
        try:
            found[row] = of(value)
        except (TypeError, ValueError) as error:
            wrong[row] = str(error)
    if wrong:
        raise NotNumbersError(next(iter(wrong.values())), list(wrong))
    return found


def _float(value: Any, words: frozenset[str], exact: bool, decimal: str) -> float:
    """One number as a float.

    Raises:
        ValueError: it is not a number, or would change.
    """
    if is_missing(value) or (_is_text(value) and value in words):
        return float("nan")
    if isinstance(value, str) and value.strip().lower().lstrip("+-") in _INFINITE:
        return float(value)
    number = _number_in(value, decimal) if isinstance(value, str) else value
    if isinstance(number, float | np.floating | bool | np.bool_):
        return float(number)
    if not isinstance(number, int | np.integer | Decimal | Fraction):
        how = "" if decimal == "." else f" with the decimal separator {decimal!r}"
        raise ValueError(f"{value!r} is not a number{how if isinstance(value, str) else ''}")
    try:
        nearest = float(number)
    except OverflowError:
        nearest = float("inf")
    is_read = _is_text(value) and not value.strip().lstrip("+-").isdigit()
    if exact and not is_read and not is_exact(number, nearest):
        raise ValueError(_changed(value))
    return nearest


def _number_in(text: str, decimal: str) -> Decimal | None:
    """The number that a text spells with this decimal separator; None if it spells none."""
    if decimal != ".":
        if "." in text:  # it may separate thousands
            return None
        text = text.replace(decimal, ".")
    return Decimal(text.strip()) if _NUMBER.fullmatch(text) else None


def is_exact(number: Any, nearest: float) -> bool:
    """Whether a float equals the number; for decimals, whether its digits are the same."""
    if isinstance(number, Decimal) and not number.is_finite():
        return True
    if not np.isfinite(nearest):
        return False
    if isinstance(number, Decimal):
        return number == Decimal(repr(nearest)) or number == Decimal(nearest)
    return Fraction(int(number) if isinstance(number, np.integer) else number) == Fraction(nearest)


def _changed(value: Any) -> str:
    shown = value if isinstance(value, str) else str(value)
    return f"{shown} has more digits than a float holds"
