"""Conditions on rows: what they mean, also for nulls, and which are invalid."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sweeper.errors import StudyError
from sweeper.results.filter import column_named, rows_where

TABLE = pa.table(
    {
        "value": pa.array([0.5, 0.97, 0.99, None]),
        "other": pa.array([0.5, 0.98, 0.0, 1.0]),
        "params_depth": pa.array([1, 2, 2, 3]),
        "params_activation": pa.array(["relu", "tanh", "a'b", None]).dictionary_encode(),
        "feasible": pa.array([True, False, True, None]),
        "started_at": pa.array([0, 86_400, 10**9, 0], pa.timestamp("s", "UTC")),
    }
)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("value > 0.97", [2]),
        ("value >= 0.97 and params_depth == 2", [1, 2]),
        ("not value > 0.97", [0, 1]),
        ("value > 0.97 or params_depth in (3, 1)", [0, 2, 3]),
        ("params_depth not in [1, 2]", [3]),
        ("0.9 < value < 0.98", [1]),
        ("value is None", [3]),
        ("value is not None and -1 < value", [0, 1, 2]),
        ("params_activation in ('relu', \"a'b\")", [0, 2]),
        ("params_activation != 'relu'", [1, 2]),
        ("not (params_activation == 'relu' or value < 0.98)", [2]),
        ("feasible", [0, 2]),
        ("not feasible", [1]),
        ("feasible == False", [1]),
        ("value < other", [1]),
        ("started_at >= '1970-01-02' and started_at < '2001-01-01T00:00:00+00:00'", [1]),
        ("not (value > 0.97 and params_depth == 3)", [0, 1, 2]),
        ("depth == 2 and activation == 'tanh'", [1]),
    ],
)
def test_conditions_select_rows(condition: str, rows: list[int]) -> None:
    assert np.flatnonzero(rows_where(condition, TABLE)).tolist() == rows


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("vaule > 1", "no column 'vaule'; did you mean value?"),
        ("dpeth == 2", "no column 'dpeth'; did you mean params_depth?"),
        ("zzz == 2", "no column 'zzz'; there are 6: value, params_depth, params_activation, other"),
        ("value >", "cannot be read: invalid syntax"),
        (f"value > {10**399}", "cannot be read: int too large to convert to float"),
        ("value == {[1]}", "cannot be read: unhashable type: 'list'"),
        ("", "cannot be read: invalid syntax"),
        ("value", "contains 'value', which is not a condition"),
        ("value + 1 > 2", "contains 'value + 1', which is not a condition"),
        ("__import__('os').system('true')", "which is not a condition"),
        ("value > [].__class__", "contains '[].__class__', which is not a condition"),
        ("1 < 2", "contains '1', which is not a condition"),
        ("value == None", "compares with None; write `is None`, or `is not None`"),
        ("value > 'high'", "compares 'value' with 'high'; compare it with numbers, such as 0.5"),
        ("value > True", "compares 'value' with True; compare it with numbers"),
        ("feasible == 1", "compares 'feasible' with 1; compare it with True or False"),
        ("params_activation > 'a'", "orders 'params_activation', which holds text; use == or in"),
        ("params_activation == 3", "compare it with text, such as"),
        ("value == params_activation", "compares columns of different kinds"),
        ("started_at > 'soon'", "compares a time with 'soon'; write times, such as"),
        ("value in other", "contains 'other', which is not a condition"),
        ("(" * 300 + "value > 1" + ")" * 300, "cannot be read"),
        ("value > 1 or " * 2000 + "value > 1", "cannot be read: longer than 10000 characters"),
    ],
)
def test_an_invalid_condition_is_refused(condition: str, found: str) -> None:
    with pytest.raises(StudyError) as refusal:
        rows_where(condition, TABLE)
    assert found in str(refusal.value)
    assert str(refusal.value).startswith("--where: ")
    assert len(str(refusal.value)) < 400


def test_an_empty_name_is_like_no_column() -> None:
    with pytest.raises(StudyError, match="--columns: no column ''; there are 6: "):
        column_named("--columns", "", TABLE.column_names)
