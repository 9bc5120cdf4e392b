"""What the page receives: views of a study and its tables, of both only what has changed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from sweeper.dashboard.blocks import Block, note, table
from sweeper.dashboard.buckets import Buckets
from sweeper.dashboard.files import page_html
from sweeper.dashboard.html import view_html
from sweeper.dashboard.packing import Packed, as_json
from sweeper.dashboard.study import PublishedFile, PublishedStudy
from sweeper.dashboard.trials import PublishedTrials
from sweeper.dashboard.views.comparison import comparison_view, unique_names
from sweeper.dashboard.views.execution import execution_view
from sweeper.dashboard.views.failures import failures_view
from sweeper.dashboard.views.history import history_view
from sweeper.dashboard.views.importance import by_importance, importance_view
from sweeper.dashboard.views.learning import curve_record, kept_note, learning_view
from sweeper.dashboard.views.parallel import parallel_view
from sweeper.dashboard.views.pareto import pareto_view
from sweeper.dashboard.views.slices import slices_view
from sweeper.dashboard.views.status import status_view
from sweeper.errors import SetupError
from sweeper.results import formatting

_SORT = {"minimize": "asc", "maximize": "desc"}
NOTHING_YET = "No trial has ended yet."
_COUNTING_S = 10.0  # how often a view that shows the remaining time is rebuilt


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the page, rebuilt whenever one of its `sources` has changed.

    One that `shows_time` is also rebuilt as time passes, while the study runs.
    """

    name: str
    title: str
    sources: tuple[PublishedFile, ...]
    blocks: Callable[[PublishedStudy], list[Block]]
    shows_time: bool = False

    def version(self, study: PublishedStudy) -> tuple[int, ...]:
        """Numbers that change whenever the section has to be rebuilt."""
        is_counting = self.shows_time and study.status.is_running
        passed = int(time.time() // _COUNTING_S) if is_counting else 0
        return (*study.version(self.sources), passed)


@dataclass(frozen=True, slots=True)
class PageState:
    """What a page already has: the last round of its rows, spans by number, views by digest."""

    trials_through: int = -1
    buckets_through: int = -1
    spans_through: int = -1
    views: Collection[str] = ()


def _of_trials(
    make: Callable[[PublishedTrials], list[Block]],
) -> Callable[[PublishedStudy], list[Block]]:
    def blocks(study: PublishedStudy) -> list[Block]:
        trials = study.trials
        return [note(NOTHING_YET)] if trials is None or not len(trials) else make(trials)

    return blocks


def _table(trials: PublishedTrials) -> list[Block]:
    columns, order = [asdict(column) for column in trials.columns], _SORT[trials.directions[0]]
    return [table(columns, order, trials.began_at)]


def _learning(study: PublishedStudy) -> list[Block]:
    return learning_view(study.curves, formatting.names(study.status.metric)[0])


def _importance(study: PublishedStudy) -> list[Block]:
    return importance_view(study.importance_rows(), study.status.counts.get("COMPLETE", 0))


def _execution(study: PublishedStudy) -> list[Block]:
    return [note(NOTHING_YET)] if study.buckets is None else execution_view(study.buckets)


def _by_importance(
    study: PublishedStudy, make: Callable[[PublishedTrials, Sequence[str]], list[Block]]
) -> list[Block]:
    rows = study.importance_rows()
    return _of_trials(lambda it: make(it, by_importance(list(it.parameters), rows)))(study)


VIEWS = (
    Section("status", "Status", ("status", "trials"), status_view, shows_time=True),
    Section("trials", "Trials", ("trials",), _of_trials(_table)),
    Section("history", "History", ("trials",), _of_trials(history_view)),
    Section("curves", "Learning curves", ("curves", "trials"), _learning),
    Section("importance", "Importance of parameters", ("status", "importance"), _importance),
    Section(
        "parallel",
        "Parallel coordinates",
        ("trials", "importance"),
        lambda study: _by_importance(study, parallel_view),
    ),
    Section(
        "slices",
        "Slices",
        ("trials", "importance"),
        lambda study: _by_importance(study, slices_view),
    ),
    Section("execution", "Execution", ("buckets",), _execution),
    Section("failures", "Failures and early ends", ("trials",), _of_trials(failures_view)),
    Section("pareto", "Pareto front", ("trials",), _of_trials(pareto_view)),
)
COMPARISON = ("comparison", "Comparison of studies")


@dataclass(slots=True)
class Page:
    """The page of some studies; blocks are built once for each state of their sources.

    `left_out` says why other studies are not shown.
    """

    studies: Sequence[PublishedStudy]
    is_report: bool = False
    left_out: Sequence[str] = ()
    _made: dict[tuple[int, str], tuple[object, str, dict[str, Any]]] = field(
        default_factory=dict[tuple[int, str], tuple[object, str, dict[str, Any]]]
    )

    def html(self) -> str:
        """The page before it has received any data."""
        views = [*((view.name, view.title) for view in VIEWS), COMPARISON]
        return page_html(unique_names(self.studies), views)

    def payload(self, index: int, known: PageState = PageState()) -> dict[str, Any]:
        """What a page that shows study `index` needs in addition to what it has.

        Raises:
            SetupError: this study cannot be read; for other studies, the comparison says so.
        """
        study = self.studies[index]
        study.refresh()
        for other in self.studies:
            if other is not study:
                with suppress(SetupError):
                    other.refresh()
        best = study.status.best
        return {
            "study": index,
            "name": study.status.study,
            "state": study.status.state,
            "first_run": study.first_run,
            "said": _spoken(study),
            # the best trial, whose curves are shown first
            "select": None if best is None else int(best["trial_number"]),
            "tables": {
                "trials": _rows_since(study.trials, "last_round", known.trials_through),
                "buckets": _rows_since(study.buckets, "round", known.buckets_through),
                "spans": _spans_since(study.buckets, known.spans_through),
            },
            "views": [
                {"name": name, "digest": digest} | ({} if digest in known.views else content)
                for name, digest, content in self._views(index)
            ],
        }

    def curves(self, index: int, number: int) -> list[list[object]]:
        """The curves of a trial of study `index`."""
        return curve_record(self.studies[index].curves, number)

    def _views(self, index: int) -> list[tuple[str, str, dict[str, Any]]]:
        study = self.studies[index]
        found = [
            (view.name, *self._view(index, view.name, view.version(study), view)) for view in VIEWS
        ]
        versions = tuple(study.version(("status", "trials")) for study in self.studies)
        return [*found, (COMPARISON[0], *self._view(-1, COMPARISON[0], versions, None))]

    def _view(
        self, index: int, name: str, version: object, view: Section | None
    ) -> tuple[str, dict[str, Any]]:
        before, digest, content = self._made.get((index, name), (None, "", {}))
        if before != version:
            if view is None:
                blocks = comparison_view(self.studies, self.left_out)
            else:
                blocks = view.blocks(self.studies[index])
            if name == "curves" and self.is_report:
                study = self.studies[index]
                blocks = [*kept_note(study.curves, len(study.trials or ())), *blocks]
            html, charts = view_html(name, blocks)
            content = {"html": html, "charts": charts}
            digest = hashlib.blake2b(as_json(content).encode(), digest_size=6).hexdigest()
            self._made[index, name] = (version, digest, content)
        return digest, content


def _rows_since(
    table: PublishedTrials | Buckets | None, column: str, through: int
) -> dict[str, Any]:
    """The rows of rounds after `through`, and the total number of rows."""
    if table is None or not len(table):
        return _rows(0, -1, np.empty(0, int), dict)
    rounds = table.numbers(column)
    return _rows(len(table), int(rounds.max()), np.flatnonzero(rounds > through), table.packed)


def _spans_since(buckets: Buckets | None, through: int) -> dict[str, Any]:
    """The spans to draw after the first `through` + 1; spans are only ever appended."""
    if buckets is None or buckets.recorded is None:
        return _rows(0, -1, np.empty(0, int), dict)
    drawn = buckets.recorded.drawn
    return _rows(len(drawn), len(drawn) - 1, drawn[through + 1 :], buckets.packed_spans)


def _rows(
    n: int, through: int, new: np.ndarray, packed: Callable[[np.ndarray], dict[str, Packed]]
) -> dict[str, Any]:
    columns = packed(new) if len(new) else {}
    return {"n": n, "through": through, "new": len(new), "columns": columns}


def _spoken(study: PublishedStudy) -> str:
    """A sentence for screen readers."""
    status = study.status
    ended = formatting.finished_trials(status.counts)
    return f"{status.study} {status.state}: {ended} of {status.n_trials} trials"
