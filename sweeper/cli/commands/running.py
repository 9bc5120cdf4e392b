"""Commands about running a study: run, stop, enqueue, validate, plan."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sweeper.cli import plan_tables, tables
from sweeper.cli.commands.arguments import (
    AsJson,
    Fresh,
    LearnFrom,
    MaybeDirectory,
    Overrides,
    Quiet,
    StudyFile,
    TrustCode,
    find_run,
    load_config,
    refuse_without_effect,
)
from sweeper.cli.commands.printing import print_json, print_shown, status_record
from sweeper.cli.commands.training import refuse_none_complete, train_study
from sweeper.cli.console import announce
from sweeper.errors import Problem, SetupError, StudyError, not_written, printable
from sweeper.results import formatting
from sweeper.results.baseline import describe, describe_doubt, describe_test, read_baseline
from sweeper.results.ensemble import latest_verdicts, read_ensemble
from sweeper.results.missing_trials import hint_if_none_complete
from sweeper.results.ranking import Row
from sweeper.results.status import (
    Status,
    ended_by,
    epochs_saved,
    read_status,
    what_takes_requests,
)
from sweeper.rundir import RunDir
from sweeper.sweep.requests import EnqueueRequest, PendingRequest, StopRequest
from sweeper.sweep.send_request import new_key, read_values, send, wait_for_answer

if TYPE_CHECKING:
    from sweeper.config import StudyConfig

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
    learn_from: LearnFrom = None,
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
    config = load_config(study, overrides)
    status, code = train_study(
        config,
        fresh=fresh,
        quiet=quiet,
        plan_file=plan_file,
        continue_from=continue_from,
        trust_code=trust_code,
        learn_from=learn_from or (),
        log_file=log_file,
        log_level=log_level,
    )
    run_dir = RunDir(config.run_dir)
    if as_json:
        print_json(status_record(run_dir, status))
    elif not quiet:
        _print_results(run_dir, status)
    if quiet:
        refuse_none_complete(run_dir, status)
    raise typer.Exit(code)


Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0, help="The longest time to wait (60)."),
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for the study's answer.")]
_TIMEOUT_S = 60.0


def stop(
    directory: MaybeDirectory = None,
    trial: Annotated[
        int | None,
        typer.Option(
            "--trial", metavar="NUMBER", min=0, help="Stop this trial; the study continues."
        ),
    ] = None,
    no_wait: NoWait = False,
    timeout: Timeout = None,
) -> None:
    """Stop a running study, or one of its trials, at the next commit.

    Works from any machine that sees the run directory. A study stops as after Ctrl-C: resume it
    with the command that started it. A trial ends as PRUNED with the reason `stopped`, and the
    study continues; the command waits for its answer.
    """
    if trial is None:
        why = "without --trial, since the command does not wait"
        refuse_without_effect(why, no_wait=no_wait, timeout=timeout is not None)
    elif no_wait:
        refuse_without_effect("with --no-wait", timeout=timeout is not None)
    run_dir = find_run(directory)
    if trial is not None:
        _check_in_training(run_dir, trial)
        _ask(run_dir, StopRequest(new_key(), trial, waits=not no_wait), timeout)
        return
    status = read_status(run_dir)
    if not status.is_running:
        found = f"the study is not running: its state is {status.state}"
        raise StudyError(Problem(str(run_dir.root), "", found, ""))
    run_dir.stop.touch()
    print_shown(f"asked pid {status.pid} on {status.host} to stop after the current round")


def enqueue(
    directory: MaybeDirectory = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A searched setting and its value; repeatable."
        ),
    ] = None,
    no_wait: NoWait = False,
    timeout: Timeout = None,
) -> None:
    """Set values of a trial that a study will propose; the sampler draws the others.

    The trial counts towards study.n_trials. The command waits for the study's answer. If the
    study is not running, the next `run` takes the request.
    """
    if no_wait:
        refuse_without_effect("with --no-wait", timeout=timeout is not None)
    run_dir = find_run(directory)
    if (status := read_status(run_dir)).stopped_by is not None:
        raise StudyError(Problem(str(run_dir.root), "", f"the study was {ended_by(status)}", ""))
    from sweeper.config.overrides import read_overrides

    given = read_overrides(values or [])
    params, problems = read_values(_settings_of(run_dir), str(run_dir.root), given)
    if problems:
        raise StudyError(problems)
    _ask(run_dir, EnqueueRequest(new_key(), params, waits=not no_wait), timeout)


def _settings_of(run_dir: RunDir) -> StudyConfig:
    """The study that runs in a directory, from the metadata of its tables.

    Raises:
        StudyError: it has none yet.
    """
    from sweeper.config.load import study_of
    from sweeper.results.listing import read_trials

    if not run_dir.trials.exists() and read_status(run_dir).is_running:
        found, hint = "the study has only just begun", "ask again once its first round trains"
        raise StudyError(Problem(str(run_dir.root), "", found, hint))
    known = read_trials(run_dir).study
    return study_of(known["settings"], Path(known["study_file"]))


def _check_in_training(run_dir: RunDir, trial: int) -> None:
    """Refuse to stop a trial that cannot be in training.

    Raises:
        StudyError: it has ended or cannot exist, or the study is finished.
    """
    status = read_status(run_dir)
    place, key = str(run_dir.root), "--trial"
    if status.state == "finished":
        raise StudyError(Problem(place, key, "the study is finished", "ask while it runs"))
    if trial >= status.n_trials:
        from sweeper.study.limits import outside, trial_numbers

        first = trial_numbers(_settings_of(run_dir)).start
        numbers = range(first, first + status.n_trials)
        if trial not in numbers:
            found = f"trial {trial} does not exist"
            raise StudyError(Problem(place, key, found, outside(numbers)))
    from sweeper.results.listing import read_trials

    if run_dir.trials.exists() and (row := read_trials(run_dir).row(trial)) is not None:
        found = f"trial {trial} has ended: {row['state']}"
        raise StudyError(Problem(place, key, found, "name one that is in training"))


def _ask(run_dir: RunDir, request: PendingRequest, timeout_s: float | None) -> None:
    """Send a request to a run directory, wait for the answer if it waits, and print it.

    Raises:
        StudyError: the study refuses it.
        SetupError: the request cannot be written.
    """
    try:
        send(run_dir, request)
    except OSError as error:
        raise SetupError(not_written(run_dir.requests, error)) from error
    timeout_s = _TIMEOUT_S if timeout_s is None else timeout_s
    answer = wait_for_answer(run_dir, request, timeout_s) if request.waits else None
    if answer is not None and not answer.is_granted:
        raise StudyError(Problem(str(run_dir.root), "", answer.text, ""))
    if answer is not None:
        print_shown(answer.text)
    elif not (status := read_status(run_dir)).is_running:
        print_shown(what_takes_requests(status))
    else:
        print_shown("the request is left for the study, which takes it when a round has ended")


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
    config = load_config(study, overrides)
    from sweeper import api

    with announce("checking the study: data, models, a training step"):
        checked = asdict(api.check(config, python=not no_python))
    if as_json:
        print_json(checked)
    else:
        print_shown(tables.check_table({"study_file": study, **checked}))


def plan(
    study: StudyFile,
    overrides: Overrides = None,
    decay: Annotated[
        bool, typer.Option("--decay", help="Show only which arrays weight decay applies to.")
    ] = False,
    learn_from: LearnFrom = None,
    as_json: AsJson = False,
) -> None:
    """Show how the trials of a study would be placed and what they would cost, without training."""
    if decay:
        refuse_without_effect("with --decay", learn_from=bool(learn_from))
    config = load_config(study, overrides)
    from sweeper import api

    with announce("planning the study: data, models, a training step"):
        preview = api.decay(config) if decay else api.plan(config, learn_from or ()).as_dict()
    if as_json:
        print_json(preview)
    else:
        print_shown(*(plan_tables.decay(preview) if decay else plan_tables.plan(preview)))


def _print_results(run_dir: RunDir, status: Status) -> None:
    """Print how trials ended, the best of them, and where the results are."""
    from sweeper.results.listing import read_trials

    if warning := formatting.none_feasible(status):
        print_shown(warning, "")
    print_shown(formatting.ended(status), "")
    trials = read_trials(run_dir)
    found = formatting.outcomes(status)
    shown = {"failed", "diverged"} | (set() if found.get("complete") else {"pruned", "infeasible"})
    if any(found.get(word) for word in shown):
        rows = trials.rows(["trial_number", "state", "reason", "error_message", "diverged_epoch"])
        print_shown(tables.endings([row for row in rows if formatting.outcome(row) in shown]), "")
    if best := trials.best(BEST_SHOWN):
        print_shown(tables.best_trials(status.metric, trials.of(best), trials.front()), "")
        if tie := formatting.tie(status.metric, trials.tied()):
            print_shown(tie, "")
        if ends := tables.range_ends(trials):
            print_shown(ends, "")
        _print_baseline(run_dir, status, trials.row(best[0]))
        chosen, settings = read_ensemble(run_dir), trials.study["settings"]
        if said := latest_verdicts(chosen, run_dir, trials.n_complete, settings):
            print_shown(*said, "")
    elif status.state == "finished":
        print_shown(f"no trial completed; {hint_if_none_complete(run_dir)}", "")
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
    is_done = status.state == "finished"
    if is_done and (warning := describe_doubt(baseline, status.metric, status.direction, row)):
        print_shown(printable(warning))
    print_shown("")
