"""Checks whether a run directory is intact: that ledger, checkpoints, models and tables agree.

The ledger checks itself. Files that it names must exist unchanged, and published files must match
it; they are views, which `repair` rewrites.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.load import study_of
from sweeper.errors import LedgerError, Problem, SetupError, listed
from sweeper.files import remove_inside
from sweeper.ledger import Ledger
from sweeper.programs.checkpoint import CheckpointError, LaneFile
from sweeper.results.compare import TableDifference, differences
from sweeper.results.imported import imported_from
from sweeper.results.light import readable
from sweeper.results.listing import plain, read_trials
from sweeper.results.publish import Publisher
from sweeper.results.status import StudyState, read_status, write_status
from sweeper.results.timeline import Span, shares
from sweeper.rundir import RunDir, refuse_non_utf8
from sweeper.study.learning import Learned
from sweeper.study.limits import n_proposals, stopped_by
from sweeper.sweep.progress import SessionProgress
from sweeper.sweep.resume import restore
from sweeper.sweep.session import backup
from sweeper.sweep.session.directory import check_obstacles, holds_study, obstacles
from sweeper.sweep.session.lock import hold, hold_for_reading
from sweeper.sweep.session.reconcile import data_digest
from sweeper.sweep.state import SweepState
from sweeper.sweep.stopping import end_state, n_unasked
from sweeper.sweep.verify.damage import Damage, repair_hint
from sweeper.sweep.verify.models import damaged_model, expected_models
from sweeper.sweep.verify.published_files import damaged_files, other_files, repair_files
from sweeper.trial import Reason, TrialState

_RUN = "resume the study, which repeats the training where necessary"


@dataclass(frozen=True, slots=True)
class Verified:
    """What was checked, in words, and the damage that was found."""

    looked_at: tuple[str, ...]
    damage: tuple[Damage, ...]


def verify(run_dir: RunDir, *, trust_code: bool = False) -> Verified:
    """Check a run directory for damage; nothing is written.

    Models of more than 700 MB are only read with `trust_code`.

    Raises:
        SetupError: no study has been run there.
        StudyHeldError: another process runs it.
    """
    _check_there(run_dir)
    if found := [*obstacles(run_dir)]:
        hint = "remove or rename it, then verify again"
        return Verified((), tuple(Damage(_name(run_dir, at), what, hint) for at, what in found))
    with hold_for_reading(run_dir):
        try:
            ledger = backup.read(run_dir)
        except LedgerError as error:
            problem = error.problems[0]
            return Verified((), (Damage(run_dir.ledger.name, problem.found, problem.hint),))
        with closing(ledger):
            return _check_all(run_dir, ledger, trust_code)


def repair(run_dir: RunDir, *, trust_code: bool = False) -> tuple[str, ...]:
    """Rewrite every view of the ledger: tables, metrics, status and other files.

    Returns what could not be written, and why. A function that reads the study's data must be known
    as the user's own, unless `trust_code` is given.

    Raises:
        LedgerError: the ledger itself is damaged.
        SetupError: no study has been run there, or something is in place of its files.
        StudyHeldError: another process runs it.
    """
    _check_there(run_dir)
    check_obstacles(run_dir)
    with hold(run_dir), closing(backup.read(run_dir)) as ledger:
        if not ledger.sessions():  # the first start was killed before it recorded anything
            return ()
        config, run_id = _study(run_dir, ledger)
        for path in (run_dir.trials, run_dir.buckets, run_dir.spans, *run_dir.own_parts()):
            remove_inside(run_dir.root, path)
        Publisher(run_dir, config).publish(ledger, final=True)
        state = restore(ledger, config).state
        learned = Learned.from_dict(ledger.learned())
        progress = SessionProgress.begin(config, run_id, ledger, state, learned.counts)
        study_state, spent_s = _state_of(config, state), _spent_s(ledger, run_id)
        write_status(run_dir, progress.status(state, time.time(), study_state, spent_s=spent_s))
        return repair_files(run_dir, config, ledger, state, trust_code=trust_code)


def restore_ledger(run_dir: RunDir) -> str:
    """Restore the copy of the ledger, but not the views of it, which `repair` rewrites.

    Returns a report.

    Raises:
        StudyError: the ledger is intact.
        DamagedLedgerError: the copy is damaged or missing.
        LedgerError: the copy is of another study.
        SetupError: no study has been run there, or something is in place of its files.
        StudyHeldError: another process runs it.
    """
    _check_there(run_dir)
    check_obstacles(run_dir)
    published = _published_requests(run_dir)
    with hold(run_dir):
        rounds = backup.restore_backup(run_dir)
        lost = _lost_requests(run_dir, published)
    source = f"{run_dir.backup.name}, which ends with round {rounds}"
    done = f"{run_dir.ledger.name} was restored from {source}"
    return f"{done}; {lost}resume the study to repeat the later training"


def _published_requests(run_dir: RunDir) -> dict[int, str]:
    """What requests did to published trials, by number; a rule may have stopped them, too."""
    table = readable(run_dir.trials)
    if table is None or "enqueued" not in table.column_names:
        return {}
    names = ("trial_number", "state", "reason", "enqueued")
    columns = [plain(table[name]) for name in names]
    effects: dict[int, str] = {}
    for number, state, reason, is_enqueued in zip(*columns, strict=True):
        if is_enqueued:
            effects[number] = "enqueued"
        elif (state, reason) == (TrialState.PRUNED, Reason.STOPPED):
            effects[number] = "stopped"
    return effects


def _lost_requests(run_dir: RunDir, published: Mapping[int, str]) -> str:
    """Which requests the restored ledger does not have, in words."""
    with closing(backup.read(run_dir)) as ledger:
        config, _ = _study(run_dir, ledger)
        state = restore(ledger, config).state
    known = {*range(len(config.study.enqueue)), *state.enqueued, *state.ended}
    lost = [f"trial {n} was {what}" for n, what in sorted(published.items()) if n not in known]
    if not lost:
        return "requests that were granted later (enqueue, stop --trial) are lost; "
    seen = f"the tables had those by which {listed(lost)}"
    return (
        f"requests that were granted later (enqueue, stop --trial) are lost, and later rows may "
        f"differ: {seen}; to keep them, ask again; "
    )


def _check_there(run_dir: RunDir) -> None:
    refuse_non_utf8(run_dir.root, "rename the directory")
    if not holds_study(run_dir):
        found, hint = "no study has been run here", "name the run directory of a study"
        raise SetupError(Problem(str(run_dir.root), "", found, hint))
    if not run_dir.ledger.exists() and (source := imported_from(run_dir)):
        found = f"it was imported from {source}: it has no ledger to compare its tables with"
        hint = "import it again, which replaces them"
        raise SetupError(Problem(str(run_dir.root), "", found, hint))


def _study(run_dir: RunDir, ledger: Ledger) -> tuple[StudyConfig, str]:
    """The study as last requested, and the id of that session."""
    last = ledger.sessions()[-1]
    return study_of(last["study"], _study_file(run_dir, last), run_dir), last["run_id"]


def _state_of(config: StudyConfig, state: SweepState) -> StudyState:
    """The state of a study that no process runs."""
    is_stopped = stopped_by(config, state.kept_with_study) is not None
    unasked = n_unasked(n_proposals(config), state, is_stopped=is_stopped)
    return end_state(config, state, unasked)


def _spent_s(ledger: Ledger, run_id: str) -> Mapping[str, float]:
    """Where the time of a session went; empty if not recorded."""
    names = Span._fields
    rows = [row for row in ledger.span_rows() if row["run_id"] == run_id]
    return shares([Span(*(row[name] for name in names)) for row in rows]) if rows else {}


def _study_file(run_dir: RunDir, session: Mapping[str, Any]) -> Path:
    """The study file of a session, next to which its data and code are found."""
    if "study_file" in session:
        return Path(session["study_file"])
    try:  # earlier versions do not record it, but tables do
        return Path(read_trials(run_dir).study["study_file"])
    except Exception:  # a table that is damaged in some way
        return run_dir.study_file


def _check_all(run_dir: RunDir, ledger: Ledger, trusted: bool) -> Verified:
    if not ledger.sessions():
        return Verified((f"{run_dir.ledger.name}: no study has started",), ())
    config, _ = _study(run_dir, ledger)
    state = restore(ledger, config).state
    sessions = ledger.sessions()
    has_finished = _state_of(config, state) == "finished"
    models = expected_models(run_dir, config, sessions, state.ended, has_finished=has_finished)
    digest = data_digest(sessions)
    looked_at = (
        f"{run_dir.ledger.name}: {state.rounds} rounds, {len(state.ended)} finished trials, "
        f"{len(state.running)} unfinished",
        f"{run_dir.checkpoints.name}/: {len(state.checkpoint_digests)} files of unfinished trials",
        f"{run_dir.models.name}/: {len(models)} models",
        *filter(None, (_names_there(_views(run_dir)), _names_there(other_files(run_dir)))),
    )
    damage = (
        *_damaged_checkpoints(run_dir, state),
        *(
            damage
            for model in models
            for damage in damaged_model(run_dir, config, model, digest, trusted)
        ),
        *_damaged_views(run_dir, config, ledger),
        *_damaged_status(run_dir, state.rounds),
        # after a session that was killed before its first round, some do not exist yet
        *(damaged_files(run_dir, config, ledger, state, trusted) if state.rounds else ()),
    )
    return Verified(looked_at, damage)


def _views(run_dir: RunDir) -> list[Path]:
    tables = [run_dir.trials, run_dir.buckets, run_dir.spans, run_dir.metrics]
    return [*tables, run_dir.status, run_dir.importance]


def _names_there(paths: Sequence[Path]) -> str:
    """The names of those that exist, with a slash after directories."""
    return ", ".join(path.name + "/" * path.is_dir() for path in paths if path.exists())


def _damaged_checkpoints(run_dir: RunDir, state: SweepState) -> Iterator[Damage]:
    for name, digest in state.checkpoint_digests.items():
        try:
            LaneFile(run_dir.checkpoints / name, digest)
        except CheckpointError as error:
            found = str(error).removeprefix(f"{run_dir.checkpoints / name}: ")
            yield Damage(f"{run_dir.checkpoints.name}/{name}", found, _RUN)


def _damaged_views(run_dir: RunDir, config: StudyConfig, ledger: Ledger) -> Iterator[Damage]:
    hint = repair_hint(run_dir)
    has_begun = ledger.n_closed_rounds() > 0
    with _rebuilt(run_dir, config, ledger) as anew:
        for view in ("trials", "buckets", "spans", "metrics"):
            if view == "spans" and not (run_dir.spans.exists() or ledger.span_rows()):
                continue  # written by an earlier version
            if view == "metrics" and (strange := [*_strange_parts(run_dir)]):
                yield from strange  # it cannot be read while they are in it
                continue
            found = differences(getattr(run_dir, view), getattr(anew, view))
            if found is TableDifference.MISSING and not has_begun:
                continue  # a session that was killed before it wrote any
            if found is not None:
                yield Damage(getattr(run_dir, view).name, found.value, hint)


def _strange_parts(run_dir: RunDir) -> Iterator[Damage]:
    """Files that readers of metrics/ would treat as parts; hidden files are skipped."""
    for path in sorted(run_dir.metrics.glob("[!._]*")):
        if not path.match("part-*.parquet"):
            found = "it does not belong to the study, but readers of metrics/ treat it as a part"
            yield Damage(_name(run_dir, path), found, "remove or rename it")


def _name(run_dir: RunDir, path: Path) -> str:
    return str(path.relative_to(run_dir.root))


@contextmanager
def _rebuilt(run_dir: RunDir, config: StudyConfig, ledger: Ledger) -> Iterator[RunDir]:
    """The tables as they should be, in a temporary directory."""
    with TemporaryDirectory() as directory:
        anew = RunDir(Path(directory))
        anew.make()
        Publisher(anew, config, models=run_dir).publish(ledger, final=True)
        yield anew


def _damaged_status(run_dir: RunDir, rounds: int) -> Iterator[Damage]:
    hint = repair_hint(run_dir)
    try:
        status = read_status(run_dir)
    except SetupError as error:
        yield Damage(run_dir.status.name, error.problems[0].found, hint)
        return
    if status.round != rounds:
        found = f"it is of round {status.round}, and the ledger has {rounds}"
        yield Damage(run_dir.status.name, found, hint)
