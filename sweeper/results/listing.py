"""Published trials as lists of plain values, selected and sorted, without importing pandas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sweeper.errors import SetupError
from sweeper.results.filter import column_named, rows_where
from sweeper.results.formatting import names
from sweeper.results.judged import CURVE_COLUMNS
from sweeper.results.light import diverged_epochs, floats, read_light, study_metadata, texts
from sweeper.results.missing_trials import no_trials
from sweeper.results.ranking import best_first, pareto_front, tied_at_best, value_columns
from sweeper.results.table_file import refuse_without_study
from sweeper.rundir import RunDir

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TrialRows:
    """The rows of `trials.parquet` at one moment; `study` is the file's metadata.

    `places` are the indices of the selected rows, in order.
    """

    table: pa.Table
    study: Mapping[str, Any]
    places: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.places)

    @property
    def names(self) -> list[str]:
        """The columns, in order."""
        return self.table.column_names

    @property
    def metrics(self) -> tuple[str, ...]:
        """The objectives of the study."""
        return names(self.study["metric"])

    @property
    def directions(self) -> tuple[str, ...]:
        """The direction of each objective."""
        return names(self.study["direction"])

    @property
    def values(self) -> tuple[str, ...]:
        """The columns of the objectives."""
        return value_columns(len(self.metrics))

    @property
    def informative(self) -> list[str]:
        """The most useful columns; without `reason` if no trial has one."""
        known = [*self.values, "best_epoch", "epochs_done", "n_parameters", "train_s"]
        params = [name for name in self.names if is_param(name)]
        outcomes = [name for name in ("reason",) if self.table[name].null_count < len(self.table)]
        outcomes += [name for name in ("feasible",) if name in self.names]
        return [
            "trial_number",
            "state",
            *outcomes,
            *self.values,
            *params,
            *known[len(self.values) :],
        ]

    @property
    def n_complete(self) -> int:
        """How many of the trials are complete."""
        return sum(row["state"] == "COMPLETE" for row in self.rows(["state"]))

    def named(self, names: Iterable[str]) -> list[str]:
        """The columns with these names, without repetition.

        Raises:
            StudyError: the column does not exist.
        """
        return [*dict.fromkeys(self._column("--columns", name) for name in names)]

    def _column(self, option: str, name: str) -> str:
        return column_named(option, name, self.names, self._by_objective)

    @property
    def _by_objective(self) -> dict[str, str]:
        """The columns of the objectives by the names that the study and `best` call them."""
        return dict(zip(self.metrics, self.values, strict=True))

    def where(self, condition: str) -> TrialRows:
        """The rows for which a condition is true.

        Raises:
            StudyError: it cannot be read.
        """
        kept = rows_where(condition, self.table, self._by_objective)
        return replace(self, places=self.places[kept[self.places]])

    def sorted_by(self, key: str) -> TrialRows:
        """The rows sorted by a column: ascending, but objectives and `best_value` best first.

        `-KEY` reverses the order. Nulls come last; equal rows are in order of trial number.
        """
        turned = key.startswith("-")
        name = self._column("--sort", key.removeprefix("-"))
        values = plain(self.table[name])
        ways = dict(zip(self.values, self.directions, strict=True))
        ways["best_value"] = self.directions[0]
        falls = turned != (ways.get(name) == "maximize")
        known = [place for place in self.places if values[place] is not None]
        # equal rows keep their order, reversed or not
        known.sort(key=lambda place: values[place], reverse=falls)
        null = [place for place in self.places if values[place] is None]
        return replace(self, places=np.array([*known, *null], np.intp))

    def rows(self, wanted: Sequence[str] | None = None, count: int | None = None) -> list[Row]:
        """The first `count` rows, or all if None, as plain values; null is None."""
        names = self.names if wanted is None else [*wanted]
        columns = [plain(self.table[name]) for name in names]
        each = (tuple(column[i] for column in columns) for i in self.places[:count])
        return [dict(zip(names, row, strict=True)) for row in each]

    def row(self, number: int) -> Row | None:
        """The row of one trial; None if no trial with this number has ended."""
        found = np.flatnonzero(floats(self.table["trial_number"]) == number)
        return replace(self, places=found).rows()[0] if len(found) else None

    def best(self, count: int) -> list[int]:
        """The numbers of the best trials, best first, according to `ranking`."""
        found = best_first(self._ranked, self.directions, count)
        return [row["trial_number"] for row in found]

    def tied(self) -> list[int]:
        """The numbers of the best trials if several have the best value."""
        return [row["trial_number"] for row in tied_at_best(self._ranked, self.directions)]

    def front(self) -> list[int]:
        """The numbers of the trials on the Pareto front; none with a single objective."""
        if len(self.metrics) == 1:
            return []
        return [row["trial_number"] for row in pareto_front(self._ranked, self.directions)]

    @property
    def _ranked(self) -> list[Row]:
        columns = ["trial_number", "state", *self.values]
        return self.rows([*columns, "feasible"] if "feasible" in self.names else columns)

    def of(self, numbers: Sequence[int]) -> list[Row]:
        """The rows of these trials, in this order."""
        places = {int(n): i for i, n in enumerate(floats(self.table["trial_number"]))}
        return replace(self, places=np.array([places[n] for n in numbers], np.intp)).rows()


def read_trials(run_dir: RunDir) -> TrialRows:
    """The finished trials of a run directory.

    Raises:
        SetupError: nothing was published there, or it is damaged.
    """
    table = read_light(run_dir.trials)
    if table is None:
        raise SetupError(no_trials(run_dir))
    study = study_metadata(table)
    refuse_without_study(run_dir.trials, study)
    return TrialRows(table, study, np.arange(len(table)))


def _parts(run_dir: RunDir) -> Iterator[pa.Table]:
    """The rows of the metrics, part by part."""
    for part in sorted(run_dir.metrics.glob("part-*.parquet")):
        if (table := read_light(part, CURVE_COLUMNS)) is not None and len(table):
            yield table


def curves(run_dir: RunDir, number: int) -> dict[str, list[float | None]]:
    """The curves of a trial, by metric: means over its replicates and folds, by epoch."""
    found = curves_by_epoch(run_dir, [number]).get(number, {})
    return {metric: [*by_epoch.values()] for metric, by_epoch in found.items()}


def curves_by_epoch(
    run_dir: RunDir, numbers: Sequence[int]
) -> dict[int, dict[str, dict[int, float | None]]]:
    """The curves of some trials, by number, metric and epoch; means as in `curves`.

    They have no value in the epoch in which a trial diverged.
    """
    found: dict[tuple[int, str], dict[int, list[float]]] = {}
    for table in _parts(run_dir):
        trials = floats(table["trial_number"])
        rows = np.flatnonzero(np.isin(trials, numbers))
        metrics, codes = texts(table["metric"])
        epochs, values = floats(table["epoch"]), floats(table["value"])
        for row in rows.tolist():
            by_epoch = found.setdefault((int(trials[row]), metrics[codes[row]]), {})
            by_epoch.setdefault(int(epochs[row]), []).append(float(values[row]))
    curves: dict[int, dict[str, dict[int, float | None]]] = {}
    diverged = _diverged_epochs(run_dir)
    for (number, metric), by_epoch in found.items():
        if diverged.get(number) in by_epoch:
            by_epoch[diverged[number]] = []
        means = {epoch: _mean(by_epoch[epoch]) for epoch in sorted(by_epoch)}
        curves.setdefault(number, {})[metric] = means
    return curves


def curves_of_all(run_dir: RunDir, metric: str) -> dict[int, dict[int, float]]:
    """The curves of all trials for one metric, by number and epoch: means as in `curves`."""
    sums: dict[tuple[int, int], tuple[float, int]] = {}
    for table in _parts(run_dir):
        metrics, codes = texts(table["metric"])
        values = floats(table["value"])
        chosen = ~np.isnan(values) & (codes == (metrics.index(metric) if metric in metrics else -1))
        columns = (floats(table[name])[chosen].astype(int) for name in ("trial_number", "epoch"))
        for number, epoch, value in zip(*columns, values[chosen].tolist(), strict=True):
            total, count = sums.get((int(number), int(epoch)), (0.0, 0))
            sums[int(number), int(epoch)] = total + value, count + 1
    found: dict[int, dict[int, float]] = {}
    diverged = _diverged_epochs(run_dir)
    for (number, epoch), (total, count) in sorted(sums.items()):
        if epoch != diverged.get(number):
            found.setdefault(number, {})[epoch] = total / count
    return found


def _diverged_epochs(run_dir: RunDir) -> dict[int, int]:
    return diverged_epochs(read_light(run_dir.trials, ["trial_number", "diverged_epoch"]))


def buckets_of(run_dir: RunDir, number: int) -> list[Row]:
    """The buckets that a trial was trained in, one row per round."""
    table = read_light(run_dir.buckets)
    if table is None:
        return []
    holds = re.compile(rf"[\[ ]{number}[,\]]")
    rows = [i for i, trials in enumerate(plain(table["trials"])) if holds.search(trials)]
    columns = {name: plain(table[name]) for name in table.column_names}
    return [{name: column[i] for name, column in columns.items()} for i in rows]


def is_param(column: str) -> bool:
    """Whether a column holds a parameter."""
    return column.startswith("params_") and column != "params_json"


def plain(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as Python objects, None for null and nan."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        names, codes = texts(column)
        return [None if code < 0 else names[code] for code in codes.tolist()]
    if not (pa.types.is_floating(kind) or pa.types.is_timestamp(kind)):
        return column.to_pylist()
    values = (None if value != value else value for value in floats(column).tolist())
    if pa.types.is_floating(kind):
        return list(values)
    # the timestamps of Arrow import pandas
    return [None if value is None else datetime.fromtimestamp(value, UTC) for value in values]


def _mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else None
