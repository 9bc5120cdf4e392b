"""One study as read from its run directory, again whenever files have changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from sweeper.dashboard.buckets import Buckets, Spans
from sweeper.dashboard.curves import Curves, stamp
from sweeper.dashboard.trials import PublishedTrials
from sweeper.errors import Problem, SetupError
from sweeper.results.baseline import Baseline, read_baseline
from sweeper.results.ensemble import EnsembleRecord, read_ensemble
from sweeper.results.light import diverged_epochs, read_light, study_metadata
from sweeper.results.status import Status, read_status
from sweeper.results.table_file import refuse_without_study
from sweeper.rundir import RunDir, refuse_links
from sweeper.sweep.unpublished import describe_unpublished

PublishedFile = Literal["status", "trials", "buckets", "importance", "curves"]

_IMPORTANCE = ("metric", "parameter", "importance", "n_trials", "fanova", "rank_correlation")
_IMPORTANCE += ("n_trials_with",)
_UNREAD = (-1, -1, -1)  # not the stamp of any file


@dataclass(slots=True)
class PublishedStudy:
    """What is published of a study, and what is not; `trials` is None if nothing is.

    `problem` says why the study could not be read the last time; then all other fields are older.
    """

    run_dir: RunDir
    status: Status = field(init=False)
    trials: PublishedTrials | None = None
    buckets: Buckets | None = None
    importance: pa.Table | None = None
    baseline: Baseline | None = None
    ensemble: EnsembleRecord | None = None
    unpublished: str | None = None
    problem: str | None = None
    curves: Curves = field(default_factory=Curves)
    _versions: Counter[PublishedFile] = field(default_factory=Counter[PublishedFile])
    _stamps: dict[Path, tuple[int, int, int]] = field(
        default_factory=dict[Path, tuple[int, int, int]]
    )

    def __post_init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        """Read what has changed.

        Raises:
            SetupError: the study has no status, a file of it is a link, or one cannot be read.
        """
        try:
            self._read()
        except (SetupError, OSError) as error:
            self._set_problem(str(error))
            self._stamps = dict.fromkeys(self._stamps, _UNREAD)  # some may not have been read
            if isinstance(error, SetupError):
                raise
            hint = "restore the run directory, or start without it"
            found = f"cannot be read: {error.strerror or error}"
            place = str(error.filename or self.run_dir.root)
            raise SetupError(Problem(place, "", found, hint)) from error
        self._set_problem(None)

    def _set_problem(self, problem: str | None) -> None:
        self._versions["status"] += problem != self.problem
        self.problem = problem

    def _read(self) -> None:
        refuse_links(self.run_dir)
        status = read_status(self.run_dir)
        if self._versions["status"] == 0 or status != self.status:
            self.status = status
            self._versions["status"] += 1
        # published last and read first, so that the buckets of each trial are found
        has_trials = self._has_changed(self.run_dir.trials, "trials")
        trials = read_light(self.run_dir.trials) if has_trials else None
        # spans are published before buckets, so spans read later are not of an earlier round
        has_buckets = self._has_changed(self.run_dir.buckets, "buckets")
        buckets = read_light(self.run_dir.buckets) if has_buckets else None
        if has_buckets | self._has_changed(self.run_dir.spans, "buckets"):
            self._read_buckets(buckets)
        if has_trials:
            self.trials = None if trials is None else self._with_buckets(trials)
        if self._has_changed(self.run_dir.baseline, "status"):
            self.baseline = read_baseline(self.run_dir)
        if self._has_changed(self.run_dir.ensemble, "status"):
            self.ensemble = read_ensemble(self.run_dir)
        if self._has_changed(self.run_dir.importance, "importance"):
            self.importance = read_light(self.run_dir.importance, _IMPORTANCE)
        diverged = diverged_epochs(trials) if has_trials else None
        self._versions["curves"] += self.curves.refresh(self.run_dir.metrics, diverged)
        behind = describe_unpublished(self.run_dir)
        self._versions["status"] += behind != self.unpublished
        self.unpublished = behind

    def _with_buckets(self, table: pa.Table) -> PublishedTrials:
        """The trials in `table`, with the names of their classes and the start of the study."""
        said, buckets = study_metadata(table), self.buckets
        refuse_without_study(self.run_dir.trials, said)
        if buckets is None:
            return PublishedTrials(table, said)
        return PublishedTrials(table, said, buckets.class_names, buckets.began_at)

    def _read_buckets(self, table: pa.Table | None) -> None:
        """Use the new buckets, or the old ones, with the spans of their time."""
        if table is None and self.buckets is not None and self.run_dir.buckets.exists():
            table = self.buckets.table
        spans = read_light(self.run_dir.spans)
        recorded = None if spans is None or not spans.num_rows else Spans(spans)
        self.buckets = None if table is None else Buckets(table, recorded)

    @property
    def first_run(self) -> str | None:
        """The first `run_id` in the tables, by which a study started from scratch is recognised.

        None if the tables name none.
        """
        if self.buckets is not None and self.buckets.recorded is not None:
            return self.buckets.recorded.first_run
        return None if self.trials is None else self.trials.first_run

    def importance_rows(self) -> list[dict[str, Any]]:
        """How much each parameter matters for each objective; empty if not yet known."""
        return [] if self.importance is None else self.importance.to_pylist()

    def best_row(self) -> dict[str, Any] | None:
        """The number, value and test metrics of the best trial; None if no trial is complete."""
        best = self.status.best
        if best is None:
            return None
        tested = {} if self.trials is None else self.trials.tested(best["trial_number"])
        return {"trial_number": best["trial_number"], "value": best["value"], **tested}

    def version(self, sources: Sequence[PublishedFile]) -> tuple[int, ...]:
        """Numbers that change whenever one of these sources changes."""
        return tuple(self._versions[source] for source in sources)

    def _has_changed(self, path: Path, source: PublishedFile) -> bool:
        try:
            now = stamp(path)
        except FileNotFoundError:
            changed = self._stamps.pop(path, None) is not None
        else:
            changed = self._stamps.get(path) != now
            self._stamps[path] = now
        self._versions[source] += changed
        return changed
