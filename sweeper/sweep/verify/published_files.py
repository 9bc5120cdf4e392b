"""Checks and rewrites the files next to the tables of a study, which are for people and exports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from sweeper.config import StudyConfig
from sweeper.config.data import FunctionTable, ParquetTable
from sweeper.data.ahead import preparing
from sweeper.errors import DataError, SweeperError
from sweeper.ledger import Ledger
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.programs.provenance import NoteError, read_note
from sweeper.programs.saved_file import read_saved
from sweeper.results.baseline import read_baseline
from sweeper.results.ensemble import read_ensemble
from sweeper.results.importance import is_importance
from sweeper.results.schema import is_schema_text, write_schema_text
from sweeper.results.status import find_status
from sweeper.rundir import RunDir
from sweeper.sweep.importances import Importances, has_importances
from sweeper.sweep.session.ownership import foreign
from sweeper.sweep.session.reconcile import data_digest
from sweeper.sweep.session.study_copy import restore_copy, study_copy_problem
from sweeper.sweep.state import SweepState
from sweeper.sweep.store import RunStore
from sweeper.sweep.verify.damage import Damage, repair_hint


def other_files(run_dir: RunDir) -> list[Path]:
    """The files that are checked here."""
    others = run_dir.started_from, run_dir.rows, run_dir.ensemble
    there = [path for path in others if path.exists()]
    return [run_dir.preparation, run_dir.baseline, run_dir.schema, run_dir.study_file, *there]


def damaged_files(
    run_dir: RunDir, config: StudyConfig, ledger: Ledger, state: SweepState, trusted: bool
) -> Iterator[Damage]:
    """What is wrong with the files that a session writes next to the tables, or with its notes."""
    hint = repair_hint(run_dir)
    if found := _preparation_problem(run_dir, ledger):
        of_data = f"{hint}, which reads the study's data again, like its next run"
        yield Damage(run_dir.preparation.name, found, of_data)
    if found := _rows_problem(run_dir, config, ledger):
        again = "resume the study in Python with the same rows, which writes it again"
        yield Damage(run_dir.rows.name, found, again)
    if problem := _start_problem(run_dir, ledger, trusted):
        found, path = problem
        again = f"resume the study with --continue-from {path}, or with a copy of it"
        yield Damage(run_dir.started_from.name, found, again)
    if found := study_copy_problem(run_dir):
        yield Damage(run_dir.study_file.name, found, hint)
    if not is_schema_text(run_dir.schema):
        found = "it cannot be read" if run_dir.schema.exists() else "it is missing"
        yield Damage(run_dir.schema.name, found, hint)
    if run_dir.importance.exists():
        if not is_importance(run_dir.importance):
            yield Damage(run_dir.importance.name, "it cannot be read", hint)
    elif has_importances(config, state.ended) and _is_finished(run_dir):
        yield Damage(run_dir.importance.name, "it is missing", hint)
    if _is_baseline_damaged(run_dir):
        again = f"{hint}, which removes it; the next run of the study writes it again"
        yield Damage(run_dir.baseline.name, "it cannot be read", again)
    if run_dir.ensemble.exists() and read_ensemble(run_dir) is None:
        again = f"select it again: python -m sweeper ensemble {quote(str(run_dir.root))}"
        yield Damage(run_dir.ensemble.name, "it cannot be read", again)


def repair_files(
    run_dir: RunDir,
    config: StudyConfig,
    ledger: Ledger,
    state: SweepState,
    *,
    trust_code: bool,
) -> tuple[str, ...]:
    """Rewrite them if they are damaged; returns what could not be fixed."""
    restore_copy(run_dir, ledger.sessions()[0]["study"])
    if not is_schema_text(run_dir.schema):
        run_dir.schema.unlink(missing_ok=True)
        write_schema_text(run_dir, config)
    if not is_importance(run_dir.importance):
        run_dir.importance.unlink(missing_ok=True)
        Importances(config, run_dir).finish(state.rounds, state.ended)
    left = [*_prepare_again(run_dir, config, ledger, trust_code)]
    if _is_baseline_damaged(run_dir):
        run_dir.baseline.unlink()
        left.append(f"{run_dir.baseline.name} was removed: the next run writes it again")
    return tuple(left)


def _is_finished(run_dir: RunDir) -> bool:
    """Whether the study says that it has ended; while it trains, importances may come later."""
    status = find_status(run_dir)
    return status is not None and status.state == "finished"


def _is_baseline_damaged(run_dir: RunDir) -> bool:
    return run_dir.baseline.exists() and read_baseline(run_dir) is None


def _preparation_problem(run_dir: RunDir, ledger: Ledger) -> str:
    """What is wrong with the note on the study's data; empty if nothing is."""
    try:
        read_note(run_dir.preparation, data_digest(ledger.sessions()))
    except NoteError as error:
        return str(error)
    return ""


def _rows_problem(run_dir: RunDir, config: StudyConfig, ledger: Ledger) -> str:
    """What is wrong with the rows of a study that started with them in memory; else empty.

    Such a study reads them as Parquet. Other data may come from a function, which must not run.
    """
    sessions = ledger.sessions()
    is_parquet = isinstance(config.data, ParquetTable)
    if not is_parquet or not any("rows" in session for session in sessions):
        return ""
    if not run_dir.rows.is_file():
        return "it is missing"
    try:
        with preparing(config) as prepared:
            digest = prepared().digest
    except DataError as error:
        return error.problems[0].found
    return "" if digest == data_digest(sessions) else "it has other rows than the study began with"


def _start_problem(run_dir: RunDir, ledger: Ledger, trusted: bool) -> tuple[str, str] | None:
    """What is wrong with the copy of the model that trials start from, and its original path."""
    start = ledger.sessions()[0].get("continued_from")
    if start is None:
        return None
    if not run_dir.started_from.exists():
        return "it is missing", start["path"]
    try:
        digest = read_saved(run_dir.started_from, trusted=trusted).digest
    except SweeperError as error:
        return error.problems[0].found, start["path"]
    return None if digest == start["digest"] else ("it is another model", start["path"])


def _prepare_again(
    run_dir: RunDir, config: StudyConfig, ledger: Ledger, trust_code: bool
) -> Iterator[str]:
    if not _preparation_problem(run_dir, ledger):
        return
    name, wanted = run_dir.preparation.name, data_digest(ledger.sessions())
    if not trust_code and isinstance(config.data, FunctionTable):
        of_study = foreign(config, run_dir.root, ledger.sessions())
        problems = [problem for problem in of_study if problem.key == "data.function"]
        if problems:
            yield f"{name} was not rewritten: {problems[0]}"
            return
    try:
        with preparing(config) as prepared:
            data = prepared()
    except SweeperError as error:
        yield f"{name} was not rewritten: {error}"
        return
    if wanted not in (None, data.digest):
        yield f"{name} was not rewritten: the data has changed since the study began"
        return
    spec = data_spec(config, data)
    RunStore(run_dir, config, Programs(spec), data.digest).note_preparation(data, spec)
