"""Commands about running a study: run, stop, validate, plan."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from sweeper.cli import plan_tables, tables
from sweeper.cli.commands.arguments import (
    AsJson,
    Fresh,
    MaybeDirectory,
    Overrides,
    Quiet,
    StudyFile,
    TrustCode,
    loaded,
    run_asked,
)
from sweeper.cli.commands.printing import print_json, print_shown, status_record
from sweeper.cli.commands.training import trained
from sweeper.cli.console import announced
from sweeper.errors import Problem, StudyError, printable
from sweeper.results import formatting
from sweeper.results.baseline import describe, describe_doubt, describe_test, read_baseline
from sweeper.results.ensemble import read_ensemble, verdicts
from sweeper.results.ranking import Row
from sweeper.results.status import Status, epochs_saved, read_status
from sweeper.rundir import RunDir

BEST_SHOWN = 10


def run(
    study: StudyFile,
    overrides: Overrides = None,
    fresh: Fresh = False,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Use the lattice that `plan --json` wrote."),
    ] = None,
    continue_from: Annotated[
        Path | None,
        typer.Option(
            "--continue-from",
            metavar="DIR",
            help="Start all trials from a model that `export` wrote.",
        ),
    ] = None,
    trust_code: TrustCode = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    log_file: Annotated[
        Path | None,
        typer.Option("--log-file", metavar="FILE", help="Log file; default: DIR/logs/sweeper.log."),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option("--log-level", help="Lowest level to log."),
    ] = "info",
) -> None:
    """Run a study, or resume it.

    Press Ctrl-C once to stop after the current round with everything committed, twice to stop at
    once. SIGTERM and SIGHUP also stop after the current round, but wait for it no longer than
    execution.grace.
    """
    config = loaded(study, overrides)
    status, code = trained(
        config,
        fresh=fresh,
        quiet=quiet,
        plan_file=plan_file,
        continue_from=continue_from,
        trust_code=trust_code,
        log_file=log_file,
        log_level=log_level,
    )
    run_dir = RunDir(config.run_dir)
    if as_json:
        print_json(status_record(run_dir, status))
    elif not quiet:
        _print_results(run_dir, status)
    raise typer.Exit(code)


def stop(directory: MaybeDirectory = None) -> None:
    """Stop a running study at its next commit, like Ctrl-C, from any machine that sees its files.

    Resume it with the command that started it.
    """
    run_dir = run_asked(directory)
    standing = read_status(run_dir)
    if standing.state != "running":
        found = f"the study is not running: its state is {standing.state}"
        raise StudyError(Problem(str(run_dir.root), "", found, ""))
    run_dir.stop.touch()
    print_shown(f"asked pid {standing.pid} on {standing.host} to stop after the current round")


def validate(
    study: StudyFile,
    overrides: Overrides = None,
    no_python: Annotated[
        bool,
        typer.Option(
            "--no-python", help="Run no Python that the file names; list what stays unchecked."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a study file, its data and its run directory without training."""
    config = loaded(study, overrides)
    from sweeper import api

    with announced("checking the study: data, models, a training step"):
        checked = asdict(api.check(config, python=not no_python))
    if as_json:
        print_json(checked)
    else:
        print_shown(tables.checked({"study_file": study, **checked}))


def plan(
    study: StudyFile,
    overrides: Overrides = None,
    decay: Annotated[
        bool, typer.Option("--decay", help="Show only which arrays weight decay applies to.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show how the trials of a study would be placed and what they would cost, without training."""
    config = loaded(study, overrides)
    from sweeper import api

    with announced("planning the study: data, models, a training step"):
        preview = api.decay(config) if decay else api.plan(config).as_dict()
    if as_json:
        print_json(preview)
    else:
        print_shown(*(plan_tables.decay(preview) if decay else plan_tables.plan(preview)))


def _print_results(run_dir: RunDir, status: Status) -> None:
    """Print how trials ended, the best of them, and where the results are."""
    from sweeper.results.listing import listed

    if warning := formatting.none_feasible(status):
        print_shown(warning, "")
    print_shown(formatting.ended(status), "")
    trials = listed(run_dir)
    found = formatting.outcomes(status)
    shown = {"failed", "diverged"} | (set() if found.get("complete") else {"pruned", "infeasible"})
    if any(found.get(word) for word in shown):
        rows = trials.rows(["trial_number", "state", "reason", "error_message", "diverged_epoch"])
        print_shown(tables.endings([row for row in rows if formatting.outcome(row) in shown]), "")
    if best := trials.best(BEST_SHOWN):
        print_shown(tables.best_trials(status.metric, trials.of(best)), "")
        if tie := formatting.tie(status.metric, trials.tied()):
            print_shown(tie, "")
        if ends := tables.range_ends(trials):
            print_shown(ends, "")
        _print_baseline(run_dir, status, trials.row(best[0]))
        if chosen := read_ensemble(run_dir):
            print_shown(*verdicts(chosen), "")
    elif status.state == "finished":
        print_shown("no trial completed; `sweeper show` explains each", "")
    if len(trials):
        print_shown(tables.paths(run_dir))
    if spent := formatting.time_spent(status.spent_s):
        print_shown(f"time: {spent}")
    if saved := epochs_saved(status):
        print_shown(saved)
    if status.state == "interrupted":
        print_shown(f"stopped after round {status.round}; run the same command to resume")


def _print_baseline(run_dir: RunDir, status: Status, row: Row | None) -> None:
    """Print the best value next to those of simple models; `row` is that of the best trial."""
    baseline = read_baseline(run_dir)
    if status.best is None or row is None or not (simple := describe(baseline, status.metric)):
        return
    best = formatting.best_trial(status.metric, {**status.best, "params": {}})
    print_shown(printable(f"{best}; {simple}"))
    if tested := describe_test(baseline, status.metric, row):
        print_shown(printable(tested))
    compared = baseline, status.metric, status.direction, row
    if status.state == "finished" and (warning := describe_doubt(*compared)):
        print_shown(printable(warning))
    print_shown("")
