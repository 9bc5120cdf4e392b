"""A study as an experiment tracker gets it, from its published files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sweeper.dashboard.trials import PublishedTrials
from sweeper.results.listing import Row, TrialRows, curves_by_epoch, read_trials
from sweeper.results.ranking import is_feasible
from sweeper.results.status import Status
from sweeper.rundir import RunDir
from sweeper.trackers.tracker import Point, StudyRecord, TrialRecord

_NUMBERS = {
    "best_value",
    "best_epoch",
    "epochs_done",
    "value_std",
    "n_parameters",
    "feasible",
    "train_s",
}
_AT_ONCE = 1000  # trials whose curves are in memory
_TEXTS = ("reason", "strategy", "class_id", "device", "error_type", "error_message")


@dataclass(frozen=True, slots=True)
class Published:
    """What is published of a study at one moment; `key` identifies its run directory."""

    run_dir: RunDir
    key: str
    status: Status
    trials: TrialRows

    @property
    def is_running(self) -> bool:
        """Whether more may follow without the study being started again."""
        return self.status.is_running

    def study(self) -> StudyRecord:
        """The study as one run."""
        status, trials = self.status, self.trials
        rows = trials.rows(["epochs_done", "started_at"])
        began = [row["started_at"].timestamp() for row in rows if row["started_at"]]
        counts = {f"trials.{state.lower()}": count for state, count in status.counts.items()}
        numbers = {**counts, "epochs": sum(row["epochs_done"] for row in rows)}
        texts = {"state": status.state, "run_dir": str(self.run_dir.root.absolute())}
        if len(trials.metrics) > 1:
            texts["pareto_front"] = json.dumps(trials.front())
        elif (found := trials.of(trials.best(1))) and is_feasible(best := found[0]):
            numbers |= {"best.trial": best["trial_number"]}
            numbers |= {f"best.{name}": value for name, value in self._numbers(best).items()}
            texts["best.params"] = best["params_json"]
        return StudyRecord(
            key=self.key,
            name=status.study,
            state=status.state,
            settings=trials.study["settings"],
            space=self._space(),
            metrics=trials.metrics,
            numbers=numbers,
            texts=texts,
            began_at=min(began, default=status.started_at),
            updated_at=status.updated_at,
        )

    def points(self, already: int) -> list[Point]:
        """The values of the trials in the order in which they ended, without the first ones."""
        names = ["trial_number", "last_round", "state", "started_at", "finished_at"]
        names += [*self.trials.values, *(["feasible"] if "feasible" in self.trials.names else [])]
        rows = self.trials.rows(names)
        # what is added later comes last, so that a trial keeps its place
        rows.sort(key=self._place)
        found: list[Point] = []
        best: float | None = None
        time = 0.0
        for step, row in enumerate(rows, 1):
            time = _ended_at(row) or time
            values = self._values(row)
            if len(self.trials.metrics) == 1:
                best = self._better(best, row)
                values |= {} if best is None else {f"best_{self.trials.metrics[0]}": best}
            found.append(Point(step, time, values))
        return found[already:]

    def records(self, top: int | None, without: frozenset[int]) -> Iterator[TrialRecord]:
        """The best `top` trials, or all if None, except those `without`.

        While a study runs, a trial whose curves are not published yet is left out.
        """
        best = self.trials.best(len(self.trials) if top is None else top)
        others = [row["trial_number"] for row in self.trials.rows(["trial_number"])]
        wanted = dict.fromkeys([*best, *(others if top is None else ())])
        numbers = [number for number in wanted if number not in without]
        for first in range(0, len(numbers), _AT_ONCE):
            some = numbers[first : first + _AT_ONCE]
            curves = curves_by_epoch(self.run_dir, some)
            for row in self.trials.of(some):
                drawn = curves.get(row["trial_number"], {})
                through = max((max(curve) for curve in drawn.values()), default=0)
                if not self.is_running or through >= row["epochs_done"]:
                    yield self._record(row, drawn)

    def _place(self, row: Row) -> tuple[float, int]:
        """The place of a trial among all: by round, or by its end if another tool trained it."""
        ended = (_ended_at(row) or 0.0) if self.status.is_imported else row["last_round"]
        return ended, row["trial_number"]

    def _record(self, row: Row, curves: Mapping[str, Mapping[int, float | None]]) -> TrialRecord:
        ended_at = _ended_at(row) or self.status.updated_at
        return TrialRecord(
            number=row["trial_number"],
            state=row["state"],
            params=json.loads(row["params_json"]),
            numbers=self._numbers(row),
            texts={name: row[name] for name in _TEXTS if row.get(name)},
            curves={
                metric: {epoch: value for epoch, value in curve.items() if value is not None}
                for metric, curve in curves.items()
            },
            began_at=row["started_at"].timestamp() if row["started_at"] else ended_at,
            ended_at=ended_at,
        )

    def _numbers(self, row: Row) -> dict[str, float]:
        """The outcome of a trial in numbers: its values, and metrics after its last epoch.

        Whether it is feasible is 1 or 0.
        """
        names = {*self.trials.values, *_NUMBERS}
        return {
            name: float(value) if name == "feasible" else value
            for name, value in row.items()
            if value is not None and (name in names or name.startswith(("final_", "test_")))
        }

    def _values(self, row: Row) -> dict[str, float]:
        """The objectives of a trial that has them."""
        columns = zip(self.trials.metrics, self.trials.values, strict=True)
        return {metric: row[column] for metric, column in columns if row[column] is not None}

    def _better(self, best: float | None, row: Row) -> float | None:
        """The better one of a value and that of a trial, which counts if it could be the best."""
        if row["state"] != "COMPLETE" or not is_feasible(row):
            return best
        values = [row["value"], *([] if best is None else [best])]
        return min(values) if self.trials.directions[0] == "minimize" else max(values)

    def _space(self) -> dict[str, Mapping[str, Any]]:
        searched = PublishedTrials(self.trials.table, self.trials.study).parameters
        return {column.removeprefix("params_"): entry for column, entry in searched.items()}


def read_published(run_dir: RunDir, key: str, status: Status) -> Published:
    """What is published of a study, whose `status` was read before.

    Raises:
        SetupError: nothing was published, or it is damaged.
    """
    return Published(run_dir, key, status, read_trials(run_dir))


def _ended_at(row: Row) -> float | None:
    """When a trial ended, in seconds since 1970; None if it was never trained."""
    found: datetime | None = row["finished_at"] or row["started_at"]
    return None if found is None else found.timestamp()
