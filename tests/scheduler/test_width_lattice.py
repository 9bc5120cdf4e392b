"""Classes with several widths are the cheapest possible; every shape with trials has one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.scheduler.lattice import Cell, LatticeClass, plain_size, round_up_width
from sweeper.scheduler.width_lattice import Prices, width_lattice

WIDTHS = (5, 16, 20, 48, 50, 128)
DEPTHS = (1, 2, 5)
ROOM = sorted({round_up_width(width) for width in WIDTHS})


@dataclass(frozen=True)
class Costs:
    """Arbitrary seconds for every class and lane."""

    seed: int

    def table(self, most: float, *sizes: int) -> np.ndarray:
        return np.random.default_rng([self.seed, len(sizes)]).uniform(0.01, most, sizes)

    @property
    def prices(self) -> Prices:
        compiling = self.table(20.0, 2)
        lanes, carried = self.table(3.0, 129, 6), self.table(1.0, 129)
        return Prices(
            compile_s=lambda depth, widths: float(compiling @ (1, widths)) + depth,
            lane_s=lambda width, depth: float(lanes[width, depth]),
            carry_s=lambda width, depth: float(carried[width]),
        )


costs = st.builds(Costs, st.integers(0, 2**32 - 1))
grids = st.dictionaries(
    st.tuples(st.sampled_from(WIDTHS), st.sampled_from(DEPTHS)),
    st.one_of(st.just(0.0), st.floats(0.01, 20.0)),
    max_size=18,
).map(lambda counts: [Cell(plain_size(*shape), trials) for shape, trials in counts.items()])


def partitions(values: Sequence[int]) -> Iterator[list[Sequence[int]]]:
    """All ways to cut `values` into intervals."""
    for n_cuts in range(max(1, len(values))):
        for cuts in combinations(range(1, len(values)), n_cuts):
            bounds = [0, *cuts, len(values)]
            yield [values[a:b] for a, b in pairwise(bounds)]


def class_s(cells: Sequence[Cell], runs: Sequence[int], depth: int, by: Prices) -> float:
    """Seconds of a class that runs all of `cells` within `runs`, written out."""
    held = [cell for cell in cells if round_up_width(cell.width) <= runs[-1]]
    trained = sum(
        cell.trials
        * (
            by.lane_s(min(run for run in runs if cell.width <= run), cell.depth)
            + by.carry_s(runs[-1], depth)
        )
        for cell in held
    )
    return by.compile_s(depth, len(runs)) + trained


def cheapest_s(cells: Sequence[Cell], by: Prices) -> float:
    """Seconds of the best of all ways to combine widths, found by trying each."""
    if not cells:
        return 0.0
    depth = max(cell.depth for cell in cells)
    rows = sorted({round_up_width(cell.width) for cell in cells})
    best = np.inf
    for cut in partitions(rows):
        whole = 0.0
        for members in cut:
            own = [cell for cell in cells if round_up_width(cell.width) in members]
            whole += min(
                class_s(own, [some[-1] for some in runs], depth, by) for runs in partitions(members)
            )
        best = min(best, whole)
    return best


@given(grids, costs)
def test_no_other_classes_are_cheaper(cells: list[Cell], costs: Costs) -> None:
    found, by = width_lattice(cells, costs.prices), costs.prices

    wanted = [cell for cell in cells if cell.trials]
    depth = max((cell.depth for cell in wanted), default=0)
    spent = 0.0
    for known in found:
        own = [c for c in wanted if known.widths[0] <= c.width <= known.widths[1]]
        # a class for a single shape has its exact size, and is priced like the others
        runs = sorted({round_up_width(run) for run in known.run_widths or (known.width,)})
        spent += class_s(own, runs, depth, by)
    assert spent == pytest.approx(cheapest_s(wanted, by), abs=1e-4)


@given(grids, costs)
def test_each_shape_with_trials_belongs_to_one_class(cells: list[Cell], costs: Costs) -> None:
    found = width_lattice(cells, costs.prices)

    wanted = [cell for cell in cells if cell.trials]
    for cell in wanted:
        (known,) = [c for c in found if c.widths[0] <= cell.width <= c.widths[1]]
        assert known.depth >= cell.depth
        assert known.width >= cell.width
    for known in found:
        own = [c for c in wanted if known.widths[0] <= c.width <= known.widths[1]]
        assert known.structures == len(own)
        assert known.trials == pytest.approx(sum(cell.trials for cell in own))
        assert known.width == (own[0].width if len(own) == 1 else round_up_width(known.widths[1]))
        assert list(known.run_widths) == sorted({*known.run_widths})
        assert not known.run_widths or known.run_widths[-1] == known.width
        assert len(known.run_widths) != 1


@given(grids, costs)
def test_the_order_of_cells_does_not_affect_classes(cells: list[Cell], costs: Costs) -> None:
    def sizes(found: Sequence[LatticeClass]) -> list[tuple[object, ...]]:
        return [(known.widths, known.run_widths) for known in found]

    prices = costs.prices
    assert sizes(width_lattice(cells[::-1], prices)) == sizes(width_lattice(cells, prices))


def proportional(compile_s: float, width_s: float, carry_s: float) -> Prices:
    return Prices(
        compile_s=lambda depth, widths: compile_s + width_s * (widths - 1),
        lane_s=lambda width, depth: float(width * depth),
        carry_s=lambda width, depth: carry_s * width,
    )


CELLS = [Cell(plain_size(16, 1), 3.0), Cell(plain_size(32, 2), 1.0), Cell(plain_size(64, 1), 1.0)]


def test_free_widths_waste_nothing() -> None:
    (only,) = width_lattice(CELLS, proportional(100.0, 0.0, 0.0))

    expected = LatticeClass(
        sizes=plain_size(64, 2),
        widths=(16, 64),
        depths=(1, 2),
        trials=5.0,
        compile_s=100.0,
        train_s=176.0,
        exact_train_s=176.0,
        structures=3,
        run_widths=(16, 32, 64),
    )
    assert only == expected


def test_expensive_widths_give_one_width_with_its_waste() -> None:
    (only,) = width_lattice(CELLS, proportional(1e6, 1e6, 0.0))

    assert (only.width, only.run_widths, only.train_s) == (64, (), 64 * 6)


def test_a_large_class_is_split_because_its_state_is_slow_to_pass() -> None:
    """Small lanes are not passed in and out at the size of large ones if that takes long."""
    found = width_lattice(CELLS, proportional(1.0, 0.0, 10.0))

    assert [(known.width, known.run_widths) for known in found] == [(16, ()), (32, ()), (64, ())]
    assert [known.depth for known in found] == [1, 2, 1]


def test_a_thousand_widths_are_rounded_up_and_all_held() -> None:
    cells = [Cell(plain_size(width, 1), 1.0) for width in range(1, 10_001)]

    (only,) = width_lattice(cells, proportional(1.0, 0.0, 0.0))

    assert len(only.run_widths) == 192
    assert (only.widths, only.width) == ((1, 10_000), 10_000)
    assert only.structures == 10_000


def test_shapes_without_trials_get_no_class() -> None:
    assert width_lattice([Cell(plain_size(8, 1), 0.0)], proportional(1.0, 1.0, 0.0)) == ()
    (only,) = width_lattice(
        [Cell(plain_size(8, 1), 1.0), Cell(plain_size(64, 3), 0.0)], proportional(1.0, 1.0, 0.0)
    )
    assert (only.width, only.depth) == (8, 1)
