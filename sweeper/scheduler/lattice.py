"""The lattice for lanes that run side by side: the classes that a study compiles, chosen once.

Many classes are slow to compile, few waste training on padding. Widths and depths of a model
without parts are sorted, so the optimum is found exactly: widths are cut into intervals, and the
depths of each interval of widths into intervals of their own, both by dynamic programming.

Sizes of models with parts have no such order. They are ordered by the cost of a lane and cut into
intervals; the class of each has room for the largest size of every part. This is optimal among such
cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweeper.trial import Scalar


class PartSize(NamedTuple):
    """The size of a part that can be padded; the name is empty for a model without parts."""

    name: str
    width: int
    depth: int


Sizes = tuple[PartSize, ...]
"""The sizes of each part that can be padded."""
CompileSeconds = Callable[[int, int], float]
"""Seconds to compile a class, by its width and depth."""
LaneSeconds = Callable[[int, int, int], float]
"""Seconds to train a lane, by the class's width, the class's depth and the lane's own depth."""

_VECTOR = 16  # units: 64 bytes if each has four, one vector of a processor; else two vectors
# If there are more widths than this, they are rounded up to the widest of this many groups of equal
# number before they are cut into intervals: the time for the search is quadratic in them.
_MAX_WIDTHS = 512
# if there are more sizes of several parts than this, neighbours are merged
_MAX_SIZES = 32
# Of equally cheap lattices the one with fewer classes is chosen. This is far larger than rounding
# errors, and far smaller than what a user would notice.
TIE_S = 1e-6


def plain_size(width: int, depth: int) -> Sizes:
    """The sizes of a model without parts."""
    return (PartSize("", width, depth),)


@dataclass(frozen=True, slots=True)
class PaddedSize:
    """What a class is padded to; it has no sizes if the class is exact.

    `run_widths` are the widths at which it runs lanes, if there are several.
    """

    sizes: Sizes = ()
    run_widths: tuple[int, ...] = ()

    @property
    def width(self) -> int | None:
        """The width of the widest part."""
        return max((part.width for part in self.sizes), default=None)

    @property
    def depth(self) -> int | None:
        """The depth of the deepest part."""
        return max((part.depth for part in self.sizes), default=None)


EXACT = PaddedSize()


@dataclass(frozen=True, slots=True)
class Cell:
    """How many trials of these sizes the study can expect, and the parameters of one of them."""

    sizes: Sizes
    trials: float
    example: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])

    @property
    def width(self) -> int:
        """The width of a model without parts."""
        return self.sizes[0].width

    @property
    def depth(self) -> int:
        """The depth of a model without parts."""
        return self.sizes[0].depth


@dataclass(frozen=True, slots=True, kw_only=True)
class LatticeClass:
    """A class of the lattice: what it has room for, and its predicted cost.

    `train_s` is for all `trials` together, `exact_train_s` for the same trials each in a class of
    its own sizes, both without compiling; `structures` counts the sizes among them. For models
    without parts, `widths` and `depths` are the lowest and highest in the class, and `run_widths`
    those at which it runs lanes, if there are several. For models with parts, `example` has the
    parameters of one trial.
    """

    sizes: Sizes
    widths: tuple[int, ...] = ()
    depths: tuple[int, ...] = ()
    trials: float
    compile_s: float
    train_s: float
    exact_train_s: float
    structures: int
    run_widths: tuple[int, ...] = ()
    example: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])

    @property
    def padded_size(self) -> PaddedSize:
        """The size that it is padded to."""
        return PaddedSize(self.sizes, self.run_widths)

    @property
    def width(self) -> int:
        """The width of its widest part."""
        return max(part.width for part in self.sizes)

    @property
    def depth(self) -> int:
        """The depth of its deepest part."""
        return max(part.depth for part in self.sizes)

    @property
    def waste_fraction(self) -> float:
        """The part of the training time that is spent on padding."""
        return 1 - self.exact_train_s / self.train_s if self.train_s else 0.0

    def holds(self, sizes: Sizes) -> bool:
        """Whether it has room for a trial of these sizes."""
        pairs = zip(self.sizes, sizes, strict=True)
        return all(has.width >= own.width and has.depth >= own.depth for has, own in pairs)


