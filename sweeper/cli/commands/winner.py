"""Commands about the best trials: ensemble, confirm, reproduce, refit."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sweeper.cli import trial_tables
from sweeper.cli.commands.arguments import (
    AnswerAlone,
    AsJson,
    Fresh,
    MaybeDirectory,
    MaybeTrial,
    ModelDirectory,
    TrustCode,
    find_tables,
    find_trial,
)
from sweeper.cli.commands.printing import print_exported, print_json, print_shown
from sweeper.cli.commands.training import refuse_none_complete, train_study
from sweeper.cli.console import announce
from sweeper.errors import Problem, SetupError, StudyError, SweeperError, not_written
from sweeper.results.ensemble import Again, EnsembleRecord, outdated, read_ensemble
from sweeper.results.status import Status
from sweeper.rundir import RunDir

_FINALISTS = 10

if TYPE_CHECKING:
    from sweeper.config import StudyConfig
    from sweeper.programs.data_spec import DataSpec


def confirm(
    directory: MaybeDirectory = None,
    top: Annotated[
        int | None,
        typer.Option(
            "--top", metavar="N", min=1, help="How many of the best trials to train; default: 10."
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", metavar="N", min=2, help="How many seeds to train each of them with."
        ),
    ] = 8,
    of_ensemble: Annotated[
        bool,
        typer.Option(
            "--ensemble", help="Train the trials of the ensemble instead, and average them again."
        ),
    ] = False,
    fresh: Fresh = False,
    trust_code: TrustCode = False,
    quiet: AnswerAlone = False,
    as_json: AsJson = False,
) -> None:
    """Train the best trials again with fresh seeds, to see whether the winner was luck.

    This runs a study of its own in DIR/confirm, on the same split of the data.
    """
    run_dir = find_tables(directory)
    from sweeper.export.confirm import finalists, lead, rank_finalists, refuse_others
    from sweeper.export.ensemble import measure_again
    from sweeper.export.reproduce import refuse_another

    spec = refuse_another(run_dir, trust_code=trust_code)
    record = _ensemble_to_confirm(run_dir, top) if of_ensemble else None
    top = top or _FINALISTS
    found = finalists(run_dir, top, seeds, record)
    start, trust_start = _check_and_find_start(run_dir, found.config, spec, trust_code)
    if not fresh:
        refuse_others(found, start)
    status, code = _train(found.config, start, trust_start, fresh=fresh, quiet=quiet)
    if status.state != "finished":
        raise typer.Exit(code)
    study = found.config.study
    objectives = dict(zip(study.objectives, study.directions, strict=True))
    rows = rank_finalists(found)
    ahead = lead(rows, found.n_members) if len(objectives) == 1 else None
    again: tuple[Again, ...] = ()
    unmeasured: SweeperError | None = None
    if record is not None:
        numbers = [int(row["trial_number"]) for row in found.rows]
        try:
            again = measure_again(found.config, record, numbers, trust_code=trust_code)
        except SweeperError as error:  # what was trained is shown first
            unmeasured = error
    if as_json:
        margin = None if ahead is None else {**asdict(ahead), "is_clear": ahead.is_clear}
        answer = {"run_dir": str(found.config.run_dir), "finalists": rows, "lead": margin}
        averaged = {"ensemble": [asdict(one) for one in again]} if again else {}
        print_json({**answer, **averaged})
        raise unmeasured or typer.Exit(code)
    print_shown(*trial_tables.finalists_table(objectives, rows, seeds, ahead))
    if record is None:
        constrained = bool(study.constraints)
        if few := trial_tables.few_finalists(len(rows), top, constrained=constrained):
            print_shown(few)
    print_shown("")
    if record is not None:
        if unmeasured is None:
            print_shown(*trial_tables.ensemble_again(again, record), "")
        from sweeper.results.listing import read_trials

        known = read_trials(run_dir)
        if why := outdated(record, run_dir, known.n_complete, known.study["settings"]):
            print_shown(why, "")
    print_shown(f"the runs of the {seeds} seeds are in {found.config.run_dir}")
    if len(objectives) == 1:
        for way in trial_tables.after_confirming(run_dir, rows[0]):
            print_shown(way)
    raise unmeasured or typer.Exit(code)


def _ensemble_to_confirm(run_dir: RunDir, top: int | None) -> EnsembleRecord:
    """The ensemble of a study, to be trained again; `top` was asked for in the command.

    Raises:
        StudyError: there is none, fresh seeds cannot show what it gains, or `top` is given.
    """
    from sweeper.export.ensemble import not_measured, not_repeatable

    record = read_ensemble(run_dir)
    if record is None:
        raise StudyError(not_measured(run_dir))
    if why := not_repeatable(record):
        raise StudyError(Problem("", "--ensemble", why, "confirm without it"))
    if top is not None:
        found = "with --ensemble, the trials of the ensemble are trained"
        raise StudyError(Problem("", "--top", found, "remove one of the two"))
    return record


def ensemble(
    directory: MaybeDirectory = None,
    size: Annotated[
        int | None,
        typer.Option(
            "--size",
            metavar="N",
            min=1,
            max=1000,
            help="The largest number of models to average; default: results.ensemble, or 20.",
        ),
    ] = None,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Select trials whose averaged predictions are better than those of the best one.

    `sweeper export DIR ensemble` then writes them as one model. They are selected on validation
    rows, from the models that results.keep_models keeps.
    """
    run_dir = find_tables(directory)
    from sweeper.export.ensemble import measure_ensemble
    from sweeper.results.ensemble import write_ensemble

    with announce("selecting and measuring models"):
        record = measure_ensemble(run_dir, size, trust_code=trust_code)
    try:
        write_ensemble(run_dir, record)
    except OSError as error:
        raise SetupError(not_written(run_dir.ensemble, error)) from error
    finally:  # what has been measured is shown even if the disk is read-only
        if as_json:
            print_json({"run_dir": str(run_dir.root), **asdict(record)})
        else:
            print_shown(*trial_tables.ensemble(record))
    if not as_json:
        root = quote(str(run_dir.root))
        print_shown(f"export     python -m sweeper export {root} ensemble --to ensemble/")


