"""Learning curves of all trials, as arrays that grow with the parts of metrics/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from sweeper.errors import Problem, SetupError
from sweeper.results.light import floats, read_light, texts, whole_numbers

_COLUMNS = ("trial_number", "epoch", "metric", "phase", "value")
_QUANTILES = (0.1, 0.5, 0.9)
_TRIALS, _EPOCHS = 1 << 32, 1 << 31  # more than any study has

Key = tuple[str, str | None]
"""A metric and a phase; None means all phases."""
Band = list[tuple[int, float, float, float]]


@dataclass(frozen=True, slots=True)
class Cells:
    """The measured values of a metric: sums and counts of members, by epoch, then by trial.

    `cells` are `epoch * _TRIALS + trial`, with epochs from 0, each once and sorted. Pruned trials
    take no room for epochs that they did not reach.
    """

    cells: np.ndarray
    sums: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, epoch: np.ndarray, trial: np.ndarray, value: np.ndarray) -> Cells:
        """The cells of these values, of which several may belong to one epoch and trial."""
        return cls(epoch * _TRIALS + trial, value, np.ones(len(value), np.uint16)).added()

    def added(self, *more: Cells) -> Cells:
        """These cells and `more`, with one cell for each epoch and trial."""
        cells = np.concatenate([self.cells, *(one.cells for one in more)])
        order = np.argsort(cells, kind="stable")  # merges what is already sorted
        cells = cells[order]
        first = np.flatnonzero(np.diff(cells, prepend=-1))
        with np.errstate(over="ignore"):  # the sum of numbers that are too large is infinite
            sums, counts = (
                np.add.reduceat(np.concatenate(parts)[order], first, dtype=kind)
                for parts, kind in (
                    ([self.sums, *(one.sums for one in more)], np.float64),
                    ([self.counts, *(one.counts for one in more)], np.uint16),
                )
            )
        return Cells(cells[first], sums, counts)

    def places(self, wanted: np.ndarray) -> np.ndarray:
        """The indices of those of the `wanted` cells that there are."""
        at = np.searchsorted(self.cells, wanted)
        return at[self.cells[np.minimum(at, len(self.cells) - 1)] == wanted]

    def means(self, cells: slice | np.ndarray = slice(None)) -> np.ndarray:
        """The means over the members, of the cells at these indices."""
        return self.sums[cells] / self.counts[cells]

    def epochs(self) -> np.ndarray:
        """The epochs in which any trial was measured, from 0."""
        found, at = list[int](), 0
        while at < len(self.cells):  # far fewer steps than there are cells
            found.append(int(self.cells[at] // _TRIALS))
            at = int(np.searchsorted(self.cells, (found[-1] + 1) * _TRIALS))
        return np.array(found, np.int64)


@dataclass(slots=True)
class Curves:
    """The curve of each trial, metric and phase: the mean of its members, by epoch from 1.

    Without the epoch in which a trial diverged, in which only some members may have a value.
    """

    measured: dict[Key, Cells] = field(default_factory=dict[Key, Cells])
    read: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    _left_out: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def n_epochs(self) -> int:
        """The last epoch in which any trial was measured."""
        return max((int(of.cells[-1] // _TRIALS) + 1 for of in self.measured.values()), default=0)

    def refresh(self, directory: Path, diverged: Mapping[int, int] | None = None) -> bool:
        """Read the new parts in `directory`; returns whether the curves may have changed.

        `diverged` are the epochs in which trials diverged, by number; None if nothing is new.

        All parts are read again if one was removed or replaced, as when a study is started from
        scratch.

        Raises:
            SetupError: a part is damaged; then none is added.
        """
        there: dict[str, tuple[int, ...]] = {}
        for path in sorted(directory.glob("*.parquet")):
            with suppress(FileNotFoundError):  # just merged with others
                there[path.name] = stamp(path)
        is_other = not self.read.items() <= there.items()
        if is_other:
            self.measured.clear()
            self.read.clear()
        new = [name for name in there if name not in self.read]
        found: dict[Key, list[Cells]] = {}
        for name in new:
            for key, cells in _cells_in(directory / name):
                found.setdefault(key, []).append(cells)
        for key, (first, *more) in found.items():
            known = self.measured.get(key)
            self.measured[key] = first.added(*more) if known is None else known.added(first, *more)
        self.read = there
        before = self._left_out
        if diverged is not None:
            epochs = diverged.items()
            self._left_out = {number: (epoch - 1) * _TRIALS + number for number, epoch in epochs}
        return is_other or bool(new) or self._left_out != before

    def keys(self) -> list[Key]:
        """The metrics, each over all phases first, then by phase."""
        return sorted(self.measured, key=lambda key: (key[0], key[1] is not None, key[1] or ""))

    def curve(self, number: int) -> list[dict[str, Any]]:
        """The curves of a trial: metric, phase, epochs and values."""
        found: list[dict[str, Any]] = []
        for metric, phase in self.keys() if 0 <= number < _TRIALS else ():
            known = self.measured[metric, phase]
            wanted = known.epochs() * _TRIALS + number
            at = known.places(wanted[wanted != self._left_out.get(number, -1)])
            if len(at):
                epochs = (known.cells[at] // _TRIALS + 1).tolist()
                values = known.means(at)
                found.append({"metric": metric, "phase": phase, "epochs": epochs, "values": values})
        return found

    def band(self, key: Key) -> Band:
        """For each epoch, its number and the 10, 50 and 90 % quantiles over the trials."""
        known = self.measured[key]
        left_out = known.places(np.array([*self._left_out.values()], np.int64))
        epochs = known.epochs()
        ends = np.searchsorted(known.cells, (epochs + 1) * _TRIALS).tolist()
        found: Band = []
        for epoch, first, end in zip(epochs.tolist(), [0, *ends], ends, strict=False):
            values = known.means(slice(first, end))
            values[left_out[(left_out >= first) & (left_out < end)] - first] = np.nan
            values = values[np.isfinite(values)]
            if len(values):
                low, middle, high = np.quantile(values, _QUANTILES).tolist()
                found.append((epoch + 1, low, middle, high))
        return found


def stamp(path: Path) -> tuple[int, int, int]:
    """Numbers of a file that change when it is replaced."""
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _cells_in(path: Path) -> Iterator[tuple[Key, Cells]]:
    """The values of each metric in a part, over all phases and by phase."""
    table = read_light(path, _COLUMNS)
    if table is None or not table.num_rows:
        return
    value = floats(table["value"])
    trial = whole_numbers(table["trial_number"])
    epoch = whole_numbers(table["epoch"]) - 1
    limits = ((trial, _TRIALS), (epoch, _EPOCHS))
    if any(int(column.min()) < 0 or int(column.max()) >= limit for column, limit in limits):
        found = "it has the number of a trial or of an epoch that no study has"
        root = quote(str(path.parent.parent))
        hint = f"rewrite it with: python -m sweeper verify {root} --repair"
        raise SetupError(Problem(str(path), "", found, hint))
    metrics, metric_codes = texts(table["metric"])
    phases, phase_codes = texts(table["phase"])
    for code, metric in enumerate(metrics):
        mine = np.isfinite(value) & (metric_codes == code)
        by_phase = [(phase, mine & (phase_codes == at)) for at, phase in enumerate(phases)]
        for phase, own in [(None, mine), *by_phase]:
            if own.any():
                yield (metric, phase), Cells.of(epoch[own], trial[own], value[own])