def round_up_width(width: int) -> int:
    """The width of a padded class for `width` units: whole vectors of a processor.

    On a CPU a class of 151 units takes nearly twice as long as one of 152, because matrix rows that
    start at odd addresses are slow to read. A class of 120 units, with half a vector left, takes an
    eighth longer than one of 128.
    """
    return -(-width // _VECTOR) * _VECTOR


@dataclass(frozen=True, slots=True)
class CellGrid:
    """The cells by width (rows) and depth (columns), both ascending.

    A row spans the widths `lows[row]` to `tops[row]`. `trials[row]` and `shapes[row]` are sums over
    all rows *before* `row`, of shape (rows + 1, columns).
    """

    lows: list[int]
    tops: list[int]
    depths: list[int]
    cells: list[list[Cell]]
    trials: NDArray[np.float64]
    shapes: NDArray[np.float64]

    def held(self, rows: tuple[int, int], columns: tuple[int, int]) -> list[Cell]:
        """The cells from the first to the last of these rows and columns."""
        shallowest, deepest = (self.depths[column] for column in columns)
        cells = (cell for row in self.cells[rows[0] : rows[1] + 1] for cell in row)
        return [cell for cell in cells if shallowest <= cell.depth <= deepest]


def grid_of(
    cells: Iterable[Cell], most: int = _MAX_WIDTHS, rounded: Callable[[int], int] = int
) -> CellGrid:
    """The cells as a grid of at most this many rows, with a row per width, as `rounded` up."""
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


def lattice(
    cells: Iterable[Cell], compile_s: CompileSeconds, lane_s: LaneSeconds
) -> tuple[LatticeClass, ...]:
    """The classes for which compiling and training models without parts takes the least time.

    They ascend by width, then depth, and are cut by the widths that trials have; a padded class is
    then as wide as `round_up_width` returns. Shapes without trials get no class.
    """
    cells = [cell for cell in cells if cell.trials > 0]
    if not cells:
        return ()
    grid = grid_of(cells)
    n_rows = len(grid.tops)
    rows_s = np.zeros((n_rows, n_rows))
    depth_starts: list[NDArray[np.intp]] = []
    for last in range(n_rows):
        prices = _price_blocks(grid, last, compile_s, lane_s)
        rows_s[: last + 1, last], starts = cut(prices)
        depth_starts.append(starts)
    return tuple(
        _class_of(grid, rows, columns, held, compile_s, lane_s)
        for rows in intervals(cut(rows_s)[1])
        for columns in intervals(depth_starts[rows[1]][rows[0]])
        if (held := grid.held(rows, columns))
    )


def _class_of(
    grid: CellGrid,
    rows: tuple[int, int],
    columns: tuple[int, int],
    cells: list[Cell],
    compile_s: CompileSeconds,
    lane_s: LaneSeconds,
) -> LatticeClass:
    """The class of the cells from the first to the last of these rows and columns."""
    top, (shallowest, depth) = grid.tops[rows[1]], (grid.depths[column] for column in columns)
    structures = len({cell.sizes for cell in cells})
    width = round_up_width(top) if structures > 1 else top
    return LatticeClass(
        sizes=plain_size(width, depth),
        widths=(grid.lows[rows[0]], top),
        depths=(shallowest, depth),
        trials=sum(cell.trials for cell in cells),
        compile_s=compile_s(width, depth),
        train_s=sum(cell.trials * lane_s(width, depth, cell.depth) for cell in cells),
        exact_train_s=sum(
            cell.trials * lane_s(cell.width, cell.depth, cell.depth) for cell in cells
        ),
        structures=structures,
    )


def _price_blocks(
    grid: CellGrid, last: int, compile_s: CompileSeconds, lane_s: LaneSeconds
) -> NDArray[np.float64]:
    """Seconds of each block whose widest row is `last`: [first row, first column, last column].

    Only the widest row and the last column determine how large the class is, so one table of lanes
    is valid for every first row and first column. A block without trials costs nothing.
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
    """The cheapest way to cut a row of `n` things into intervals, for many rows at once.

    Args:
        price_s: seconds of the interval from `start` to `end`, both included: [..., start, end].

    Returns:
        The seconds of the best cut, [...], and where the last interval of the best cut of the
        things up to `end` starts, [..., end]. Of equal cuts, the one with the shortest last
        interval is taken, so that no class spans depths without trials.
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


def padded_sizes(several: Iterable[Sizes]) -> Sizes:
    """The sizes that a class for all of these is padded to, with each width rounded up.

    The sizes of a single one are not padded.
    """
    different = {*several}
    if len(different) == 1:
        return different.pop()
    return tuple(_padded_part(of_part) for of_part in zip(*different, strict=True))


def _padded_part(several: Sequence[PartSize]) -> PartSize:
    """The size that a part of any of these sizes is padded to."""
    width, depth = max(size.width for size in several), max(size.depth for size in several)
    return PartSize(several[0].name, round_up_width(width) if depth else width, depth)


def ordered_lattice(
    cells: Sequence[Cell],
    compile_s: Callable[[Sizes], float],
    lane_s: Callable[[Sizes, Sizes], float],
) -> tuple[LatticeClass, ...]:
    """The classes of the best cut of models with parts, ordered by the cost of a lane.

    `compile_s` gets the sizes of a class, `lane_s` those of a class and those of a lane.
    """
    if not cells:
        return ()
    ordered = sorted(cells, key=lambda cell: (lane_s(cell.sizes, cell.sizes), cell.sizes))
    blocks = np.array_split(np.arange(len(ordered)), min(len(ordered), _MAX_SIZES))
    n = len(blocks)

    def class_of(first: int, last: int) -> LatticeClass:
        held = [ordered[int(at)] for block in blocks[first : last + 1] for at in block]
        sizes = padded_sizes(cell.sizes for cell in held)
        return LatticeClass(
            sizes=sizes,
            trials=sum(cell.trials for cell in held),
            compile_s=compile_s(sizes),
            train_s=sum(cell.trials * lane_s(sizes, cell.sizes) for cell in held),
            exact_train_s=sum(cell.trials * lane_s(cell.sizes, cell.sizes) for cell in held),
            structures=len({cell.sizes for cell in held}),
            example=max(held, key=lambda cell: cell.trials).example,
        )

    prices = np.zeros((n, n))
    for first in range(n):
        for last in range(first, n):
            found = class_of(first, last)
            prices[first, last] = found.compile_s + found.train_s + TIE_S
    return tuple(class_of(first, last) for first, last in intervals(cut(prices)[1]))


def format_sizes(sizes: Sizes) -> str:
    """The sizes as recorded for a class: `a=128x3,b=32x1`, width by depth.

    Empty for a model without parts, whose class has columns for width and depth.
    """
    return ",".join(f"{size.name}={size.width}x{size.depth}" for size in sizes if size.name)


def sizes_in(text: str) -> Sizes:
    """The sizes that `format_sizes` wrote."""
    sizes = (part.partition("=") for part in text.split(",") if part)
    return tuple(PartSize(name, *_width_and_depth(size)) for name, _, size in sizes)


def _width_and_depth(text: str) -> tuple[int, int]:
    width, depth = text.split("x")
    return int(width), int(depth)
