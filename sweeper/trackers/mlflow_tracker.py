"""Runs in MLflow: one for the study, and nested ones for trials.

The runs of a study have its key as a tag, by which they are found again; a trial's run that was not
ended is made again.
"""

# pyright: reportMissingImports=false
# its library comes with an extra

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException

from sweeper.errors import Problem, SetupError
from sweeper.trackers.tracker import (
    Logged,
    Point,
    StudyRecord,
    TrialRecord,
    by_dotted_key,
    explain_errors,
    value_text,
)

_KEY, _TRIAL, _POINTS = "sweeper.study", "sweeper.trial", "sweeper.points"
_METRICS, _PARAMS = 1000, 100  # at most in one request
_SOME_POINTS = 100  # in one request; each has a metric for each objective, and the best
_LETTERS = 5000  # of a parameter or tag
_STATES = {
    "COMPLETE": "FINISHED",
    "PRUNED": "KILLED",
    "FAIL": "FAILED",
    "running": "RUNNING",
    "finished": "FINISHED",
    "interrupted": "KILLED",
    "failed": "FAILED",
}
_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
_HINT = "check --uri (or MLFLOW_TRACKING_URI) and the server, then log again"
_explain_errors = partial(explain_errors, MlflowException, "MLflow", _HINT)


class MlflowTracker:
    """Runs in an experiment of MLflow; `uri` is the tracking URI, by default that of MLflow."""

    def __init__(self, uri: str | None, experiment: str) -> None:
        os.environ.setdefault(_RETRIES, "3")  # with MLflow's 7, a wrong address takes minutes
        self._experiment = experiment
        with _explain_errors():
            self._client = MlflowClient(uri)
        self._parent = self._experiment_id = self._key = ""

    def start(self, study: StudyRecord) -> Logged:
        """Find or make the run of the study; returns what it has."""
        self._key = study.key
        with _explain_errors():
            self._experiment_id = self._find_experiment()
            runs = [*self._runs_of(study.key)]
            parents = [run for run in runs if _TRIAL not in run.data.tags]
            parent = parents[0] if parents else self._make(study.name, study.began_at, {})
            self._parent = parent.info.run_id
            self._client.update_run(self._parent, status="RUNNING")
            self._log_settings(study, parent.data.params)
            trials = (run for run in runs if _TRIAL in run.data.tags)
            complete = frozenset(
                number for run in trials if (number := self._kept(run)) is not None
            )
        return Logged(int(parent.data.tags.get(_POINTS, 0)), complete)

    def log_points(self, points: Sequence[Point]) -> None:
        """Add the values of trials as metrics of the study's run."""
        with _explain_errors():
            for first in range(0, len(points), _SOME_POINTS):
                some = points[first : first + _SOME_POINTS]
                metrics = [
                    Metric(name, value, int(point.time * 1000), point.step)
                    for point in some
                    for name, value in point.values.items()
                ]
                tags = [RunTag(_POINTS, str(some[-1].step))]
                self._client.log_batch(self._parent, metrics=metrics, tags=tags)

    def log_trial(self, trial: TrialRecord) -> None:
        """Make the run of a trial.

        It is ended last, so that an unended run is known to be incomplete.
        """
        at = int(trial.ended_at * 1000)
        metrics = [
            Metric(name, value, at, epoch)
            for name, curve in trial.curves.items()
            for epoch, value in curve.items()
        ]
        metrics += [Metric(name, float(value), at, 0) for name, value in trial.numbers.items()]
        tags = {_TRIAL: str(trial.number), "mlflow.parentRunId": self._parent}
        with _explain_errors():
            run = self._make(f"trial {trial.number}", trial.began_at, tags).info.run_id
            self._log(run, trial.params, {"state": trial.state, **trial.texts})
            for first in range(0, len(metrics), _METRICS):
                self._client.log_batch(run, metrics=metrics[first : first + _METRICS])
            self._client.set_terminated(run, _STATES[trial.state], at)

    def finish(self, study: StudyRecord, files: Mapping[str, Path]) -> str:
        """Update the outcome in the study's run, and keep the files as its artifacts."""
        at = int(study.updated_at * 1000)
        metrics = [Metric(name, float(it), at, 0) for name, it in study.numbers.items()]
        with _explain_errors():
            self._client.log_batch(self._parent, metrics=metrics)
            self._log(self._parent, {}, study.texts)
            for name, path in files.items():
                if path.is_dir():
                    self._client.log_artifacts(self._parent, str(path), name)
                else:
                    self._client.log_artifact(self._parent, str(path))
            if study.state != "running":
                self._client.set_terminated(self._parent, _STATES[study.state], at)
        return f"experiment {self._experiment} at {self._client.tracking_uri}"

    def close(self) -> None:
        """Nothing is open between two requests."""

    def _find_experiment(self) -> str:
        found = self._client.get_experiment_by_name(self._experiment)
        if found is None:
            return self._client.create_experiment(self._experiment)
        if found.lifecycle_stage != "active":
            said = f"the experiment {self._experiment} was deleted"
            hint = "restore it in MLflow, or log to another one with --project"
            raise SetupError(Problem("", "--project", said, hint))
        return found.experiment_id

    def _runs_of(self, key: str) -> Iterator[Run]:
        token = None
        while True:
            chosen = f"tags.`{_KEY}` = '{key}'"
            page = self._client.search_runs([self._experiment_id], chosen, page_token=token)
            yield from page
            if not (token := page.token):
                return

    def _make(self, name: str, began_at: float, tags: Mapping[str, str]) -> Run:
        tagged = {_KEY: self._key, **tags}
        at = int(began_at * 1000)
        return self._client.create_run(self._experiment_id, at, tags=tagged, run_name=name)

    def _kept(self, run: Run) -> int | None:
        """The trial of a complete run; an incomplete run is deleted."""
        if run.info.status in ("RUNNING", "SCHEDULED"):
            self._client.delete_run(run.info.run_id)
            return None
        return int(run.data.tags[_TRIAL])

    def _log_settings(self, study: StudyRecord, before: Mapping[str, str]) -> None:
        """Log settings and space as parameters; MLflow changes none, so new values become tags."""
        space = {f"search.{name}": entry for name, entry in study.space.items()}
        settings = {name: it for name, it in study.settings.items() if name != "search"}
        now = {name: _text(value) for name, value in {**by_dotted_key(settings), **space}.items()}
        new = {name: value for name, value in now.items() if name not in before}
        changed = {name: now[name] for name in now if before.get(name, now[name]) != now[name]}
        self._log(self._parent, new, {f"changed.{name}": it for name, it in changed.items()})

    def _log(self, run: str, params: Mapping[str, Any], texts: Mapping[str, str]) -> None:
        pairs = [Param(name, _text(value)) for name, value in params.items()]
        tags = [RunTag(name, _text(value)) for name, value in texts.items()]
        for first in range(0, max(len(pairs), len(tags)), _PARAMS):
            some = slice(first, first + _PARAMS)
            self._client.log_batch(run, params=pairs[some], tags=tags[some])


def _text(value: Any) -> str:
    """A value as MLflow keeps it, cut if it is too long for a parameter or tag."""
    text = value_text(value)
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
