"""The lattice is the cheapest possible, and every shape with trials has a class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.scheduler.lattice import (
    Cell,
    LatticeClass,
    PartSize,
    Sizes,
    format_sizes,
    lattice,
    ordered_lattice,
    padded_sizes,
    plain_size,
    round_up_width,
    sizes_in,
)

WIDTHS = (16, 32, 48, 64, 128, 256)
DEPTHS = (1, 2, 3, 5)


@dataclass(frozen=True)
class Costs:
    """Arbitrary positive seconds for every class and lane; larger costs more if `monotone`."""

    seed: int
    monotone: bool

    def table(self, *sizes: int) -> np.ndarray:
        values = np.random.default_rng([self.seed, len(sizes)]).uniform(0.01, 30.0, sizes)
        for axis in range(len(sizes)) if self.monotone else ():
            values = values.cumsum(axis=axis) / 4
        return values

    def compile_s(self, width: int, depth: int) -> float:
        table = self.table(len(WIDTHS), len(DEPTHS))
        return 10 * float(table[WIDTHS.index(width), DEPTHS.index(depth)])

    def lane_s(self, width: int, padded_depth: int, depth: int) -> float:
        assert depth <= padded_depth
        table = self.table(len(WIDTHS), len(DEPTHS), len(DEPTHS))
        at = WIDTHS.index(width), DEPTHS.index(padded_depth), DEPTHS.index(depth)
        return float(table[at])


costs = st.builds(Costs, st.integers(0, 2**32 - 1), st.booleans())
grids = st.dictionaries(
    st.tuples(st.sampled_from(WIDTHS), st.sampled_from(DEPTHS)),
    st.one_of(st.just(0.0), st.floats(0.01, 20.0)),
    max_size=30,
).map(lambda counts: [Cell(plain_size(*shape), trials) for shape, trials in counts.items()])


def partitions(values: Sequence[int]) -> Iterator[list[Sequence[int]]]:
    """All ways to cut `values` into intervals."""
    for n_cuts in range(max(1, len(values))):
        for cuts in combinations(range(1, len(values)), n_cuts):
            bounds = [0, *cuts, len(values)]
            yield [values[a:b] for a, b in pairwise(bounds)]


def block_s(
    cells: Sequence[Cell], widths: Sequence[int], depths: Sequence[int], by: Costs
) -> float:
    held = [cell for cell in cells if cell.width in widths and cell.depth in depths]
    training_s = sum(c.trials * by.lane_s(widths[-1], depths[-1], c.depth) for c in held)
    return by.compile_s(widths[-1], depths[-1]) + training_s if held else 0.0


def cheapest_s(cells: Sequence[Cell], by: Costs) -> float:
    """Seconds of the best of all partitions, found by trying each."""
    wanted = [cell for cell in cells if cell.trials]
    widths = sorted({cell.width for cell in wanted})
    depths = sorted({cell.depth for cell in wanted})
    return min(
        sum(
            min(
                sum(block_s(wanted, columns, rows, by) for rows in cut)
                for cut in partitions(depths)
            )
            for columns in cut_widths
        )
        for cut_widths in partitions(widths)
    )


def total_s(classes: Sequence[LatticeClass]) -> float:
    return sum(known.compile_s + known.train_s for known in classes)


def is_for(known: LatticeClass, cell: Cell) -> bool:
    return (
        known.widths[0] <= cell.width <= known.widths[1]
        and known.depths[0] <= cell.depth <= known.depths[1]
    )


@given(grids, costs)
def test_no_partition_is_cheaper(cells: list[Cell], by: Costs) -> None:
    found = lattice(cells, by.compile_s, by.lane_s)

    assert total_s(found) == pytest.approx(cheapest_s(cells, by), abs=1e-4)


@given(grids, costs)
def test_each_shape_with_trials_belongs_to_one_class(cells: list[Cell], by: Costs) -> None:
    found = lattice(cells, by.compile_s, by.lane_s)

    wanted = [cell for cell in cells if cell.trials]
    for cell in wanted:
        (known,) = [known for known in found if is_for(known, cell)]
        assert known.depth >= cell.depth
        assert known.width >= cell.width
        assert known.holds(cell.sizes)
    for known in found:
        own = [cell for cell in wanted if is_for(known, cell)]
        assert known.trials == pytest.approx(sum(cell.trials for cell in own))
        assert known.structures == len(own)


@given(grids, costs)
def test_the_order_of_cells_does_not_affect_classes(cells: list[Cell], by: Costs) -> None:
    def sizes(cells: list[Cell]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        return [(c.widths, c.depths) for c in lattice(cells, by.compile_s, by.lane_s)]

    assert sizes(cells[::-1]) == sizes(cells)


def constant_s(width: int, padded_depth: int, depth: int) -> float:
    return 1.0


def proportional_s(width: int, padded_depth: int, depth: int) -> float:
    return float(width * padded_depth)


FULL = [Cell(plain_size(width, depth), 1.0) for width, depth in product(WIDTHS, DEPTHS)]


def test_of_equally_cheap_lattices_the_one_with_fewer_classes_wins() -> None:
    (only,) = lattice(FULL, lambda width, depth: 0.0, constant_s)

    assert (only.width, only.depth, only.structures) == (256, 5, len(FULL))


def test_free_compiling_gives_a_class_to_each_shape() -> None:
    found = lattice(FULL, lambda width, depth: 0.0, proportional_s)

    assert [(known.width, known.depth) for known in found] == [(c.width, c.depth) for c in FULL]
    assert {known.waste_fraction for known in found} == {0.0}


def test_expensive_compiling_gives_one_class_with_its_waste() -> None:
    cells = [Cell(plain_size(16, 1), 3.0), Cell(plain_size(32, 2), 1.0)]

    assert lattice(cells, lambda width, depth: 1e6, proportional_s) == (
        LatticeClass(
            sizes=plain_size(32, 2),
            widths=(16, 32),
            depths=(1, 2),
            trials=4.0,
            compile_s=1e6,
            train_s=256.0,
            exact_train_s=112.0,
            structures=2,
        ),
    )
    (only,) = lattice(cells, lambda width, depth: 1e6, proportional_s)
    assert only.waste_fraction == 1 - 112 / 256


def test_shapes_without_trials_get_no_class() -> None:
    assert lattice([Cell(plain_size(8, 1), 0.0)], constant_compile_s, constant_s) == ()
    (only,) = lattice(
        [Cell(plain_size(8, 1), 1.0), Cell(plain_size(64, 3), 0.0)], constant_compile_s, constant_s
    )
    assert (only.width, only.depth) == (8, 1)


def constant_compile_s(width: int, depth: int) -> float:
    return 1.0


def test_a_thousand_widths_are_rounded_up_and_all_held() -> None:
    cells = [Cell(plain_size(width, 1), 1.0) for width in range(1, 1001)]

    found = lattice(cells, lambda width, depth: 0.0, proportional_s)

    assert len(found) == 512
    assert sum(known.trials for known in found) == 1000
    assert sum(known.structures for known in found) == 1000
    for known in found:
        top = known.widths[1]
        assert known.width == (top if known.structures == 1 else round_up_width(top))
    held = (min(c.width for c in found if c.holds(plain_size(w, 1))) for w in (1, 999, 1000))
    assert [*held] == [16, 999, 1000]


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 4))
def test_a_padded_class_is_as_wide_as_whole_vectors(one: int, other: int, depth: int) -> None:
    """An odd width takes nearly twice as long; a class of a single shape has that shape."""
    cells = [Cell(plain_size(one, depth), 1.0), Cell(plain_size(other, depth), 1.0)]

    together = lattice(cells, lambda width, depth: 1e6, lambda width, padded, depth: width)
    alone = lattice(cells[:1], lambda width, depth: 1e6, lambda width, padded, depth: width)

    widest = max(one, other)
    if one != other:
        assert together[0].width % 16 == 0 and widest <= together[0].width < widest + 16
    assert alone[0].width == one


BASE_S = 1.5


def parts_compile_s(sizes: Sizes) -> float:
    return BASE_S + 0.1 * sum(size.depth for size in sizes)


def parts_lane_s(room: Sizes, own: Sizes) -> float:
    pairs = zip(room, own, strict=True)
    return sum(0.01 * has.width * its.depth for has, its in pairs)


@st.composite
def cells_of_parts(draw: st.DrawFn) -> list[Cell]:
    size = st.tuples(st.integers(1, 64), st.integers(1, 4))
    drawn = draw(st.lists(st.tuples(size, size), min_size=1, max_size=6, unique=True))
    return [
        Cell((PartSize("a", *a), PartSize("b", *b)), draw(st.floats(0.1, 40)), {"index": index})
        for index, (a, b) in enumerate(drawn)
    ]


@given(cells_of_parts())
def test_every_trial_has_room_in_one_class(found: list[Cell]) -> None:
    classes = ordered_lattice(found, parts_compile_s, parts_lane_s)

    assert sum(one.structures for one in classes) == len(found)
    assert sum(one.trials for one in classes) == pytest.approx(sum(c.trials for c in found))
    for cell in found:
        assert any(one.holds(cell.sizes) for one in classes)


@given(cells_of_parts())
def test_no_cut_of_the_order_is_cheaper(found: list[Cell]) -> None:
    ordered = sorted(found, key=lambda cell: (parts_lane_s(cell.sizes, cell.sizes), cell.sizes))

    def price(cut: tuple[int, ...]) -> float:
        bounds = (0, *cut, len(ordered))
        blocks = [ordered[a:b] for a, b in pairwise(bounds)]
        rooms = [padded_sizes(cell.sizes for cell in block) for block in blocks]
        return sum(
            parts_compile_s(room)
            + sum(cell.trials * parts_lane_s(room, cell.sizes) for cell in block)
            for room, block in zip(rooms, blocks, strict=True)
        )

    places = range(1, len(ordered))
    cuts = (cut for count in range(len(ordered)) for cut in combinations(places, count))
    classes = ordered_lattice(found, parts_compile_s, parts_lane_s)
    total = sum(one.compile_s + one.train_s for one in classes)
    assert total == pytest.approx(min(map(price, cuts)), rel=1e-6, abs=1e-4)


def test_sizes_survive_being_written_and_read() -> None:
    sizes: Sizes = (PartSize("a", 128, 3), PartSize("head_2", 32, 1))
    assert format_sizes(sizes) == "a=128x3,head_2=32x1"
    assert sizes_in(format_sizes(sizes)) == sizes
    assert sizes_in("") == ()
