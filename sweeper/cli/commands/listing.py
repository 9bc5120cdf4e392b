"""Commands that list trials: trials, show, best."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeper.cli import tables, trial_tables
from sweeper.cli.commands.arguments import (
    AsJson,
    MaybeDirectory,
    MaybeTrial,
    QuoteFormulas,
    column_names,
    find_tables,
    find_trial,
    refuse_without_effect,
)
from sweeper.cli.commands.printing import baseline_record, print_json, print_shown
from sweeper.cli.console import answers
from sweeper.errors import Problem, StudyError, counted, printable
from sweeper.results import formatting
from sweeper.results.baseline import describe_doubt, read_baseline
from sweeper.results.ensemble import latest_verdicts, outdated, read_ensemble
from sweeper.results.judged import with_metrics_of_value
from sweeper.results.missing_trials import hint_of_finished, none_complete
from sweeper.results.ranking import Row, is_feasible, repeats
from sweeper.results.status import in_training
from sweeper.results.text_files import csv_text
from sweeper.rundir import RunDir

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sweeper.results.listing import TrialRows

_SHOWN = 100
_MORE_COLUMNS = "show them with --columns A,B,..., --csv, or a wider terminal"


def trials(
    directory: MaybeDirectory = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="CONDITION", help="For example 'value > 0.97 and ...'."),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort",
            metavar="COLUMN",
            help="Objectives and best_value best first, others ascending; -COLUMN reverses.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B,...", help="The columns to show, in this order."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--head", metavar="N", min=0, help="Show only the first N.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with all columns.")] = False,
    quote_formulas: QuoteFormulas = False,
    as_json: AsJson = False,
) -> None:
    """List the finished trials, even while the study runs.

    A condition compares columns and constants with ==, !=, <, <=, >, >=, in (...), is None and is
    not None, combined with and, or, not and parentheses, as in Python. Parameters have the names in
    the heading of the list: depth is short for params_depth.
    """
    if as_csv:
        refuse_without_effect("with --csv", json=as_json)
    else:
        refuse_without_effect("without --csv", quote_formulas=quote_formulas)
    from sweeper.results.listing import read_trials

    every = read_trials(find_tables(directory))
    found = every if where is None else every.where(where)
    found = found if sort is None else found.sorted_by(sort)
    names = column_names(columns)
    wanted = None if names is None else found.named(names)
    if as_csv or as_json:
        rows, names = found.rows(wanted, count), wanted or found.names
        if as_csv:
            cells = ([row[name] for name in names] for row in rows)
            text = csv_text(names, cells, quote_formulas=quote_formulas)
            print(text, end="", file=answers())
        else:
            print(json.dumps(rows, indent=1, default=str), file=answers())
        return
    shown = found.rows(wanted or found.informative, _SHOWN if count is None else count)
    if shown:
        metrics = dict(zip(every.values, every.metrics, strict=True))
        print_shown(trial_tables.trials_table(shown, metrics, "" if wanted else _MORE_COLUMNS))
    left = len(found) - len(shown)
    if count is None and left:
        print_shown(f"{left} more; show all with --head {len(found)}, --csv or --json")
    elif not shown:
        none = "no trials match" if len(every) else "no trial has ended"
        print_shown(f"0 of {counted(len(found), 'trial')} shown" if len(found) else none)


def show(
    directory: MaybeDirectory = None, trial: MaybeTrial = None, as_json: AsJson = False
) -> None:
    """Show one trial: its parameters, how and where it was trained, and any error.

    For a trial in training, show its parameters and its curves so far.
    """
    run_dir, number = find_trial(directory, trial)
    from sweeper.results.listing import buckets_of, curves, read_trials

    known = read_trials(run_dir)
    number = _best(run_dir, known.best(1)) if number is None else number
    row, drawn, buckets = known.row(number), curves(run_dir, number), buckets_of(run_dir, number)
    params = None if row is not None else in_training(run_dir, number)
    if row is None and params is None and not drawn:
        hint = hint_of_finished([row["trial_number"] for row in known.rows(["trial_number"])])
        raise StudyError(Problem(str(run_dir.root), "", f"no trial {number} has ended", hint))
    if as_json:
        known_of_it = row or {"trial_number": number, "state": "RUNNING", "params": params}
        print_json({**known_of_it, "curves": drawn, "buckets": buckets})
    elif row is None:
        print_shown(*trial_tables.unfinished_trial(number, params, drawn, buckets))
    else:
        print_shown(*trial_tables.trial(row, known.metrics, drawn, buckets))


def best(
    directory: MaybeDirectory = None,
    count: Annotated[
        int,
        typer.Option(
            "--top", metavar="N", min=1, help="How many; a Pareto front is always complete."
        ),
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Show the best trial or the Pareto front, and the commands to continue with it."""
    run_dir = find_tables(directory)
    from sweeper.results.listing import read_trials

    known = read_trials(run_dir)
    numbers = known.best(max(count, len(known.front())))
    rows = known.of([_best(run_dir, numbers), *numbers[1:]])
    if as_json:
        simple = baseline_record(run_dir)
        print_json({"run_dir": str(run_dir.root), "best": rows, "baseline": simple})
        return
    blocks = [block for block in _best_in_blocks(run_dir, known, rows) if block]
    for block, follows in zip(blocks, [*blocks[1:], None], strict=True):
        print_shown(*block, *([""] if follows else []))


