"""A float in steps is drawn by the index of its value, so that rounding loses none."""

from __future__ import annotations

import math
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution

from sweeper.config.search import FloatSearch
from sweeper.study.space import AS_WRITTEN, decode, distribution


@pytest.mark.filterwarnings("error")
@given(
    low=st.floats(-1e3, 1e3, allow_subnormal=False),
    step=st.floats(1e-3, 1e3),
    steps=st.floats(0, 20),
)
def test_each_value_is_drawn_as_often_as_another(low: float, step: float, steps: float) -> None:
    entry = FloatSearch(type="float", low=low, high=low + steps * step, step=step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Optuna's own, of a range that it truncates
        drawn_from = distribution(entry)
    values = entry.values()
    assert values is not None
    assert (drawn_from.low, drawn_from.high) == (0, len(values))
    assert [decode(entry, place + 0.5) for place in range(len(values))] == list(values)
    assert decode(entry, float(len(values))) == values[-1]


@pytest.mark.filterwarnings("error")
@given(
    low=st.floats(-1e3, 1e3, allow_subnormal=False),
    step=st.floats(1e-3, 1e3),
    steps=st.floats(0, 20),
)
@example(low=0.281, step=0.11499999999999999, steps=4.0)
@example(low=0.5, step=1 / 3, steps=3.0)
def test_each_value_can_be_drawn_in_its_own_units(low: float, step: float, steps: float) -> None:
    entry = FloatSearch(type="float", low=low, high=low + steps * step, step=step)
    written = AS_WRITTEN.distribution(entry)
    values = entry.values()
    assert values is not None
    assert isinstance(written, FloatDistribution)
    assert (written.low, written.high, written.step) == (values[0], values[-1], step)
    assert all(written._contains(value) for value in values)
    nearly = [math.nextafter(value, math.inf) for value in values]
    assert [AS_WRITTEN.decode(entry, value) for value in nearly] == [*values]
