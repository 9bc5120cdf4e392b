"""Classes of models of several parts: each trial has room, and no cut of the order is cheaper."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.scheduler.parts_lattice import (
    PartsCell,
    Sizes,
    format_sizes,
    parts_lattice,
    room_of,
    sizes_in,
)

COMPILE_S = 1.5


def compile_s(sizes: Sizes) -> float:
    return COMPILE_S + 0.1 * sum(depth for *_, depth in sizes)


def lane_s(room: Sizes, own: Sizes) -> float:
    pairs = zip(room, own, strict=True)
    return sum(0.01 * width * depth for (_, width, _), (*_, depth) in pairs)


@st.composite
def cells(draw: st.DrawFn) -> list[PartsCell]:
    size = st.tuples(st.integers(1, 64), st.integers(1, 4))
    drawn = draw(st.lists(st.tuples(size, size), min_size=1, max_size=6, unique=True))
    return [
        PartsCell((("a", *a), ("b", *b)), draw(st.floats(0.1, 40)), {"index": index})
        for index, (a, b) in enumerate(drawn)
    ]


@given(cells())
def test_every_trial_has_room_in_one_class(found: list[PartsCell]) -> None:
    classes = parts_lattice(found, compile_s, lane_s)

    assert sum(one.structures for one in classes) == len(found)
    assert sum(one.trials for one in classes) == pytest.approx(sum(c.trials for c in found))
    for cell in found:
        assert any(one.holds(cell.sizes) for one in classes)


@given(cells())
def test_no_cut_of_the_order_is_cheaper(found: list[PartsCell]) -> None:
    ordered = sorted(found, key=lambda cell: (lane_s(cell.sizes, cell.sizes), cell.sizes))

    def price(cut: tuple[int, ...]) -> float:
        bounds = (0, *cut, len(ordered))
        blocks = [ordered[a:b] for a, b in pairwise(bounds)]
        rooms = [room_of(cell.sizes for cell in block) for block in blocks]
        return sum(
            compile_s(room) + sum(cell.trials * lane_s(room, cell.sizes) for cell in block)
            for room, block in zip(rooms, blocks, strict=True)
        )

    places = range(1, len(ordered))
    cuts = (cut for count in range(len(ordered)) for cut in combinations(places, count))
    classes = parts_lattice(found, compile_s, lane_s)
    total = sum(one.compile_s + one.train_s for one in classes)
    assert total == pytest.approx(min(map(price, cuts)), rel=1e-6, abs=1e-4)


def test_sizes_are_written_as_they_are_read() -> None:
    sizes: Sizes = (("a", 128, 3), ("head_2", 32, 1))
    assert format_sizes(sizes) == "a=128x3,head_2=32x1"
    assert sizes_in(format_sizes(sizes)) == sizes
    assert sizes_in("") == ()
