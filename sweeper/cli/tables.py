"""Results of commands as tables for people; `--json` prints the same facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Column, Table
from rich.text import Text

from sweeper.errors import counted, printable
from sweeper.results import formatting
from sweeper.results.baseline import Baseline, comparison_table
from sweeper.results.ranking import value_columns
from sweeper.results.status import Status, ended_by
from sweeper.rundir import RunDir

if TYPE_CHECKING:
    from sweeper.results.listing import TrialRows

Record = Mapping[Any, Any]
_FRONT_SHOWN = 10
_ENDINGS_SHOWN = 3
_GAP = 2  # columns of the terminal between those of a table
_LEAST_TEXT, _LONGEST_WORD = 20, 40  # widths below which text and words are not wrapped


def pairs(facts: Mapping[str, object], kept: str = "") -> Table:
    """One line per fact; characters in `kept` are not escaped."""
    table = Table.grid(Column(overflow="fold"), Column(overflow="fold"), padding=(0, 2))
    for name, value in facts.items():
        table.add_row(printable(name.replace("_", " ")), printable(formatting.number(value), kept))
    return table


def check_table(facts: Mapping[str, Any]) -> Table:
    """The result of `validate`: a line per warning, hint and unchecked item."""
    names = ("warnings", "hints", "unchecked")
    lists = {name: "\n".join(map(printable, facts[name])) for name in names}
    entries = {name: value for name, value in {**facts, **lists}.items() if value not in ("", None)}
    return pairs(entries, kept="\n")


def rows(
    title: str, headings: Sequence[str], records: Sequence[Sequence[object]], more: str = ""
) -> TextTable:
    """A titled table of `records`, with numbers aligned to the right."""
    columns: list[TextColumn] = []
    for heading, *values in zip(headings, *records, strict=True):
        is_text = any(isinstance(value, str) for value in values)
        cells = tuple(printable(formatting.number(value)) for value in values)
        columns.append(TextColumn(heading, cells, is_text))
    return TextTable(title, columns, more)


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of a table."""

    heading: str
    cells: Sequence[str]
    is_text: bool

    @property
    def width(self) -> int:
        """The width at which nothing is wrapped."""
        return max(map(cell_len, (self.heading, *self.cells)))

    @property
    def least(self) -> int:
        """The smallest readable width: numbers are never wrapped, text between words."""
        whole = max(map(cell_len, self.cells), default=0)
        longest = max(map(cell_len, " ".join(self.cells).split()), default=0)
        if self.is_text:
            whole = max(min(whole, _LEAST_TEXT), min(longest, _LONGEST_WORD))
        return max(whole, *map(cell_len, self.heading.split()), 1)


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table that is readable at any width.

    If its columns do not fit, text is wrapped, then the other columns follow below; with `more`,
    which says how to see them, they are only named.
    """

    title: str
    columns: Sequence[TextColumn]
    more: str

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        if self.title:
            yield Text(self.title, style="table.title")
        block, *others = self._blocks(options.max_width)
        yield _table(block, options.max_width)
        if self.more and others:
            left = [column.heading for other in others for column in other[1:]]
            yield f"{counted(len(left), 'more column')}: {', '.join(left)}; {self.more}"
            return
        for other in others:
            yield ""
            yield _table(other, options.max_width)

    def _blocks(self, width: int) -> list[list[TextColumn]]:
        """The columns in blocks that fit into `width`, each beginning with the first column."""
        first, *others = self.columns
        blocks = [[first]]
        for column in others:
            wanted = [one.least for one in (*blocks[-1], column)]
            if len(wanted) > 2 and sum(wanted) + _GAP * (len(wanted) - 1) > width:
                blocks.append([first])
            blocks[-1].append(column)
        return blocks


def _table(columns: Sequence[TextColumn], width: int) -> Table:
    """A table of these columns, of which the widest are wrapped if necessary."""
    table = Table(box=None, pad_edge=False)
    widths, least = [one.width for one in columns], [one.least for one in columns]
    while sum(widths) + _GAP * (len(widths) - 1) > width and widths != least:
        spare = [wide - narrow for wide, narrow in zip(widths, least, strict=True)]
        widths[spare.index(max(spare))] -= 1
    for column, wide in zip(columns, widths, strict=True):
        justify = "left" if column.is_text else "right"
        table.add_column(column.heading, justify=justify, width=wide, overflow="fold")
    for record in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*record)
    return table


def status_table(run_dir: RunDir, status: Status) -> Table:
    """The status of a study, and if it runs, what its threads and workers are doing."""
    facts: dict[str, str] = {
        "study": f"{status.study} ({run_dir.root})",
        "state": _state(run_dir, status),
        "trials": formatting.progress(status),
        "": formatting.states(status),
    }
    return pairs({**facts, **dict(_progress(status)), **dict(_best(status)), **dict(_work(status))})


def _progress(status: Status) -> Iterator[tuple[str, str]]:
    """What is being trained, what the sampler has learnt from, and why the study ended early."""
    if compiling := formatting.compiling_now(status):
        yield "compiling", compiling
    if status.is_running and status.training:
        yield "training", status.training
    if learned := formatting.learned(status):
        yield "learnt from", learned
    if reason := ended_by(status):
        yield "ended early", reason


def _best(status: Status) -> Iterator[tuple[str, str]]:
    """The best trial or the Pareto front, and how many trials meet the constraints."""
    if status.front:
        yield "Pareto front", counted(len(status.front), "trial")
        for trial in status.front[:_FRONT_SHOWN]:
            yield f"trial {trial['trial_number']}", formatting.front_trial(status.metric, trial)
        if len(status.front) > _FRONT_SHOWN:
            yield "more", f"{len(status.front) - _FRONT_SHOWN} more, see status --json"
    elif status.best is not None:
        yield "best", formatting.best_trial(status.metric, status.best).removeprefix("best ")
    if warning := formatting.none_feasible(status):
        yield "constraints", warning
    if status.feasible is not None:
        complete = counted(status.counts["COMPLETE"], "complete trial")
        yield "feasible", f"{status.feasible} of {complete}"


def _work(status: Status) -> Iterator[tuple[str, str]]:
    """The time that the study took, next to what was predicted, and its running buckets."""
    if status.is_imported:
        yield "trained", formatting.seconds(status.train_s)
        return
    if status.train_s or not status.is_running:  # both are those of committed rounds
        yield (
            "compiled",
            f"{counted(status.n_compiled, 'program')} in {formatting.seconds(status.compile_s)}, "
            f"{status.n_cache_hits} from the cache"
            f"{formatting.format_prediction(status.predicted_compile_s)}",
        )
        yield (
            "trained",
            f"{formatting.seconds(status.train_s)} in all threads and workers"
            f"{formatting.format_prediction(status.predicted_train_s)}",
        )
    if spent := formatting.time_spent(status.spent_s):
        yield "since its start" if status.is_running else "last start took", spent
    if status.is_running:
        for bucket in status.running:
            trials = formatting.trial_numbers(bucket["trials"])
            yield f"bucket {bucket['bucket']}", f"{trials}, {bucket['place'] or 'waiting'}"


def _state(run_dir: RunDir, status: Status) -> str:
    if not status.is_imported:
        return f"{status.state}, round {status.round}"
    from sweeper.results.imported import imported_from  # Arrow is slow to import

    source = imported_from(run_dir)
    return f"imported from {source}" if source else "imported"


def best_trials(
    metric: str | Sequence[str], trials: Sequence[Record], front: Collection[int] = ()
) -> TextTable:
    """Rows of trials.parquet, with parameters under their names in the study.

    With several objectives, `front` has the numbers of all trials on the Pareto front, and a column
    shows which rows are on it, unless all are.
    """
    metrics = formatting.names(metric)
    columns = [name for name in trials[0] if name.startswith("params_") and name != "params_json"]
    headings = ("trial", *metrics, *(name.removeprefix("params_") for name in columns))
    shown = ("trial_number", *value_columns(len(metrics)), *columns)
    if any(trial.get("feasible") is False for trial in trials):
        headings, shown = (*headings, "feasible"), (*shown, "feasible")
    lines = [[trial[name] for name in shown] for trial in trials]
    if len(metrics) == 1:
        return rows("best trials", headings, lines)
    on_front = [trial["trial_number"] in front for trial in trials]
    if all(on_front):
        whole = len(trials) == len(front)
        part = "" if whole else f", {len(trials)} of {counted(len(front), 'trial')}"
        return rows(f"Pareto front{part}", headings, lines)
    marked = [[*line, is_on_it] for line, is_on_it in zip(lines, on_front, strict=True)]
    return rows("best trials, the Pareto front first", (*headings, "on the front"), marked)


def simple_models(
    baseline: Baseline | None, metric: str | Sequence[str], trial: Record | None = None
) -> Iterator[RenderableType]:
    """How good simple models are on the same rows, next to a `trial` if given."""
    if baseline is None:
        return
    if baseline.models:
        yield rows("simple models on the same rows", *comparison_table(baseline, metric, trial))
    if baseline.skipped:
        yield printable(f"no {'linear' if baseline.models else 'simple'} model: {baseline.skipped}")


def range_ends(trials: TrialRows) -> str:
    """Which parameters have most of the best trials at an end of their range; empty if none."""
    from sweeper.dashboard.trials import PublishedTrials
    from sweeper.dashboard.views.slices import bound_hints

    published = PublishedTrials(trials.table, trials.study)
    return "\n".join(map(printable, bound_hints(published, published.parameters)))


def endings(trials: Sequence[Record]) -> TextTable:
    """Why trials did not complete, from rows of trials.parquet; most frequent first."""
    alike: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    for trial in trials:
        outcome = formatting.outcome(trial)
        why = formatting.reason_line(trial["error_message"] or "")
        if outcome == formatting.DIVERGED:
            why = formatting.why_diverged(trial.get("diverged_epoch"))
        if outcome == formatting.INFEASIBLE:
            why = "not trained: the number of parameters violates a constraint"
        alike[outcome, why or trial["reason"] or ""].append(trial)
    most = sorted(alike.items(), key=lambda item: -len(item[1]))[:_ENDINGS_SHOWN]
    records = [
        (outcome, formatting.trial_numbers([trial["trial_number"] for trial in found]), why)
        for (outcome, why), found in most
    ]
    title = "not completed" + ("" if len(most) == len(alike) else ", the most frequent")
    return rows(title, ("outcome", "trials", "why"), records)


def paths(run_dir: RunDir) -> Table:
    """Where the results are."""
    return pairs(
        {
            "trials": run_dir.trials,
            "metrics": run_dir.metrics,
            "buckets": run_dir.buckets,
            "models": run_dir.models,
        }
    )
