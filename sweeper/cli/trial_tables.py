"""Results of commands about trials: lists of them, and one of them in full."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table

from sweeper.cli.tables import Record, TextTable, pairs, rows
from sweeper.errors import counted, listed
from sweeper.results import formatting
from sweeper.results.ensemble import Again, EnsembleRecord, confirmation, verdicts
from sweeper.results.filter import heading
from sweeper.results.ranking import is_feasible, pareto_front, value_columns
from sweeper.rundir import RunDir
from sweeper.trial import Reason, TrialState

if TYPE_CHECKING:
    from sweeper.export.confirm import Lead
    from sweeper.export.reproduce import Reproduction

_CURVE_WIDTH = 40
_COLUMNS_SHOWN = 10
_TRACEBACK_LINES = 12
# what `show` says about a trial's training, if known
_TRAINING = ("epochs_done", "n_parameters", "train_s", "compile_share_s", "peak_memory_bytes")
_CLASS = (
    *("strategy", "lane_loop", "capacity"),
    *("padded_width", "padded_depth", "padded_parts", "run_widths"),
)
_PLACE = ("place", "device", "host")


def trials_table(
    records: Sequence[Record], metrics: Mapping[str, str], more: str = ""
) -> TextTable:
    """One line per trial; `more` says how to see columns that do not fit.

    `metrics` are the objectives by column, which are shown with the name of the column: conditions
    need it.
    """
    headings = [
        f"{name} ({metrics[name]})" if name in metrics else heading(name) for name in records[0]
    ]
    return rows("", headings, [_cells(row) for row in records], more)


def _cells(row: Record) -> list[object]:
    """The values of a row, of an error only the line that says why."""
    message = row.get("error_message")
    shown = row if message is None else {**row, "error_message": formatting.reason_line(message)}
    return [*shown.values()]


def trial(
    row: Record,
    metrics: Sequence[str],
    curves: Mapping[str, Sequence[float | None]],
    buckets: Sequence[Record],
) -> Iterator[RenderableType]:
    """Everything known about a trial that has ended, in blocks."""
    ended = row["state"] if row["reason"] is None else f"{row['state']}, {row['reason']}"
    facts: dict[str, object] = {f"trial {row['trial_number']}": ended}
    values = ("value", *(f"value_{index}" for index in range(1, len(metrics))))
    facts |= {metric: row[name] for metric, name in zip(metrics, values, strict=True)}
    if row["best_epoch"] is not None:
        facts["best"] = f"{formatting.number(row['best_value'])} in epoch {row['best_epoch']}"
    known = ("value_std", "feasible", "diverged_epoch", *(n for n in row if n.startswith("test_")))
    facts |= {name: row[name] for name in known if row.get(name) is not None}
    yield pairs(facts)
    yield from ("", "parameters", pairs(json.loads(row["params_json"])))
    if row["reason"] == Reason.INFEASIBLE:
        why = "none, because the number of parameters violates a constraint"
        yield from ("", pairs({"n parameters": row["n_parameters"], "training": why}))
        return
    if row["epochs_done"] and not curves:
        yield from ("", "its curves are not published yet")
    yield from _curves(curves)
    yield from ("", pairs(_training(row)))
    if buckets:
        yield from ("", _buckets(buckets))
    if row["error_type"] is not None:
        yield ""
        yield from explain_failure(row["error_message"] or "")


def unfinished_trial(
    number: int,
    params: Record | None,
    curves: Mapping[str, Sequence[float | None]],
    buckets: Sequence[Record],
) -> Iterator[RenderableType]:
    """What is known about a trial that has not ended; its `params` if it is in training."""
    yield pairs({f"trial {number}": "has not ended" if params is None else "in training"})
    if params is not None:
        yield from ("", "parameters", pairs(params))
    yield from _curves(curves)
    if buckets:
        yield from ("", _buckets(buckets))


def explain_failure(message: str) -> Iterator[str]:
    """Why a trial failed, the lines of user code that failed, and the end of the traceback."""
    yield formatting.reason_line(message)
    is_bare = message.startswith("Traceback (")  # as older versions recorded it
    rest = message if is_bare else message.partition("\n")[2].strip("\n")
    own, begins, trace = rest.partition("Traceback (")
    for lines in (
        own.splitlines()[:_TRACEBACK_LINES],
        (begins + trace).splitlines()[-_TRACEBACK_LINES:],
    ):
        if lines:
            yield ""
            yield "\n".join(lines).rstrip()


def with_the_best(run_dir: RunDir, row: Record, *, averages: bool, has_ensemble: bool) -> Table:
    """Where the model of the best trial is, and the commands to continue with it.

    `averages` says that an ensemble of several trials can be selected, `has_ensemble` that one was
    selected from all of them.
    """
    number, root = row["trial_number"], quote(str(run_dir.root))
    kept = "not kept: train it again with refit"
    facts: dict[str, object] = {
        "model": kept if row["model_path"] is None else run_dir.root / row["model_path"],
        **({"ensemble": f"python -m sweeper ensemble {root}"} if averages else {}),
        "confirm": f"python -m sweeper confirm {root}",
        "reproduce": f"python -m sweeper reproduce {root} {number}",
        "refit": _refit_again(run_dir, number),
        "export": f"python -m sweeper export {root} {number} --to best/",
    }
    if row["model_path"] is None:
        facts.pop("export")
    if has_ensemble:
        facts["export ensemble"] = f"python -m sweeper export {root} ensemble --to ensemble/"
    return pairs(facts)


def finalists_table(
    objectives: Mapping[str, str], records: Sequence[Record], seeds: int, lead: Lead | None
) -> Iterator[RenderableType]:
    """Finalists by their value with fresh seeds, next to their value before.

    `objectives` are metrics with their directions.
    """
    known = ("rank", "trial", "mean", "std", "rank_before", "before", "feasible")
    others = [name for name in records[0] if name not in known]
    if not all(map(is_feasible, records)):
        others.insert(0, "feasible")
    metric, *further = (f"{name}, mean" for name in objectives)
    named = {name: name for name in others}
    named |= zip(value_columns(len(objectives))[1:], further, strict=True)
    of_others = [named[name] for name in others]
    headings = ("rank", "trial", metric, "deviation", *of_others, "rank before", "before")
    columns = ("rank", "trial", "mean", "std", *others, "rank_before", "before")
    title = f"finalists, each with {seeds} fresh seeds"
    yield rows(title, headings, [[row[name] for name in columns] for row in records])
    yield ""
    yield from _infeasible(records)
    completed = [row["trial"] for row in records if row["mean"] is not None]
    if len(completed) < 2:
        only = f"only trial {completed[0]}" if completed else "no finalist"
        yield f"{only} completed with these seeds, so nothing is compared"
        return
    if len(objectives) > 1:
        yield from _on_front(records, [*objectives.values()])
        return
    first, former = records[0], min(records, key=lambda row: row["rank_before"])
    # those of an ensemble may lack the study's best trial, if that completed later
    of = "" if former["rank_before"] == 1 else " of these"
    if first is former:
        is_clear = lead is not None and lead.is_clear
        verdict = f"confirmed as the best{of}" if is_clear else f"first{of} again"
        yield f"trial {first['trial']} is {verdict}"
    else:
        now = f"trial {first['trial']} is the best{of} now"
        yield f"{now}; trial {former['trial']}, the former best{of}, has rank {former['rank']}"
    if lead is not None:
        yield _lead(lead)


def ensemble(record: EnsembleRecord) -> Iterator[RenderableType]:
    """The members of an ensemble, and how it compares with the best trial."""
    trials, chosen_from = counted(len(record.weights), "trial"), counted(record.candidates, "model")
    title = f"ensemble of {trials}, selected from {chosen_from}, by weight"
    yield rows(title, ("trial", "weight"), [[*one] for one in record.weights.items()])
    yield ""
    metric = record.metric_name
    compared = {"validation": record.validation, "test": record.test}
    parts = [
        [name, gain.rows, gain.single, gain.ensemble, gain.standard_error, gain.trees]
        for name, gain in compared.items()
        if gain is not None
    ]
    names = ("best trial", "ensemble", "standard error", "gradient boosting")
    title = (
        f"{metric}; the standard error is that of the ensemble minus the best trial; each half of "
        "the validation rows scores models that were selected on the other half"
    )
    yield rows(title, ("rows", "count", *names), parts)
    yield ""
    if record.importance:
        title = f"how much {metric} worsens on test rows if a column is shuffled"
        falls = sorted(record.importance.items(), key=lambda one: -one[1])
        yield rows(title, ("column", "worse by"), [[*one] for one in falls[:_COLUMNS_SHOWN]])
        if more := len(falls[_COLUMNS_SHOWN:]):
            yield f"and {counted(more, 'other column')}"
        yield ""
    yield from verdicts(record)
    yield ""


def ensemble_again(found: Sequence[Again], record: EnsembleRecord) -> Iterator[RenderableType]:
    """How an ensemble and the best trial compare if they are trained with fresh seeds."""
    metric = record.metric_name
    known = {"validation": record.validation, "test": record.test}
    for part in (part for part, gain in known.items() if gain is not None):
        if part not in {one.part for one in found}:
            yield f"{metric} has no value on {part} rows with some of these seeds"
    if not found:
        return
    title = f"{metric} of the ensemble, mean over {len(found[0].single)} seeds"
    names = ("rows", "count", f"trial {record.single}", "ensemble", "difference", "standard error")
    parts = [
        [
            one.part,
            one.rows,
            fmean(one.single),
            fmean(one.ensemble),
            one.difference,
            one.standard_error,
        ]
        for one in found
    ]
    yield rows(title, names, parts)
    yield ""
    yield confirmation(found[-1], record)


def few_finalists(count: int, top: int, *, constrained: bool) -> str:
    """Why there are fewer finalists than the `top` that were wanted; empty if there are not.

    `constrained` says that the study has constraints.
    """
    if count >= top:
        return ""
    are = "trial is" if count == 1 else "trials are"
    met = " and feasible" if constrained else ""
    return f"only {count} {are} complete{met}; pruned and failed trials cannot be finalists"


def _refit_again(run_dir: RunDir, number: int) -> str:
    """The command that refits a trial, to a directory that the study does not use itself."""
    is_taken = Path("refit").resolve() == run_dir.refit.resolve()
    output = "../refit/" if is_taken else "refit/"
    return f"python -m sweeper refit {quote(str(run_dir.root))} {number} --to {output}"


def after_confirming(run_dir: RunDir, first: Record) -> Iterator[str]:
    """How to continue with the first finalist, if other commands would use another trial."""
    if first["rank_before"] != 1:
        number = first["trial"]
        again = _refit_again(run_dir, number)
        yield f"other commands still use the study's best; to continue with trial {number}: {again}"


def _on_front(records: Sequence[Record], directions: Sequence[str]) -> Iterator[str]:
    """Which finalists no other one dominates with their new means."""
    known = [
        {**row, "value": row["mean"], "trial_number": row["trial"], "state": TrialState.COMPLETE}
        for row in records
        if row["mean"] is not None
    ]
    front = [str(row["trial"]) for row in pareto_front(known, directions)]
    if front:
        trials = f"trials {listed(front)} are" if len(front) > 1 else f"only trial {front[0]} is"
        yield f"with these means, {trials} on the Pareto front"


def _infeasible(records: Sequence[Record]) -> Iterator[str]:
    """A message about the finalists that violate a constraint, if there are any."""
    completed = [row for row in records if row["mean"] is not None]
    numbers = [str(row["trial"]) for row in completed if not is_feasible(row)]
    if not numbers:
        return
    if len(numbers) == len(completed):
        yield "no finalist meets all constraints with these seeds"
    elif len(numbers) == 1:
        found = f"trial {numbers[0]} violates a constraint with these seeds"
        yield f"{found}, so it ranks behind the trials that meet all"
    else:
        found = f"trials {listed(numbers)} violate a constraint with these seeds"
        yield f"{found}, so they rank behind the trials that meet all"


def _lead(lead: Lead) -> str:
    """How far ahead the best finalist is, and whether that may be chance."""
    ahead, twice = formatting.number(lead.difference), formatting.number(2 * lead.standard_error)
    finding = f"its mean is {ahead} better than that of trial {lead.over}"
    chance = f"{twice}, twice the standard error of the difference"
    if lead.is_clear:
        return f"{finding}, more than {chance}"
    return f"{finding}, within {chance}: it may be chance; try more seeds (--seeds N --fresh)"


def reproduction(found: Reproduction) -> Iterator[RenderableType]:
    """Whether training a trial again gave what was recorded."""
    whole = f"trial {found.trial}: {found.values} values of {found.epochs} epochs"
    if not found.values:
        yield f"trial {found.trial}: nothing was recorded to compare with"
        return
    if found.first is None:
        yield f"{whole}, bit-equal"
        return
    first = found.first
    yield f"{whole}, {found.differing} differ"
    yield pairs(
        {
            "first difference": f"epoch {first.epoch}, {first.metric}",
            "of replicate, fold": f"{first.replicate}, {first.fold}",
            "recorded": repr(first.recorded),
            "again": repr(first.again),
            **{f"largest, {name}": value for name, value in found.largest.items()},
        }
    )
    for name, (before, here) in found.versions.items():
        yield f"{name} was {before} then and is {here} here"
    if not found.versions:
        yield (
            "the versions are the same; the machine, number of threads or device may differ, or "
            "files that your code reads may have changed"
        )


def refit_table(row: Record, again: Record, on: str) -> TextTable:
    """The metrics of a model before and after it was trained on more rows."""
    # trials with several members have spread columns, others do not
    names = [n for n in row if n.startswith("test_") and row[n] is not None and n in again]
    unseen = on != "all"
    records = [[name, row[name], again[name] if unseen else "seen in training"] for name in names]
    records.append(["epochs", row["epochs_done"], again["epochs_done"]])
    return rows(f"trial {row['trial_number']}", ("", "trained on train", f"on {on}"), records)


def _training(row: Record) -> dict[str, object]:
    seconds = {"train_s", "compile_share_s"}
    is_own = row["strategy"] != "none"  # of an imported trial, what is not known is 0 or empty
    facts: dict[str, object] = {}
    for name in _TRAINING:
        value = row[name]
        if value is not None and (is_own or value):
            shown = formatting.size(value) if name.endswith("_bytes") else value
            shown = formatting.seconds(value) if name in seconds else shown
            facts[name.removesuffix("_s").removesuffix("_bytes")] = shown
    if not is_own:
        return facts
    known = [(name, row[name]) for name in _CLASS if row.get(name) is not None]
    facts["class"] = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in known)
    facts["where"] = ", ".join(str(row[name]) for name in _PLACE if row[name] is not None)
    facts["rounds"] = formatting.span(row["first_round"], row["last_round"])
    facts["attempts"] = row["attempts"]
    return facts


def _curves(curves: Mapping[str, Sequence[float | None]]) -> Iterator[RenderableType]:
    """The curves that have values; a trial that diverged at once has none."""
    table = Table.grid(padding=(0, 2))
    for metric, values in curves.items():
        known = [value for value in values if value is not None]
        if known:
            ends = f"{formatting.number(known[0])} to {formatting.number(known[-1])}"
            table.add_row(metric, formatting.sparkline(values, _CURVE_WIDTH), ends)
    if table.row_count:
        yield from ("", "curves by epoch", table)


def _buckets(buckets: Sequence[Record]) -> TextTable:
    headings = ("round", "bucket", "epochs", "lanes", "place", "compile s", "train s", "outcome")
    others = ("lanes_live", "place", "compile_s", "train_s", "outcome")
    records = [
        (
            *(row["round"], row["bucket_id"]),
            formatting.span(row["epochs_from"], row["epochs_to"]),
            *(row[name] for name in others),
        )
        for row in buckets
    ]
    return rows("buckets", headings, records)