def _best_in_blocks(
    run_dir: RunDir, known: TrialRows, rows: Sequence[Row]
) -> Iterator[Sequence[RenderableType]]:
    """Blocks of text about the best trials, and how to continue; some may be empty."""
    settings = known.study["settings"]
    baseline, judged = read_baseline(run_dir), with_metrics_of_value(run_dir, rows[0], settings)
    doubt = describe_doubt(baseline, known.metrics, known.directions, rows[0])
    chosen = read_ensemble(run_dir)
    yield _one(formatting.violates(rows[0]))
    yield [tables.best_trials(known.metrics, rows, known.front())]
    yield _one(formatting.tie(known.metrics, known.tied()))
    yield [*tables.simple_models(baseline, known.metrics, judged)]
    yield _one(printable(doubt))
    yield _one(tables.range_ends(known))
    yield _one(repeats(known.rows(["state", "params_json"])))
    yield latest_verdicts(chosen, run_dir, known.n_complete, settings)
    if "train" in settings:  # otherwise it was imported, without models
        # two files each; the models of all folds of a trial are averaged as one
        n_kept = len(run_dir.own_models()) // 2 // (settings["study"].get("folds") or 1)
        averages = n_kept > 1 and is_feasible(rows[0]) and can_average(settings, known.metrics)
        is_latest = chosen is not None and not outdated(chosen, run_dir, known.n_complete, settings)
        ways = {"averages": averages, "has_ensemble": is_latest}
        yield [trial_tables.with_the_best(run_dir, rows[0], **ways)]


def can_average(settings: Mapping[str, Any], metrics: Sequence[str]) -> bool:
    """Whether the predictions of trials with these settings and objectives can be averaged.

    These are the rules of `not_averaged` in `sweeper.config`, which takes long to import. Whether
    there are enough validation rows is not known without the data.
    """
    train = settings["train"]
    if train["program"] != "supervised" or len(metrics) != 1 or ":" in train["loss"]:
        return False
    if settings.get("trial") or settings["data"]["split"].get("train_on", "train") != "train":
        return False
    if metrics[0] == "val_loss":
        return "train.huber_delta" not in settings["search"]
    return metrics[0] in {f"val_{name}" for name in train["metrics"]}


def _one(text: str | None) -> Sequence[str]:
    return [text] if text else []


def _best(run_dir: RunDir, numbers: list[int]) -> int:
    if not numbers:
        raise none_complete(run_dir, "no trial is complete, so none is the best")
    return numbers[0]
