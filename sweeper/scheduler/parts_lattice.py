"""The lattice of models of several parts: classes that have room for each part of their trials.

Sizes of several parts have no order of their own, so the exact search of one part does not carry
over. They are ordered by what a lane costs, and cut into intervals, of which each has room for the
largest of every part: exact among such cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.scheduler.lattice import TIE_S, cut, filled, intervals
from sweeper.trial import Scalar

Sizes = tuple[tuple[str, int, int], ...]
"""Name, width and depth of each part that can be padded."""


@dataclass(frozen=True, slots=True)
class PaddedSize:
    """What a class is padded to; nothing where it is exact.

    `run_widths` are those that it runs lanes at, where there are several. Of a model of parts it is
    their sizes, with the greatest width and depth among them.
    """

    width: int | None = None
    depth: int | None = None
    parts: Sizes = ()
    run_widths: tuple[int, ...] = ()

    def run_width(self, width: int) -> int:
        """The width that a lane of this width is run at."""
        return next((run for run in self.run_widths if width <= run), self.width or width)

    @staticmethod
    def of_parts(sizes: Sizes) -> PaddedSize:
        """Room for parts of these sizes."""
        return PaddedSize(max(w for _, w, _ in sizes), max(d for *_, d in sizes), sizes)


EXACT = PaddedSize()
# more sizes than these are taken together before they are cut, those next to each other
_MAX_SIZES = 32


@dataclass(frozen=True, slots=True)
class PartsCell:
    """How many trials of these sizes the study can expect, and the parameters of one of them."""

    sizes: Sizes
    trials: float
    example: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class PartsClass:
    """A class of the lattice: what it has room for, and what it is predicted to cost.

    `train_s` is for all its `trials` together, `exact_train_s` for the same trials each in a class
    of its own sizes; `structures` counts the sizes among them, and `example` is one that it is for.
    """

    sizes: Sizes
    trials: float
    compile_s: float
    train_s: float
    exact_train_s: float
    structures: int
    example: Mapping[str, Scalar]

    @property
    def waste_fraction(self) -> float:
        """The part of the training time that goes into padding."""
        return 1 - self.exact_train_s / self.train_s if self.train_s else 0.0

    def holds(self, sizes: Sizes) -> bool:
        """Whether it has room for a trial of these sizes."""
        pairs = zip(self.sizes, sizes, strict=True)
        return all(w >= own_w and d >= own_d for (_, w, d), (_, own_w, own_d) in pairs)


CompileSeconds = Callable[[Sizes], float]
"""Seconds to compile a class with room for these sizes."""
LaneSeconds = Callable[[Sizes, Sizes], float]
"""Seconds to train a lane, by the sizes of its class and its own."""


def largest(several: Iterable[Sizes]) -> Sizes:
    """Room for all of them."""
    columns = zip(*several, strict=True)
    return tuple(
        (column[0][0], max(width for _, width, _ in column), max(depth for *_, depth in column))
        for column in columns
    )


def room_of(several: Iterable[Sizes]) -> Sizes:
    """What a class for all of them is padded to, each part as wide as `filled` has it.

    One alone is not padded.
    """
    different = {*several}
    if len(different) == 1:
        return different.pop()
    return tuple(
        (name, filled(width) if depth else width, depth)
        for name, width, depth in largest(different)
    )


def parts_lattice(
    cells: Sequence[PartsCell], compile_s: CompileSeconds, lane_s: LaneSeconds
) -> tuple[PartsClass, ...]:
    """The classes for which compiling and training take the fewest seconds in sum."""
    if not cells:
        return ()
    ordered = sorted(cells, key=lambda cell: (lane_s(cell.sizes, cell.sizes), cell.sizes))
    blocks = np.array_split(np.arange(len(ordered)), min(len(ordered), _MAX_SIZES))
    n = len(blocks)

    def held(first: int, last: int) -> list[PartsCell]:
        return [ordered[at] for block in blocks[first : last + 1] for at in block]

    prices = np.zeros((n, n))
    for first in range(n):
        for last in range(first, n):
            found = _class_of(held(first, last), compile_s, lane_s)
            prices[first, last] = found.compile_s + found.train_s + TIE_S
    spans = intervals(cut(prices)[1])
    return tuple(_class_of(held(first, last), compile_s, lane_s) for first, last in spans)


def _class_of(
    cells: Sequence[PartsCell], compile_s: CompileSeconds, lane_s: LaneSeconds
) -> PartsClass:
    sizes = room_of(cell.sizes for cell in cells)
    return PartsClass(
        sizes=sizes,
        trials=sum(cell.trials for cell in cells),
        compile_s=compile_s(sizes),
        train_s=sum(cell.trials * lane_s(sizes, cell.sizes) for cell in cells),
        exact_train_s=sum(cell.trials * lane_s(cell.sizes, cell.sizes) for cell in cells),
        structures=len({cell.sizes for cell in cells}),
        example=max(cells, key=lambda cell: cell.trials).example,
    )


def format_sizes(sizes: Sizes) -> str:
    """The sizes as a class is recorded with them: `a=128x3,b=32x1`, width by depth."""
    return ",".join(f"{name}={width}x{depth}" for name, width, depth in sizes)


def sizes_in(text: str) -> Sizes:
    """The sizes that `format_sizes` wrote."""
    return tuple(
        (name, *map(int, size.split("x")))  # type: ignore[misc]
        for name, _, size in (part.partition("=") for part in text.split(",") if part)
    )
