"""The lattice where lanes run side by side: the classes that a study compiles, chosen once.

Many classes are slow to compile, few waste training on padding. Widths and depths are sorted, so
the optimum is found exactly: widths are cut into intervals, and the depths of each interval of
widths into intervals of their own, both by dynamic programming.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CompileSeconds = Callable[[int, int], float]
"""Seconds to compile a class, by its width and depth."""
LaneSeconds = Callable[[int, int, int], float]
"""Seconds to train a lane, by the class's width, the class's depth and the lane's own depth."""
TrialSeconds = Callable[["LatticeClass", int, int], float]
"""Seconds to train a trial in a class, by its own width and depth."""

_VECTOR = 16  # units: of four bytes, the 64 that a processor takes at once, or two times the half
# More widths than these are rounded up to the widest of this many groups, equal in number, before
# they are cut into intervals: the search takes time with the square of the widths.
_MAX_WIDTHS = 512
# Of equally cheap lattices the one with fewer classes wins. Far above the rounding of sums, far
# below what anybody waits for.
TIE_S = 1e-6


@dataclass(frozen=True, slots=True)
class Cell:
    """How many trials of one shape the study can expect."""

    width: int
    depth: int
    trials: float


@dataclass(frozen=True, slots=True)
class LatticeClass:
    """A class of the lattice: its size, what it is for, and what it is predicted to cost.

    `widths` and `depths` are the lowest and highest it is for, `structures` the shapes among them
    that have trials; `run_widths` are those that it runs lanes at, where there are several.
    `train_s` is for all `trials` together, `exact_train_s` for the same trials
    each in a class of its own shape, compiling left out.
    """

    width: int
    depth: int
    widths: tuple[int, int]
    depths: tuple[int, int]
    trials: float
    compile_s: float
    train_s: float
    exact_train_s: float
    structures: int
    run_widths: tuple[int, ...] = ()

    @property
    def waste_fraction(self) -> float:
        """The part of the training time that goes into padding."""
        return 1 - self.exact_train_s / self.train_s if self.train_s else 0.0


def lattice(
    cells: Iterable[Cell], compile_s: CompileSeconds, lane_s: LaneSeconds
) -> tuple[LatticeClass, ...]:
    """The classes for which compiling and training take the fewest seconds in sum.

    They ascend by width, then depth, and are cut by the widths that trials have; a padded one is
    then as wide as `filled` has it. Shapes without trials get no class. Linear models (depth 0)
    get one of their own: a padded class has a hidden layer, and all their widths are one network.
    """
    wanted = [cell for cell in cells if cell.trials > 0]
    linear = [cell for cell in wanted if cell.depth == 0]
    blocks = _cut_shapes([cell for cell in wanted if cell.depth > 0], compile_s, lane_s)
    if linear:
        widths = _span(cell.width for cell in linear)
        blocks.insert(0, _Block(widths[0], widths, (0, 0), linear))
    return tuple(_class_of(block, compile_s, lane_s) for block in blocks)


def place(width: int, depth: int, classes: Sequence[LatticeClass], trial_s: TrialSeconds) -> int:
    """The index of the class that trains a shape in the fewest seconds, the first of equals.

    Raises:
        LookupError: no class holds the shape.
    """
    holding = [index for index, known in enumerate(classes) if holds(known, width, depth)]
    if not holding:
        raise LookupError(f"no class of the lattice holds width {width}, depth {depth}")
    return min(holding, key=lambda at: trial_s(classes[at], width, depth))


def holds(known: LatticeClass, width: int, depth: int) -> bool:
    """Whether a class has room for a shape."""
    if depth == 0:
        return known.depth == 0
    return width <= known.width and depth <= known.depth


@dataclass(frozen=True, slots=True)
class _Block:
    """The shapes that share one class, and the width of that class."""

    width: int
    widths: tuple[int, int]
    depths: tuple[int, int]
    cells: list[Cell]


