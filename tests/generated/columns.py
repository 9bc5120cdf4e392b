"""Columns of data: those that a model can learn from, and those that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

_ROUND = date(2020, 1, 1)
_MOMENT = datetime(2020, 1, 1, 12)


@dataclass(frozen=True)
class Kind:
    """Values by the number of their row, and the type for Arrow; None if it may choose.

    A CSV file has them as Python writes them.
    """

    value: Callable[[int], Any]
    type: pa.DataType | None = None
    as_index: bool = False  # kept as indices of the different values

    def values(self, n_rows: int) -> list[Any]:
        return [self.value(row) for row in range(n_rows)]

    def array(self, n_rows: int) -> pa.Array:
        """The column of a Parquet file."""
        made = pa.array(self.values(n_rows), self.type)
        return made.dictionary_encode() if self.as_index else made


def _of(*values: Any) -> Callable[[int], Any]:
    """These, repeated."""
    return lambda row: values[row % len(values)]


def _with_gaps(value: Callable[[int], Any], gap: Any = None) -> Callable[[int], Any]:
    return lambda row: gap if row % 5 == 3 else value(row)


GOOD: Mapping[str, Kind] = {
    "count": Kind(lambda row: row),
    "measure": Kind(lambda row: row * 7 % 11 / 4),
    "class": Kind(_of(0, 1, 2)),
    "two": Kind(_of(0, 1)),
    "word": Kind(_of("a", "b", "c")),
    "yes": Kind(_of(True, False)),
}
ODD: Mapping[str, Kind] = {
    "constant": Kind(_of(3)),
    "constant float": Kind(_of(0.1)),
    "constant text": Kind(_of("x")),
    "constant huge": Kind(_of(1e300)),
    "zero": Kind(_of(0)),
    "tiny": Kind(lambda row: row * 1e-300),
    "least": Kind(lambda row: row * 5e-324),
    "huge": Kind(lambda row: row * 1e300),
    "both ends": Kind(_of(1.7e308, -1.7e308)),
    "float ends": Kind(_of(3.4e38, -3.4e38)),
    "large for a float": Kind(lambda row: 1e30 * row),
    "long ends": Kind(_of(2**63 - 1, -(2**63), 0), pa.int64()),
    "alike": Kind(lambda row: 2**62 + row, pa.int64()),
    "large alike": Kind(lambda row: 1e16 + row % 3),
    "unsigned": Kind(_of(2**64 - 1, 0, 1), pa.uint64()),
    "byte": Kind(_of(-128, 127), pa.int8()),
    "single": Kind(lambda row: row / 3, pa.float32()),
    "half": Kind(lambda row: row / 4 % 9, pa.float16()),
    "gaps": Kind(_with_gaps(lambda row: row / 2)),
    "whole gaps": Kind(_with_gaps(lambda row: row), pa.int64()),
    "nan": Kind(_with_gaps(lambda row: row / 2, float("nan"))),
    "inf": Kind(_with_gaps(lambda row: row / 2, float("inf"))),
    "minus inf": Kind(_with_gaps(lambda row: row / 2, float("-inf"))),
    "no value": Kind(_of(None), pa.float64()),
    "no type": Kind(_of(None), pa.null()),
    "only nan": Kind(_of(float("nan"))),
    "text gaps": Kind(_with_gaps(_of("a", "b"))),
    "no text": Kind(_of(None), pa.string()),
    "truth gaps": Kind(_with_gaps(_of(True, False))),
    "truth alone": Kind(_of(True)),
    "names": Kind(lambda row: f"n{row}"),
    "empty text": Kind(_of("", "a")),
    "blank text": Kind(_of(" ", "  ")),
    "long text": Kind(_of("x" * 10_000, "y")),
    "letters": Kind(_of("é", "日本語", "😀", "\u202e")),
    "signs": Kind(_of("a,b", 'a"b', "a\nb", "a;b", "\t", "\x1b[31m", "\x00")),
    "digits": Kind(lambda row: str(row), pa.string()),
    "number or text": Kind(lambda row: "x" if row % 9 == 4 else str(row)),
    "words for nothing": Kind(_of("NA", "nan", "null", "None", "")),
    "yes or no": Kind(_of("yes", "no")),
    "one class once": Kind(lambda row: "rare" if row == 0 else "often"),
    "days": Kind(lambda row: _ROUND + timedelta(days=row)),
    "moments": Kind(lambda row: _MOMENT + timedelta(hours=row)),
    "zones": Kind(
        lambda row: (_MOMENT + timedelta(hours=row)).replace(tzinfo=UTC),
        pa.timestamp("us", tz="Europe/Berlin"),
    ),
    "far moments": Kind(_of(0, 10**15), pa.timestamp("s")),
    "fine moments": Kind(_of(0, 10**18), pa.timestamp("ns")),
    "moment gaps": Kind(_with_gaps(lambda row: _MOMENT + timedelta(days=row))),
    "hours": Kind(lambda row: time(row % 24, 1)),
    "durations": Kind(lambda row: timedelta(seconds=row)),
    "mixed times": Kind(_of("2020-01-01", "2020-01-01T00:00+02:00", "yesterday")),
    "day text": Kind(lambda row: str(_ROUND + timedelta(days=row))),
    "decimals": Kind(lambda row: Decimal(row) / 4, pa.decimal128(10, 2)),
    "long decimals": Kind(_of(Decimal(10) ** 37, Decimal(1)), pa.decimal128(38, 0)),
    "longest decimals": Kind(_of(Decimal(10) ** 75, Decimal(1)), pa.decimal256(76, 0)),
    "decimal gaps": Kind(_with_gaps(_of(Decimal("0.5"), Decimal("1.5"))), pa.decimal128(5, 1)),
    "bytes": Kind(_of(b"a", b"\xff\x00"), pa.binary()),
    "fixed bytes": Kind(_of(b"ab", b"cd"), pa.binary(2)),
    "lists": Kind(lambda row: [row, row + 1]),
    "no lists": Kind(_of([], None), pa.list_(pa.int64())),
    "text lists": Kind(_of(["a"], ["b", None])),
    "tables": Kind(lambda row: {"a": row, "b": "x"}),
    "maps": Kind(_of([("a", 1)], []), pa.map_(pa.string(), pa.int64())),
    "nested": Kind(lambda row: [{"a": [row]}]),
    "named": Kind(_of("a", "b"), as_index=True),
    "named numbers": Kind(_of(1, 2, 5), as_index=True),
    "named gaps": Kind(_with_gaps(_of("a", "b")), as_index=True),
    "named moments": Kind(lambda row: _MOMENT + timedelta(days=row % 3), as_index=True),
    "named decimals": Kind(_of(Decimal(1), Decimal("2.5")), as_index=True),
    "named bytes": Kind(_of(b"a", b"b"), as_index=True),
    "large text": Kind(_of("a", "b"), pa.large_string()),
    "text view": Kind(_of("a", "b"), pa.string_view()),
    "truths of numbers": Kind(_of(0.0, 1.0, -0.0)),
}


def table_of(names: Sequence[str], kinds: Sequence[Kind], n_rows: int) -> pa.Table:
    """A table of these columns, whose names may be equal."""
    return pa.Table.from_arrays([kind.array(n_rows) for kind in kinds], list(names))
