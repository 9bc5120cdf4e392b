"""The lattice for lanes that run one by one: classes, and the widths at which each runs lanes.

Only a small part of a program depends on the width of a lane. A class can therefore have several
widths for less than a second each, and wastes little training on padding. However, the state of
every lane is as large as that of the widest, and is passed in and out: if widths are far apart,
there are several classes.

Rows of widths are cut into runs, runs are combined into classes, and both are chosen at once by
dynamic programming. Depth does not matter here: a lane runs only its own layers, and every class
has room for the deepest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sweeper.scheduler.lattice import (
    TIE_S,
    Cell,
    CellGrid,
    LatticeClass,
    grid_of,
    plain_size,
    round_up_width,
)

# if there are more widths than this, they are rounded up: the time for the search is cubic in them
_MAX_WIDTHS = 192


@dataclass(frozen=True, slots=True)
class Prices:
    """What a class costs, in seconds.

    `compile_s` gets a class's depth and the number of widths at which it runs lanes; `lane_s` the
    width at which a lane runs and its own depth; `carry_s` the width and depth of the class that
    the lane is passed to.
    """

    compile_s: Callable[[int, int], float]
    lane_s: Callable[[int, int], float]
    carry_s: Callable[[int, int], float]

    def of(
        self, cells: Sequence[Cell], runs: Sequence[int], width: int, depth: int
    ) -> tuple[float, float]:
        """Compiling and training of a class of this size that runs `cells` at these widths."""
        train_s = 0.0
        for cell in cells:
            run = next(run for run in runs if cell.width <= run)
            train_s += cell.trials * (self.lane_s(run, cell.depth) + self.carry_s(width, depth))
        return self.compile_s(depth, len(runs)), train_s


def width_lattice(cells: Iterable[Cell], prices: Prices) -> tuple[LatticeClass, ...]:
    """The classes for which compiling and training take the fewest seconds in total.

    For networks with hidden layers. Classes ascend by width, run lanes at rounded widths, and
    are as deep as the deepest shape of all; a class for a single shape has exactly its size.
    """
    wanted = [cell for cell in cells if cell.trials > 0]
    if not wanted:
        return ()
    grid = grid_of(wanted, _MAX_WIDTHS, round_up_width)
    depth = grid.depths[-1]
    return tuple(_class_of(grid, rows, depth, prices) for rows in _cut(grid, depth, prices))


def _class_of(
    grid: CellGrid, runs: Sequence[tuple[int, int]], depth: int, prices: Prices
) -> LatticeClass:
    first, last = runs[0][0], runs[-1][1]
    cells = [cell for row in grid.cells[first : last + 1] for cell in row]
    if len(cells) == 1:
        widths, depth = [cells[0].width], cells[0].depth
    else:
        widths = [grid.tops[end] for _, end in runs]
    compile_s, train_s = prices.of(cells, widths, widths[-1], depth)
    alone = (prices.of([cell], [cell.width], cell.width, cell.depth)[1] for cell in cells)
    return LatticeClass(
        sizes=plain_size(widths[-1], depth),
        widths=(min(cell.width for cell in cells), max(cell.width for cell in cells)),
        depths=(min(cell.depth for cell in cells), max(cell.depth for cell in cells)),
        trials=sum(cell.trials for cell in cells),
        compile_s=compile_s,
        train_s=train_s,
        exact_train_s=sum(alone),
        structures=len(cells),
        run_widths=tuple(widths) if len(widths) > 1 else (),
    )


def _cut(grid: CellGrid, depth: int, prices: Prices) -> Iterator[list[tuple[int, int]]]:
    """For each class of the best lattice, ascending, the rows (first, last) of each of its runs.

    `open_s[last, top]` is the least time of all rows up to `last` if `last` ends a run of a class
    whose widest row is `top`; `closed_s[n]` is the least time of the first `n` rows in complete
    classes.
    """
    n = len(grid.tops)
    width_s = prices.compile_s(depth, 2) - prices.compile_s(depth, 1)
    class_s = prices.compile_s(depth, 1) - width_s + TIE_S
    carry_s = np.array([prices.carry_s(top, depth) for top in grid.tops])
    trials = grid.trials.sum(axis=1)
    open_s, closed_s = np.full((n + 1, n), np.inf), np.zeros(n + 1)
    starts = np.zeros((n, n), dtype=np.intp)
    for last in range(n):
        run_s = _run_s(grid, last, prices) + width_s + TIE_S
        before_s = np.minimum(open_s[: last + 1], closed_s[: last + 1, None])
        carried = trials[last + 1] - trials[: last + 1]
        candidates = before_s + run_s[:, None] + carried[:, None] * carry_s
        starts[last] = candidates.argmin(axis=0)
        open_s[last + 1] = candidates.min(axis=0)
        closed_s[last + 1] = open_s[last + 1, last] + class_s
    yield from reversed([*_classes(starts, open_s, closed_s)])


def _run_s(grid: CellGrid, last: int, prices: Prices) -> NDArray[np.float64]:
    """Seconds to train all rows from each first one up to `last` at the width of `last`."""
    lane_s = [prices.lane_s(grid.tops[last], own) for own in grid.depths]
    return (grid.trials[last + 1] - grid.trials[: last + 1]) @ np.array(lane_s)


def _classes(
    starts: NDArray[np.intp], open_s: NDArray[np.float64], closed_s: NDArray[np.float64]
) -> Iterator[list[tuple[int, int]]]:
    """The classes of the best cut, the widest first."""
    end = len(starts)
    while end:
        top, ends = end - 1, [end]
        while True:
            end = int(starts[end - 1, top])
            ends.append(end)
            if closed_s[end] <= open_s[end, top]:
                break
        yield [(first, after - 1) for first, after in pairwise(reversed(ends))]
