"""Values that no setting accepts: of wrong types and sizes, and text that is hard to show."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any

from hypothesis import strategies as st

_NUMBERS: list[int | float] = [
    *(0, -1, 1, 2**31, 2**63 - 1, -(2**63), 2**64, 10**40, -(10**400)),
    *(0.0, -0.0, 0.5, -1.5, 1e-300, 5e-324, 1e300, 1.8e308, float("inf"), float("-inf")),
    float("nan"),
]
_TEXTS = [
    *("", " ", "a", "a.b", "a b", "-", "/", "..", "~", "a/b", "a\\b", "C:\\a", "true", "1"),
    *("\x00", "\x1b[31mred", "a\nb", "a\r\nb", "\t", "\x7f", "\u2028", "\u202eabc", "\ufeff"),
    *("é", "日本語", "😀", "e\u0301", "ß" * 300, "x" * 5_000, "'", '"', "'''", '"""', "{}", "%s"),
    *("nets:build", "nets:", ":f", "os:system", "nets:nonsuch", "nonsuch:f", "a:b:c", "nets.a:b"),
    *("val_loss", "train_loss", "mlp", "python", "adam", "table.csv", "/dev/null", ".", "nets.py"),
    *("*", "[", "**", "table.*", "module:function", "none", "auto", "1h", "y"),
]
_TIMES = [date(2020, 1, 1), time(1, 2, 3), datetime(2020, 1, 1, 1, 1, 1, tzinfo=UTC)]


def numbers() -> st.SearchStrategy[int | float]:
    """Numbers of every size, including infinity and NaN."""
    return st.one_of(st.sampled_from(_NUMBERS), st.integers(), st.floats(width=64))


def texts() -> st.SearchStrategy[str]:
    """Short and long text of every letter that a TOML file may contain."""
    letters = st.characters(exclude_categories=["Cs"])
    return st.one_of(st.sampled_from(_TEXTS), st.text(letters, max_size=8))


def scalars() -> st.SearchStrategy[Any]:
    """Any value that is neither array nor table."""
    return st.one_of(numbers(), texts(), st.booleans(), st.sampled_from(_TIMES))


def values() -> st.SearchStrategy[Any]:
    """Any value, including arrays and tables of such values."""
    inner = st.one_of(scalars(), st.just([]), st.just({}))
    keys = st.one_of(texts(), st.sampled_from(["name", "low", "high", "type", "weight", "a"]))
    deep = st.builds(_nested, st.integers(2, 60), st.booleans())
    return st.one_of(
        scalars(),
        scalars(),
        st.lists(inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3),
        st.lists(st.dictionaries(keys, inner, max_size=2), max_size=2),
        deep,
    )


def _nested(depth: int, is_table: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if is_table else [value]
    return value
