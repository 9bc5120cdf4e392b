"""How a row as read becomes model inputs, with values in JSON form, using only NumPy.

These are the fitted scikit-learn transformers, so that a model can be used without scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from math import prod
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.data.identity import (
    MISSING_WORDS,
    UNKNOWN,
    KnownValues,
    NotNumbersError,
    floats_of_rows,
    values_of,
    with_known,
    written,
)
from sweeper.errors import UnfitRowsError, counted
from sweeper.trial import Scalar

# ordinal number of a missing value; values that no training row has are UNKNOWN
MISSING = -2
# the largest number that scaling by quantiles gives training rows, the normal deviate of a rank of
# 1 - 1e-7, and the one of numbers beyond them
DEVIATE, BEYOND = 5.199337582187471, 5.2
# numbers are beyond the training range by this share of it at least; less may come from rounding
LEAST_BEYOND = 1e-5
_TAKEN = "; it is taken as none of the known categories"
_SHOWN = 5  # columns or values to list in a message

Doubt = Callable[[str, Sequence[int]], None]
"""Called with what was found, and in which rows, counted from 0."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """`(x - shift) / scale`, or `x * scale + shift` for scaling to a range."""

    to_range: bool
    scale: tuple[float, ...]
    shift: tuple[float, ...]

    def of(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The columns `x`, scaled."""
        scale, shift = np.array(self.scale), np.array(self.shift)
        return x * scale + shift if self.to_range else (x - shift) / scale

    def undo(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The columns that scaling turned into `x`, up to rounding."""
        scale, shift = np.array(self.scale), np.array(self.shift)
        return (x - shift) / scale if self.to_range else x * scale + shift


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The normal deviate of a number's rank among the training rows.

    `quantiles` are those of each column, at equal steps of probability from 0 to 1. Between two of
    them ranks are interpolated; equal numbers have the middle of their ranks, and deviates end at
    `DEVIATE`, as in scikit-learn's `QuantileTransformer`. Unlike there, numbers that equal the
    first or last quantile have the middle of their ranks, too, and those beyond are `BEYOND`.
    """

    quantiles: tuple[tuple[float, ...], ...]

    def of(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The columns `x`, scaled."""
        from scipy.special import ndtri

        scaled = np.empty(x.shape)
        for place, of in enumerate(self.quantiles):
            known, column = np.array(of), x[:, place]
            steps = np.linspace(0, 1, len(known))
            first = -np.interp(-column, -known[::-1], -steps[::-1])
            rank = 0.5 * (first + np.interp(column, known, steps))
            scaled[:, place] = np.clip(ndtri(rank), -DEVIATE, DEVIATE)
            scaled[column < known[0], place] = -BEYOND
            scaled[column > known[-1], place] = BEYOND
        return scaled

    def with_known(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """New columns `x`, with the training rows' own numbers for those in another precision."""
        pairs = zip(x.T, map(np.array, self.quantiles), strict=True)
        return np.stack([with_known(*pair) for pair in pairs], axis=1)

    def undo(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The columns that scaling turned into `x`, between the smallest and largest quantile."""
        from scipy.special import ndtr

        columns = zip(np.transpose(ndtr(x)), map(np.array, self.quantiles), strict=True)
        each = [np.interp(ranks, np.linspace(0, 1, len(of)), of) for ranks, of in columns]
        return np.stack(each, axis=1)


@dataclass(frozen=True, slots=True)
class Category:
    """A column that is encoded value by value; None among `values` means missing.

    `fill` replaces a missing value; None if missing is a value of its own.
    """

    name: str
    values: tuple[Scalar | None, ...]
    fill: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Transform:
    """The transformation of the `columns` of a study, in the order of its data.

    `fills` replace gaps in `numbers`, empty if there may be none. `classes` are the values of the
    target by index, empty if the target is numeric. `edition` is that of the study; `words` are
    strings that mean a missing value, `decimal` is the separator of numbers in text. If it
    `has_no_words`, the study says that no string means a missing value, rather than nothing.
    """

    columns: tuple[str, ...]
    numbers: tuple[str, ...]
    fills: tuple[float, ...]
    scaling: Scaling | Quantiles | None
    categories: tuple[Category, ...]
    one_hot: bool
    place_scaling: Scaling | Quantiles | None
    classes: tuple[Scalar, ...]
    edition: int = 1
    words: tuple[str, ...] = ()
    decimal: str = "."
    has_no_words: bool = False

    @property
    def words_in_csv(self) -> tuple[str, ...]:
        """The strings that mean a missing value in a CSV file, whatever the study has read."""
        return self.words if self.words or self.has_no_words else MISSING_WORDS

    @property
    def body(self) -> dict[str, Any]:
        """The transform as JSON; edition 1 is not written, as in its own time."""
        left_out = ["words", "decimal", "has_no_words", *(["edition"] if self.edition == 1 else [])]
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    @staticmethod
    def of_record(record: Mapping[str, Any]) -> Transform:
        """The transform of a saved model, from the `record` in its file."""
        body, table = record["data"]["transform"], record.get("settings", {}).get("data", {})
        words = table.get("missing_values")
        has_no_words = words is not None and not words
        if words is None:
            is_text = table.get("source") == "csv" and body.get("edition", 1) > 1
            words = MISSING_WORDS if is_text else ()
        found = Transform.from_dict(body, words, table.get("decimal", "."))
        return replace(found, has_no_words=has_no_words)

    @staticmethod
    def from_dict(
        body: Mapping[str, Any], words: Sequence[str] = (), decimal: str = "."
    ) -> Transform:
        """The transform in JSON form; `words` are strings that mean a missing value."""
        return Transform(
            columns=tuple(body["columns"]),
            numbers=tuple(body["numbers"]),
            fills=tuple(body["fills"]),
            scaling=_scaling(body["scaling"]),
            categories=tuple(
                Category(one["name"], tuple(one["values"]), one["fill"])
                for one in body["categories"]
            ),
            one_hot=body["one_hot"],
            place_scaling=_scaling(body["place_scaling"]),
            classes=tuple(body["classes"]),
            edition=body.get("edition", 1),
            words=tuple(words),
            decimal=decimal,
        )

    def of(
        self,
        rows: Any,
        doubt: Doubt = lambda found, rows: None,
        precision: str = "float64",
        *,
        takes_unknown: bool = False,
    ) -> NDArray[Any]:
        """The model inputs for `rows`, shaped (rows, features), in the model's precision.

        `rows` are a DataFrame or a mapping with these columns, or an array of them in order. A
        Series, or a mapping to single values, is one row. `doubt` is called for each column with
        categories that no training row had, with a message and the row indices. Several rows with
        only such categories in a column are refused unless the model `takes_unknown` ones.

        Raises:
            UnfitRowsError: a column is missing, or has values that the model cannot use.
        """
        columns = self._columns(rows)
        parts = [self._numbers(columns, precision)] if self.numbers else []
        parts += [self._places(columns, doubt, takes_unknown)] if self.categories else []
        return np.concatenate(parts, axis=1).astype(precision)

    def places(self) -> dict[str, range]:
        """The model inputs that each column becomes, by name."""
        found = {name: range(place, place + 1) for place, name in enumerate(self.numbers)}
        first = len(found)
        for one in self.categories:
            count = len(one.values) if self.one_hot else 1
            found[one.name] = range(first, first + count)
            first += count
        return found

    def _columns(self, rows: Any) -> Mapping[str, Any]:
        if isinstance(rows, str | bytes | PathLike):
            raise UnfitRowsError(f"{rows!r} is text, not rows", "read it first: pandas.read_csv")
        if isinstance(rows, list) and rows and isinstance(rows[0], Mapping):
            raise UnfitRowsError("a list of dicts", "convert it to a table: pandas.DataFrame(rows)")
        rows = _of_pandas(rows)
        if hasattr(rows, "iloc"):
            rows = _with_text_labels(rows)
        if hasattr(rows, "to_frame") and hasattr(rows, "iloc"):  # a pandas Series is one row
            rows = dict(rows.items())
        if hasattr(rows, "columns") and hasattr(rows, "iloc"):
            self._refuse_missing(rows)
            self._refuse_repeated(rows)
            return {name: self._cells(rows[name]) for name in self.columns}
        if isinstance(rows, Mapping) or hasattr(rows, "columns"):
            self._refuse_missing(rows)
            columns = {name: rows[name] for name in self.columns}
            if all(np.ndim(column) == 0 for column in columns.values()):
                return {name: [value] for name, value in columns.items()}
            _refuse_uneven(columns)
            return {name: self._cells(column) for name, column in columns.items()}
        table = np.asarray(rows)
        if table.ndim > 1:  # not -1, which is undefined without rows
            table = table.reshape(len(table), prod(table.shape[1:]))
        if table.ndim != 2 or table.shape[1] != len(self.columns):
            more = ", ..." if len(self.columns) > _SHOWN else ""
            raise UnfitRowsError(
                f"an array shaped {table.shape}",
                "give one row per example, with "
                f"{len(self.columns)} columns: {', '.join(self.columns[:_SHOWN])}{more}",
            )
        return {name: table[:, place] for place, name in enumerate(self.columns)}

    def _refuse_repeated(self, rows: Any) -> None:
        """Raise an UnfitRowsError with the columns that a DataFrame contains several times."""
        twice = [name for name in self.columns if (rows.columns == name).sum() > 1]
        if twice:
            named = ", ".join(f"'{name}'" for name in twice)
            raise UnfitRowsError(f"several columns {named}", "give each column its own name")

    def _refuse_missing(self, rows: Any) -> None:
        """Raise an UnfitRowsError with the missing columns, and which ones may be meant."""
        missing = [name for name in self.columns if name not in rows]
        given = getattr(rows, "columns", rows)  # of any kind of DataFrame
        strange = {str(name).lower(): name for name in given if name not in self.columns}
        near: list[str] = []
        for name in missing:
            found = get_close_matches(name.lower(), strange, n=1)
            near += [f"is '{strange[found[0]]}' the same as '{name}'?"] if found else []
        if missing:
            named = ", ".join(f"'{name}'" for name in missing[:_SHOWN])
            rest = len(missing) - _SHOWN
            named += f" and {rest} more" if rest > 0 else ""
            hint = near[0] if near else "the model needs it"
            # one renaming often explains all of them
            like_it = counted(len(near) - 1, "more column")
            hint += f" {like_it} may have other names, too" if near[1:] else ""
            raise UnfitRowsError(f"no column {named}", hint)

    def _cells(self, column: Any) -> Any:
        """The values of a column as an array, if it is a pandas column."""
        if not hasattr(column, "iloc"):
            return column
        # only callers with a pandas table need this import
        from sweeper.data import first_edition
        from sweeper.data.columns import cells

        if self.edition == 1 and column.name in self.numbers:
            column = first_edition.plain(column.to_frame()).iloc[:, 0]
        return cells(column)

    def _numbers(self, columns: Mapping[str, Any], precision: str) -> NDArray[np.float64]:
        x = np.stack([self._number(name, columns[name]) for name in self.numbers], axis=1)
        if self.fills:
            x = np.where(np.isnan(x), np.array(self.fills), x)
        if isinstance(self.scaling, Quantiles):
            x = self.scaling.with_known(x)
        for name, column in zip(self.numbers, x.T, strict=True):
            if not np.isfinite(column).all():
                rows = np.flatnonzero(~np.isfinite(column)).tolist()
                what = "infinite" if self.fills else "missing or infinite"
                are = "is" if len(rows) == 1 else "are"
                found = f"{counted(len(rows), 'value')} of column '{name}' {are} {what}"
                hint = "fill them: the study does not say how (data.impute)"
                if self.fills:
                    hint = "leave them empty: missing values are filled as in the study"
                raise UnfitRowsError(found, hint, rows)
        with np.errstate(over="ignore"):
            scaled = x if self.scaling is None else self.scaling.of(x)
            is_fit = np.isfinite(x.astype(precision)) & np.isfinite(scaled.astype(precision))
        for name, column, fits in zip(self.numbers, x.T, is_fit.T, strict=True):
            if not fits.all():
                rows = np.flatnonzero(~fits).tolist()
                found = f"{counted(len(rows), 'value')} of column '{name}', such as "
                found += f"{column[rows[0]]:g}, {'is' if len(rows) == 1 else 'are'} too large for "
                raise UnfitRowsError(f"{found}{precision}", "give values as in training", rows)
        return scaled

    def _number(self, name: str, column: Any) -> NDArray[np.float64]:
        try:
            is_exact = self.edition > 1
            return floats_of_rows(column, self.words, exact=is_exact, decimal=self.decimal)
        except NotNumbersError as error:
            found = f"column '{name}' has non-numbers in {counted(len(error.rows), 'row')}"
            hint = "write numbers, or leave them empty" if self.fills else "write numbers"
            if any(f"'{word}'" in error.found.lower() for word in ("true", "false")):
                hint = f"{hint}; for booleans, use a column of type bool, or 1 and 0"
            raise UnfitRowsError(f"{found}: {error.found}", hint, error.rows) from None

    def scaled_numbers(self, rows: Any, precision: str) -> NDArray[Any]:
        """The columns `numbers` of `rows` as `of` returns them, shaped (rows, numbers)."""
        return self._numbers(self._columns(rows), precision).astype(precision)

    def gaps(self, rows: Any) -> dict[str, NDArray[np.bool_]]:
        """Which of the `rows` have a gap that is filled, for each column in which gaps are."""
        columns = self._columns(rows)
        numbers = self.numbers if self.fills else ()
        found = {name: np.isnan(self._number(name, columns[name])) for name in numbers}
        for one in self.categories:
            if one.fill is not None:
                found[one.name] = self._known(one).places(values_of(columns[one.name]))[1]
        return found

    def _known(self, one: Category) -> KnownValues:
        return KnownValues(one.values, one.fill, self.words, lenient=self.edition == 1)

    def _places(
        self, columns: Mapping[str, Any], doubt: Doubt, takes_unknown: bool
    ) -> NDArray[np.float64]:
        every: list[tuple[Category, NDArray[np.int64]]] = []
        for one in self.categories:
            values = values_of(columns[one.name])
            known = self._known(one)
            places, gone = known.places(values)
            every.append((one, places))
            _check_known(one, known, values, places, gone, doubt, takes_unknown)
        if self.one_hot:
            # a value that no training row has becomes zeros
            return np.concatenate(
                [places[:, None] == np.arange(len(one.values)) for one, places in every], axis=1
            ).astype(np.float64)
        x = np.stack([ordinal(one, places) for one, places in every], axis=1)
        return x if self.place_scaling is None else self.place_scaling.of(x)


def _refuse_uneven(columns: Mapping[str, Any]) -> None:
    """Raise an UnfitRowsError with a column that has more or fewer rows than the first one."""
    sizes = {name: len(one) if np.ndim(one) else None for name, one in columns.items()}
    first, size = next(iter(sizes.items()))
    for name, other in sizes.items():
        if other != size:
            of_both = (f"column '{one}' {_describe_size(sizes[one])}" for one in (first, name))
            raise UnfitRowsError(", but ".join(of_both), "give each column one value per row")


def _describe_size(size: int | None) -> str:
    return "is a single value" if size is None else f"has {counted(size, 'row')}"


def _check_known(
    one: Category,
    known: KnownValues,
    values: Sequence[Any],
    places: NDArray[np.int64],
    gone: NDArray[np.bool_],
    doubt: Doubt,
    takes_unknown: bool,
) -> None:
    """Report values of a column that no training row had.

    Raises:
        UnfitRowsError: there are only such values, of another type or, unless the model
            `takes_unknown` ones, in several rows.
    """
    strange: list[int] = np.flatnonzero((places == UNKNOWN) & ~gone).tolist()
    shown = _listed([values[row] for row in strange])
    is_all = len(strange) == len(values) - gone.sum()
    is_refused = len(values) > 1 and not takes_unknown
    if strange and is_all and (is_refused or not known.is_like(values[strange[0]])):
        learnt = _listed([value for value in one.values if value is not None])
        found = f"column '{one.name}' has only values that no training row had: {shown}"
        raise UnfitRowsError(found, f"write them as in training: {learnt}", strange)
    if strange:
        in_rows = counted(len(strange), "row")
        found = f"column '{one.name}' has {shown} in {in_rows}, which no training row had{_TAKEN}"
        doubt(found, strange)
    absent: list[int] = np.flatnonzero((places == UNKNOWN) & gone).tolist()
    if absent:
        doubt(
            f"column '{one.name}' has a missing value in {counted(len(absent), 'row')}, which no "
            f"training row had{_TAKEN}{_hint_on_words(one)}",
            absent,
        )


def _hint_on_words(one: Category) -> str:
    """How pandas may have lost a category, such as 'NA', that it reads as a missing value."""
    words = _listed([value for value in one.values if value and value in MISSING_WORDS])
    if not words:
        return ""
    return f"; pandas.read_csv reads {words} as missing unless keep_default_na=False"


def _listed(values: Sequence[Any]) -> str:
    """The first of some values, without repetition."""
    shown = (repr(str(one)) if isinstance(one, str) else written(one) for one in values)
    different = [*dict.fromkeys(shown)]
    return ", ".join(different[:_SHOWN]) + (", ..." if len(different) > _SHOWN else "")


def _of_pandas(rows: Any) -> Any:
    """A Polars or Arrow table as a DataFrame of the same types; other rows unchanged."""
    if hasattr(rows, "collect_schema") and hasattr(rows, "collect"):  # a Polars LazyFrame
        rows = rows.collect()
    if not hasattr(rows, "to_arrow") and not hasattr(rows, "column_names"):
        return rows
    from sweeper.data.columns import as_pandas

    return as_pandas(rows)


def _with_text_labels(rows: Any) -> Any:
    """A pandas table or row with names of columns as text, as a study has them.

    Unchanged if two of them would be the same.
    """
    names = [*map(str, rows.keys())]
    return rows.set_axis(names, axis=rows.ndim - 1) if len({*names}) == len(names) else rows


def _scaling(body: Mapping[str, Any] | None) -> Scaling | Quantiles | None:
    if body is None:
        return None
    if "quantiles" in body:
        return Quantiles(tuple(map(tuple, body["quantiles"])))
    return Scaling(body["to_range"], tuple(body["scale"]), tuple(body["shift"]))


def ordinal(one: Category, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """The indices as numbers; a missing value is `MISSING`, wherever it is in the order."""
    if None not in one.values:
        return places.astype(np.float64)
    return np.where(places == one.values.index(None), MISSING, places).astype(np.float64)
