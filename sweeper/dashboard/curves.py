"""Learning curves of all trials, as arrays that grow with the parts of metrics/."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from sweeper.errors import Problem, SetupError
from sweeper.results.light import floats, read_light, texts, whole_numbers

_COLUMNS = ("trial_number", "epoch", "metric", "phase", "value")
_QUANTILES = (0.1, 0.5, 0.9)
_MAX_CELLS = 1 << 27  # maximum size of the arrays of a metric: one cell per trial and epoch

Key = tuple[str, str | None]
"""A metric and a phase; None means all phases."""
Quantiles = list[tuple[int, float, float, float]]


@dataclass(slots=True)
class Curves:
    """The curve of each trial, metric and phase: the mean of its members, by epoch from 1.

    `sums` and `counts` are arrays by epoch and trial; missing values have a count of 0.
    """

    sums: dict[Key, np.ndarray] = field(default_factory=dict[Key, np.ndarray])
    counts: dict[Key, np.ndarray] = field(default_factory=dict[Key, np.ndarray])
    read: set[str] = field(default_factory=set[str])

    def refresh(self, directory: Path) -> bool:
        """Read the new parts in `directory`; returns whether there were any."""
        there = {path.name: path for path in sorted(directory.glob("*.parquet"))}
        if not self.read <= there.keys():  # the study was started from scratch
            self.sums.clear()
            self.counts.clear()
            self.read.clear()
        new = [name for name in there if name not in self.read]
        for name in new:
            self._add(there[name])
        self.read.update(new)
        return bool(new)

    def keys(self) -> list[Key]:
        """The metrics, each over all phases first, then by phase."""
        return sorted(self.sums, key=lambda key: (key[0], key[1] is not None, key[1] or ""))

    def curve(self, number: int) -> list[dict[str, Any]]:
        """The curves of a trial: metric, phase, epochs and values."""
        found: list[dict[str, Any]] = []
        for metric, phase in self.keys():
            sums, counts = self.sums[metric, phase], self.counts[metric, phase]
            if not 0 <= number < sums.shape[1]:
                continue
            measured = np.flatnonzero(counts[:, number])
            values = sums[measured, number] / counts[measured, number]
            if len(measured):
                epochs = (measured + 1).tolist()
                found.append({"metric": metric, "phase": phase, "epochs": epochs, "values": values})
        return found

    def band(self, key: Key) -> Quantiles:
        """For each epoch, its number and the 10, 50 and 90 % quantiles over the trials."""
        sums, counts = self.sums[key], self.counts[key]
        with np.errstate(invalid="ignore"):
            values = (sums / counts).astype(np.float64)
        values[~np.isfinite(values)] = np.nan
        epochs = np.flatnonzero(~np.isnan(values).all(axis=1))
        rows = np.nanquantile(values[epochs], _QUANTILES, axis=1).T.tolist()
        return [(epoch + 1, *row) for epoch, row in zip(epochs.tolist(), rows, strict=True)]

    def _add(self, path: Path) -> None:
        table = read_light(path, _COLUMNS)
        if table is None or not table.num_rows:
            return
        value = floats(table["value"])
        trial = whole_numbers(table["trial_number"])
        epoch = whole_numbers(table["epoch"]) - 1
        finite = np.isfinite(value)
        metrics, metric_codes = texts(table["metric"])
        phases, phase_codes = texts(table["phase"])
        cells = (int(epoch.max()) + 1) * (int(trial.max()) + 1)
        if min(int(epoch.min()), int(trial.min())) < 0 or cells > _MAX_CELLS:
            found = "it has more epochs or trials than any study"
            root = quote(str(path.parent.parent))
            hint = f"rewrite it with: python -m sweeper verify {root} --repair"
            raise SetupError(Problem(str(path), "", found, hint))
        for code, metric in enumerate(metrics):
            mine = finite & (metric_codes == code)
            self._count((metric, None), epoch[mine], trial[mine], value[mine])
            for phase_code, phase in enumerate(phases):
                own = mine & (phase_codes == phase_code)
                self._count((metric, phase), epoch[own], trial[own], value[own])

    def _count(self, key: Key, epoch: np.ndarray, trial: np.ndarray, value: np.ndarray) -> None:
        if not len(value):
            return
        self._make_room(key, int(epoch.max()) + 1, int(trial.max()) + 1)
        cells = epoch.astype(np.int64) * self.sums[key].shape[1] + trial
        np.add.at(self.sums[key].reshape(-1), cells, value.astype(np.float32))
        np.add.at(self.counts[key].reshape(-1), cells, 1)

    def _make_room(self, key: Key, epochs: int, trials: int) -> None:
        rows, columns = self.sums[key].shape if key in self.sums else (0, 0)
        if rows >= epochs and columns >= trials:
            return
        # twice as many as before, since a growing study would otherwise be copied at each part
        shape = (max(rows, epochs), columns if columns >= trials else max(2 * columns, trials))
        for arrays, kind in ((self.sums, np.float32), (self.counts, np.uint16)):
            larger = np.zeros(shape, kind)
            if key in arrays:
                larger[:rows, :columns] = arrays[key]
            arrays[key] = larger