def reproduce(
    directory: MaybeDirectory = None,
    trial: MaybeTrial = None,
    trust_code: TrustCode = False,
    quiet: AnswerAlone = False,
    as_json: AsJson = False,
) -> None:
    """Train a trial again alone and compare it with the recorded curves, epoch by epoch.

    Exits with 1 if a value differs, and shows the first difference.
    """
    run_dir, number = find_trial(directory, trial)
    from sweeper.export.reproduce import alone, compare_with_record, refuse_another

    spec = refuse_another(run_dir, trust_code=trust_code)
    with tempfile.TemporaryDirectory() as place:
        config, number = alone(run_dir, number, Path(place) / "again")
        status, code = _train_again(run_dir, config, spec, trust_code, quiet=quiet)
        if status.state != "finished":
            raise typer.Exit(code)
        found = compare_with_record(run_dir, RunDir(config.run_dir), number)
    if as_json:
        print_json(asdict(found))
    else:
        print_shown(*trial_tables.reproduction(found))
    raise typer.Exit(bool(found.differing) or not found.values)


def refit(
    directory: MaybeDirectory = None,
    trial: MaybeTrial = None,
    on: Annotated[
        Literal["train+val", "all"], typer.Option("--on", help="The rows to train on.")
    ] = "train+val",
    output: ModelDirectory = Path("refit"),  # next to `best`, which export writes
    fresh: Fresh = False,
    trust_code: TrustCode = False,
    quiet: AnswerAlone = False,
) -> None:
    """Train a trial again on more rows, for its best number of epochs, and export the model.

    Its run directory is DIR/refit/TRIAL or DIR/refit/TRIAL-all. Metrics on rows that the model was
    trained on say nothing about its quality; with `train+val`, the test rows are still unseen.
    """
    run_dir, number = find_trial(directory, trial)
    from sweeper.export.directory import export, refuse_output
    from sweeper.export.reproduce import refit_study, refuse_another, with_defined_objective
    from sweeper.sweep.session.ownership import refuse_foreign

    config, row = refit_study(run_dir, number, on)
    refuse_output(output, run_dir)
    spec = refuse_another(run_dir, trust_code=trust_code)
    if row["n_folds"] > 1:
        if not trust_code:
            refuse_foreign(config, run_dir)  # before functions of the study read its data
        config = with_defined_objective(config)
    status, code = _train_again(run_dir, config, spec, trust_code, fresh=fresh, quiet=quiet)
    refuse_none_complete(RunDir(config.run_dir), status)
    if code:
        raise typer.Exit(code)
    number = export(config.run_dir, int(row["trial_number"]), 0, output, trust_code=trust_code)
    from sweeper.results.listing import read_trials

    again = read_trials(RunDir(config.run_dir)).row(number)
    assert again is not None, "it has just been trained"
    print_shown(trial_tables.refit_table(row, again, on), "")
    print_exported(number, output)


def _train_again(
    run_dir: RunDir,
    config: StudyConfig,
    spec: DataSpec | None,
    trust_code: bool,
    *,
    quiet: bool,
    fresh: bool = False,
) -> tuple[Status, int]:
    """Train a trial of `run_dir` again, starting from the same model as its study."""
    start, trust_start = _check_and_find_start(run_dir, config, spec, trust_code)
    return _train(config, start, trust_start, fresh=fresh, quiet=quiet)


def _train(
    config: StudyConfig, start: Path | None, trust_start: bool, *, fresh: bool, quiet: bool
) -> tuple[Status, int]:
    """Train a study that a command made; `trust_start` says whether to run the code of `start`."""
    from sweeper.export.reproduce import with_fresh_start_as_fix

    with with_fresh_start_as_fix(config):
        return train_study(
            config, fresh=fresh, quiet=quiet, continue_from=start, trust_code=trust_start
        )


def _check_and_find_start(
    run_dir: RunDir, config: StudyConfig, spec: DataSpec | None, trust_code: bool
) -> tuple[Path | None, bool]:
    """Like `_start_of`, after refusing what is unsafe to train from a directory of others."""
    from sweeper.export.sizes import refuse_oversized
    from sweeper.sweep.session.ownership import refuse_foreign

    if not trust_code:
        refuse_foreign(config, run_dir)
        refuse_oversized(config, run_dir, spec)
    return _start_of(run_dir, trust_code)


def _start_of(run_dir: RunDir, trust_code: bool) -> tuple[Path | None, bool]:
    """The saved model that the trials of `run_dir` started from, and whether to run its code.

    Raises:
        StudyError: its copy in the run directory is missing.
    """
    from sweeper.programs.saved_file import read_saved
    from sweeper.sweep.session import backup
    from sweeper.sweep.session.ownership import is_own_start

    start = run_dir.started_from
    if not start.exists():
        recorded = [one["continued_from"] for one in backup.sessions(run_dir)[:1]]
        if path := next((one["path"] for one in recorded if one is not None), None):
            found = f"its trials start from {path}, but the copy of it is missing"
            hint = f"copy that file to {start}"
            raise StudyError(Problem(str(run_dir.root), "", found, hint))
        return None, trust_code
    return start, trust_code or is_own_start(run_dir, read_saved(start).digest)
