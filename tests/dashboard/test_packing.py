"""Columns as small JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sweeper.dashboard.packing import as_json, packed_numbers, packed_texts, rounded


def test_floats_keep_six_digits_and_integers_all() -> None:
    values = [1 / 3, 1234567.25, 2e-9 / 3, -7 / 3e10, 0.0]
    assert rounded(values) == [0.333333, 1234570.0, 6.66667e-10, -2.33333e-10, 0.0]
    assert json.dumps(rounded([3.0, 2.0**40])) == "[3, 1099511627776]"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_none(value: float) -> None:
    assert rounded([value, 1.5]) == [None, 1.5]


def test_extreme_numbers_survive() -> None:
    extremes = [1e308, 5e-324, 1.7976931348623157e308, 1e-300]
    assert rounded(extremes) == pytest.approx(extremes, rel=1e-5)


def test_constants_and_texts_are_sent_once() -> None:
    assert packed_numbers(np.array([2.5, 2.5, 2.5])) == {"all": 2.5}
    assert packed_numbers(np.array([np.nan, np.nan])) == {"all": None}
    assert packed_numbers(np.array([2.5])) == [2.5]
    assert packed_texts(["a", "b"], np.array([1, 1])) == {"all": "b"}
    packed = packed_texts(["a", "b"], np.array([1, -1, 0, 1]))
    assert packed == {"of": [None, "a", "b"], "at": [2, 0, 1, 2]}


def test_only_valid_json_is_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"value": math.nan})