def filled(width: int) -> int:
    """The width that a padded class has, to hold `width` units: whole vectors of a processor.

    On a CPU a class of 151 units takes nearly twice as long as one of 152, for rows of a matrix
    that begin anywhere are slow to read; and one of 120, with half a vector left over, takes an
    eighth longer than one of 128.
    """
    return -(-width // _VECTOR) * _VECTOR


def _class_of(block: _Block, compile_s: CompileSeconds, lane_s: LaneSeconds) -> LatticeClass:
    depth, cells = block.depths[1], block.cells
    structures = len({(cell.depth and cell.width, cell.depth) for cell in cells})
    is_padded = structures > 1 and depth > 0
    width = filled(block.width) if is_padded else block.width
    return LatticeClass(
        width=width,
        depth=depth,
        widths=block.widths,
        depths=block.depths,
        trials=sum(cell.trials for cell in cells),
        compile_s=compile_s(width, depth),
        train_s=sum(cell.trials * lane_s(width, depth, cell.depth) for cell in cells),
        exact_train_s=sum(
            cell.trials * lane_s(cell.width, cell.depth, cell.depth) for cell in cells
        ),
        structures=structures,
    )


def _span(values: Iterable[int]) -> tuple[int, int]:
    ascending = sorted(values)
    return ascending[0], ascending[-1]


@dataclass(frozen=True, slots=True)
class CellGrid:
    """The cells by width (rows) and depth (columns), both ascending.

    A row spans the widths `lows[row]` to `tops[row]`. `trials[row]` and `shapes[row]` are sums
    over all rows *before* `row`, of shape (rows + 1, columns).
    """

    lows: list[int]
    tops: list[int]
    depths: list[int]
    cells: list[list[Cell]]
    trials: NDArray[np.float64]
    shapes: NDArray[np.float64]


def grid_of(
    cells: Iterable[Cell], most: int = _MAX_WIDTHS, rounded: Callable[[int], int] = int
) -> CellGrid:
    """The cells as a grid of so many rows at most, with a row for each width as `rounded` up."""
    cells = list(cells)
    widths = sorted({rounded(cell.width) for cell in cells})
    depths = sorted({cell.depth for cell in cells})
    rows = np.array_split(widths, min(len(widths), most))
    row_of = {int(width): index for index, row in enumerate(rows) for width in row}
    by_row: list[list[Cell]] = [[] for _ in rows]
    sums = np.zeros((2, len(rows) + 1, len(depths)))
    for cell in cells:
        row = row_of[rounded(cell.width)]
        by_row[row].append(cell)
        sums[:, row + 1, depths.index(cell.depth)] += cell.trials, 1
    trials, shapes = sums.cumsum(axis=1)
    lows = [min(cell.width for cell in row) for row in by_row]
    return CellGrid(lows, [int(row[-1]) for row in rows], depths, by_row, trials, shapes)


def _cut_shapes(cells: list[Cell], compile_s: CompileSeconds, lane_s: LaneSeconds) -> list[_Block]:
    """The blocks of the best lattice for `cells`, all with hidden layers."""
    if not cells:
        return []
    grid = grid_of(cells)
    n_rows = len(grid.tops)
    rows_s = np.zeros((n_rows, n_rows))
    depth_starts: list[NDArray[np.intp]] = []
    for last in range(n_rows):
        prices = _price_blocks(grid, last, compile_s, lane_s)
        rows_s[: last + 1, last], starts = cut(prices)
        depth_starts.append(starts)
    return [
        block
        for first, last in intervals(cut(rows_s)[1])
        for block in _blocks(grid, first, last, intervals(depth_starts[last][first]))
    ]


def _blocks(
    grid: CellGrid, first: int, last: int, columns: Iterable[tuple[int, int]]
) -> Iterable[_Block]:
    """The blocks with trials among the rows `first` to `last`, cut into `columns`."""
    cells = [cell for row in grid.cells[first : last + 1] for cell in row]
    for start, end in columns:
        shallowest, deepest = grid.depths[start], grid.depths[end]
        held = [cell for cell in cells if shallowest <= cell.depth <= deepest]
        if held:
            widths = grid.lows[first], grid.tops[last]
            yield _Block(grid.tops[last], widths, (shallowest, deepest), held)


def _price_blocks(
    grid: CellGrid, last: int, compile_s: CompileSeconds, lane_s: LaneSeconds
) -> NDArray[np.float64]:
    """Seconds of each block whose widest row is `last`: [first row, first column, last column].

    The widest row and the last column alone say how large the class is, so one table of lanes
    serves every first row and first column. A block without trials costs nothing.
    """
    columns = range(len(grid.depths))
    top = grid.tops[last]
    inside = _inside(len(grid.depths))
    lanes_s = np.zeros((len(grid.depths), len(grid.depths)))
    for end in columns:
        for own in columns[: end + 1]:
            lanes_s[own, end] = lane_s(top, grid.depths[end], grid.depths[own])
    compiling_s = np.array([compile_s(top, depth) for depth in grid.depths]) + TIE_S
    trials, shapes = (sums[last + 1] - sums[: last + 1] for sums in (grid.trials, grid.shapes))
    training_s = np.tensordot(trials, inside * lanes_s[:, None, :], 1)
    return np.where(np.tensordot(shapes, inside, 1) > 0, compiling_s + training_s, 0.0)


def _inside(n: int) -> NDArray[np.float64]:
    """1 where `own` is in the interval from `start` to `end`, else 0: [own, start, end]."""
    own, start, end = np.ogrid[:n, :n, :n]
    return ((start <= own) & (own <= end)).astype(np.float64)


def cut(price_s: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """The cheapest way to cut `n` things in a row into intervals; for many rows at once.

    Args:
        price_s: seconds of the interval from `start` to `end`, both included: [..., start, end].

    Returns:
        The seconds of the best cut, [...], and where the last interval of the best cut of the
        things up to `end` starts, [..., end]. Of equals the shortest last interval is taken, so
        that no class reaches over depths without trials.
    """
    *many, n, _ = price_s.shape
    best_s = np.zeros((*many, n + 1))
    starts = np.zeros((*many, n), dtype=np.intp)
    for end in range(n):
        candidates = best_s[..., : end + 1] + price_s[..., : end + 1, end]
        starts[..., end] = end - candidates[..., ::-1].argmin(axis=-1)
        best_s[..., end + 1] = candidates.min(axis=-1)
    return best_s[..., -1], starts


def intervals(starts: NDArray[np.intp]) -> list[tuple[int, int]]:
    """The intervals (first, last) of the best cut, ascending, from the `starts` of `cut`."""
    found: list[tuple[int, int]] = []
    last = len(starts) - 1
    while last >= 0:
        found.append((int(starts[last]), last))
        last = int(starts[last]) - 1
    return found[::-1]
