"""Results of commands as tables for people; `--json` prints the same facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from sweeper.errors import counted, printable
from sweeper.results import formatting
from sweeper.results.baseline import Baseline, compared
from sweeper.results.ranking import value_columns
from sweeper.results.status import Status, ended_by
from sweeper.rundir import RunDir

Record = Mapping[Any, Any]
_FRONT_SHOWN = 10
_ENDINGS_SHOWN = 3


def pairs(facts: Mapping[str, object], kept: str = "") -> Table:
    """One line per fact; characters in `kept` are not escaped."""
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(printable(name.replace("_", " ")), printable(formatting.number(value), kept))
    return table


def checked(facts: Mapping[str, Any]) -> Table:
    """The result of `validate`: a line per warning, hint and unchecked item."""
    names = ("warnings", "hints", "unchecked")
    lists = {name: "\n".join(map(printable, facts[name])) for name in names}
    told = {name: value for name, value in {**facts, **lists}.items() if value not in ("", None)}
    return pairs(told, kept="\n")


def rows(title: str, headings: Sequence[str], records: Sequence[Sequence[object]]) -> Table:
    """A titled table of `records`, with numbers aligned to the right."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading, *values in zip(headings, *records, strict=True):
        is_text = any(isinstance(value, str) for value in values)
        table.add_column(heading, justify="left" if is_text else "right")
    for record in records:
        table.add_row(*(printable(formatting.number(value)) for value in record))
    return table


def standing(run_dir: RunDir, status: Status) -> Table:
    """The status of a study, and if it runs, what its threads and workers are doing."""
    facts: dict[str, object] = {
        "study": f"{status.study} ({run_dir.root})",
        "state": f"{status.state}, round {status.round}",
        "trials": formatting.progress(status),
        "": formatting.states(status),
    }
    if told := ended_by(status):
        facts["ended early"] = told
    if status.front:
        facts["Pareto front"] = counted(len(status.front), "trial")
        for trial in status.front[:_FRONT_SHOWN]:
            facts[f"trial {trial['trial_number']}"] = formatting.front_trial(status.metric, trial)
        if len(status.front) > _FRONT_SHOWN:
            facts["more"] = f"{len(status.front) - _FRONT_SHOWN} more, see status --json"
    elif status.best is not None:
        facts["best"] = formatting.best_trial(status.metric, status.best).removeprefix("best ")
    if status.feasible is not None:
        facts["feasible"] = (
            f"{status.feasible} of {counted(status.counts['COMPLETE'], 'complete trial')}"
        )
    facts["compiled"] = (
        f"{counted(status.n_compiled, 'program')} in {formatting.seconds(status.compile_s)}, "
        f"{status.n_cache_hits} from the cache"
        f"{formatting.format_prediction(status.predicted_compile_s)}"
    )
    facts["trained"] = (
        f"{formatting.seconds(status.train_s)} in all threads and workers"
        f"{formatting.format_prediction(status.predicted_train_s)}"
    )
    if spent := formatting.time_spent(status.spent_s):
        facts["since its start" if status.state == "running" else "last start took"] = spent
    if status.state == "running":
        for bucket in status.running:
            trials = formatting.trial_numbers(bucket["trials"])
            facts[f"bucket {bucket['bucket']}"] = f"{trials}, {bucket['place']}"
    return pairs(facts)


def best_trials(metric: str | Sequence[str], trials: Sequence[Record]) -> Table:
    """Rows of trials.parquet, with parameters under their names in the study."""
    metrics = formatting.names(metric)
    columns = [name for name in trials[0] if name.startswith("params_") and name != "params_json"]
    headings = ("trial", *metrics, *(name.removeprefix("params_") for name in columns))
    shown = ("trial_number", *value_columns(len(metrics)), *columns)
    if any(trial.get("feasible") is False for trial in trials):
        headings, shown = (*headings, "feasible"), (*shown, "feasible")
    title = "best trials" if len(metrics) == 1 else "best trials, the Pareto front first"
    return rows(title, headings, [[trial[name] for name in shown] for trial in trials])


def simple_models(
    baseline: Baseline | None, metric: str | Sequence[str], trial: Record | None = None
) -> Iterator[RenderableType]:
    """How good simple models are on the same rows, next to a `trial` if given."""
    if baseline is None:
        return
    if baseline.models:
        yield rows("simple models on the same rows", *compared(baseline, metric, trial))
    if baseline.skipped:
        yield printable(f"no {'linear' if baseline.models else 'simple'} model: {baseline.skipped}")
    yield ""


def endings(trials: Sequence[Record]) -> Table:
    """Why trials did not complete, from rows of trials.parquet; most frequent first."""
    alike: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    for trial in trials:
        outcome = formatting.outcome(trial)
        why = formatting.reason_line(trial["error_message"] or "")
        if outcome == formatting.DIVERGED:
            why = formatting.DIVERGED_WHY
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
