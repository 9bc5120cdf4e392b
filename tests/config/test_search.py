"""A search entry lists its values, if they are finite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.config.search import CategoricalSearch, FloatSearch, IntSearch, SearchEntry


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (IntSearch(type="int", low=1, high=4), (1, 2, 3, 4)),
        (IntSearch(type="int", low=1, high=6, step=2), (1, 3, 5)),
        (IntSearch(type="int", low=16, high=128, base=2), (16, 32, 64, 128)),
        (IntSearch(type="int", low=2, high=3, log=True), (2, 3)),
        (FloatSearch(type="float", low=0.0, high=0.3, step=0.1), (0.0, 0.1, 0.2, 0.3)),
        (FloatSearch(type="float", low=0.0, high=0.5, step=0.2), (0.0, 0.2, 0.4)),
        (FloatSearch(type="float", low=0.0, high=0.3), None),
        (CategoricalSearch(type="categorical", choices=("b", "a")), ("b", "a")),
    ],
)
def test_values_lists_what_can_be_drawn(
    entry: SearchEntry, expected: tuple[object, ...] | None
) -> None:
    assert entry.values() == expected


@given(low=st.integers(-50, 50), span=st.integers(0, 50), step=st.integers(1, 60))
def test_integers_are_counted_without_being_listed(low: int, span: int, step: int) -> None:
    entry = IntSearch(type="int", low=low, high=low + span, step=step)
    assert entry.count() == len(entry.values())


@given(low=st.integers(-50, 50), span=st.integers(0, 50), tenths=st.integers(1, 60))
def test_steps_are_counted_without_being_listed(low: int, span: int, tenths: int) -> None:
    entry = FloatSearch(type="float", low=low / 10, high=(low + span) / 10, step=tenths / 10)
    values = entry.values()
    assert values is not None
    assert entry.count() == len(values) == span // tenths + 1
    assert values[-1] <= entry.high


def test_a_column_is_the_last_part_of_its_key_or_named() -> None:
    entry = IntSearch(type="int", low=1, high=4)
    assert entry.column("model.depth") == "depth"
    assert entry.model_copy(update={"name": "layers"}).column("model.depth") == "layers"
