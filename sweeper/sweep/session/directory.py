"""Creates, moves aside or refuses a run directory before its study is opened.

Files that do not belong to the study, such as those of Jupyter, are left alone.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from sweeper.config import StudyConfig
from sweeper.config.toml import of_home
from sweeper.errors import Problem, SetupError, StudyError
from sweeper.faults import Step, fault_points
from sweeper.files import STAGED, remove_inside, remove_tree_inside
from sweeper.rundir import HINT, RunDir, links_in, refuse_links, refuse_non_utf8
from sweeper.sweep.session import backup
from sweeper.sweep.session.lock import hold

# obstacles to a new directory that choosing another name would not fix
_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
# names that sweeper writes in .staging, including those of earlier versions
_STAGED_FILES = re.compile(
    r"data\.npz|meeting|ledger(\.backup)?\.db(-journal)?|study\.toml|status\.json|SCHEMA\.md"
    r"|(data|trials|buckets|spans|importance|part-.*)\.parquet|(preparation|baseline|ensemble)\.json"
    r"|continued_from\.safetensors|trial-\d+.*\.(eqx|safetensors)|\d+-[0-9a-f]+.*\.json"
)
_STAGED_DIRECTORIES = re.compile(rf"{STAGED}\w+|data")


def check_directory(config: StudyConfig, run_dir: RunDir, *, fresh: bool = False) -> None:
    """Refuse a directory that cannot be written, or that contains something other than a study.

    Raises:
        SetupError: it, or its parent, is not a directory that this user may write to, or something
        else is in place of a file of the study.
        DamagedLedgerError: its ledger is missing.
        StudyError: it has files that do not belong to a study, but no ledger, or imported trials;
        or a new study is to be run in a directory that is called ~.
    """
    name = config.results.dir or ""
    if (full := of_home(name)) and (fresh or not holds_study(run_dir)):
        found = f"'{name}' would be in a directory that is called ~"
        raise StudyError(config.problem("results.dir", found, full))
    hint = "rename the directory, or set results.dir to another"
    refuse_non_utf8(run_dir.root.absolute(), hint)
    _check_writable(config, run_dir)
    if run_dir.root.exists():
        _check_contents(config, run_dir, fresh=fresh)


def _check_writable(config: StudyConfig, run_dir: RunDir) -> None:
    """Refuse a place in which this user cannot create the run directory, or files in it."""
    try:
        place = next(path for path in (run_dir.root, *run_dir.root.parents) if path.exists())
    except OSError as error:  # the name is longer than the system allows
        reason = f"{run_dir.root}: {error.strerror}"
        raise SetupError(_unwritable(config, reason)) from error
    if not place.is_dir():
        raise SetupError(_unwritable(config, f"{run_dir.root}: {place} is not a directory"))
    if not os.access(place, os.W_OK | os.X_OK):
        raise SetupError(_unwritable(config, run_dir.root))
    try:  # the superuser may write to every directory, even in a pseudo file system
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE:
            reason = f"{run_dir.root}: {place} does not accept files ({error.strerror})"
            raise SetupError(_unwritable(config, reason)) from error


def _check_contents(config: StudyConfig, run_dir: RunDir, *, fresh: bool) -> None:
    """Refuse a directory with anything other than a study to resume, or to move aside."""
    # a directory to move aside may contain anything but a held lock
    check_obstacles(run_dir, [run_dir.lock] if fresh and holds_study(run_dir) else None)
    if run_dir.ledger.exists():
        return
    if holds_study(run_dir):
        if not fresh:
            _refuse_imported(config, run_dir)
            backup.read(run_dir)  # raises, since the ledger is missing
        return
    files = run_dir.lock, run_dir.owner, run_dir.stop, *_directories(run_dir)
    ours = {path.name for path in files}
    strange = sorted(path.name for path in run_dir.root.iterdir() if path.name not in ours)
    if strange:
        raise StudyError(
            config.problem(
                "results.dir",
                f"{run_dir.root} contains {strange[0]!r} but no ledger",
                "name a directory that is empty or does not exist yet",
            )
        )


def _refuse_imported(config: StudyConfig, run_dir: RunDir) -> None:
    from sweeper.results.imported import imported_from  # Arrow is slow to import

    if source := imported_from(run_dir):
        found = f"{run_dir.root} has trials that were imported from {source}"
        hint = f"name another directory; --learn-from {run_dir.root} learns from them"
        raise StudyError(config.problem("results.dir", found, hint))


def holds_study(run_dir: RunDir) -> bool:
    """Whether a study has been run there, even if its ledger is missing."""
    if run_dir.ledger.exists() or run_dir.backup.exists():
        return True
    left = (
        run_dir.lock,
        run_dir.status,
        run_dir.schema,
        run_dir.trials,
        run_dir.buckets,
        run_dir.importance,
        run_dir.preparation,
        run_dir.log,
    )
    return sum(path.is_file() for path in left) > 1  # a single file may be anything


def check_obstacles(run_dir: RunDir, files: Sequence[Path] | None = None) -> None:
    """Refuse a directory in which something else is in place of the study's files.

    Only checks these `files`, if any are given.

    Raises:
        SetupError: with each obstacle.
    """
    if found := [one for one in obstacles(run_dir) if files is None or one[0] in files]:
        raise SetupError(Problem(str(path), "", what, HINT) for path, what in found)


def obstacles(run_dir: RunDir) -> Iterator[tuple[Path, str]]:
    """What is in place of files and directories of the study, and what it is."""
    links = [*links_in(run_dir)]
    yield from links
    # targets of links are not checked
    linked = {path for path, _ in links}
    for path in [path for path in _files(run_dir) if linked.isdisjoint((path, path.parent))]:
        if path.is_dir():
            yield path, "it is a directory, but the study needs a file there"
        elif path.exists() and not path.is_file():
            yield path, "it is a pipe or a device, but the study needs a file there"
    for path in _directories(run_dir):
        if path.exists() and not (path.is_dir() or path in linked):
            yield path, "it is a file, but the study needs a directory there"


def _files(run_dir: RunDir) -> Iterator[Path]:
    yield from (*run_dir.files(), run_dir.log, run_dir.exit_note)
    for own in (run_dir.own_parts, run_dir.own_models, run_dir.own_checkpoints):
        yield from own()
    yield from run_dir.own_requests()


def _directories(run_dir: RunDir) -> tuple[Path, ...]:
    return run_dir.staging, run_dir.confirm, *run_dir.directories()


def make(config: StudyConfig, run_dir: RunDir) -> None:
    """Create all directories of the run.

    Raises:
        SetupError: this user may not write there.
        OSError: the disk refuses it.
    """
    try:
        with fault_points(Step.MAKE_DIRECTORY):
            run_dir.make()
    except OSError as error:
        if error.errno in _OF_THE_MACHINE:
            raise
        reason = f"{error.filename}: {error.strerror}"
        raise SetupError(_unwritable(config, reason)) from error


def clear_staging(run_dir: RunDir) -> None:
    """Remove what a crash left half-written; other names are kept."""
    for path in run_dir.staging.iterdir():
        is_of_directory = bool(_STAGED_DIRECTORIES.fullmatch(path.name))
        if path.is_dir() and not path.is_symlink():
            if is_of_directory:
                remove_tree_inside(run_dir.root, path)
        elif is_of_directory or _STAGED_FILES.fullmatch(path.name):
            remove_inside(run_dir.root, path)


def move_aside(run_dir: RunDir) -> Path | None:
    """Append the time to the name of a study's directory, in one step, if no other process runs it.

    A link to a directory is kept, since the new one must be on the same disk. Returns its new path,
    or None if it has no study.
    """
    if not holds_study(run_dir):
        return None
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    with hold(run_dir):
        place = run_dir.root.resolve()
        aside = place.rename(place.with_name(f"{place.name}.{stamp}"))
    place.mkdir(exist_ok=True)
    return aside


def place_after_move(path: Path, run_dir: RunDir, moved_to: Path | None) -> Path:
    """Where a file or directory is after `run_dir` was moved aside to `moved_to`, if it was."""
    place, root = path.resolve(), run_dir.root.resolve()
    if moved_to is None or not place.is_relative_to(root):
        return path
    return moved_to / place.relative_to(root)


def delete(run_dir: RunDir) -> list[Path]:
    """Remove what sweeper has written in the directory of a study, and it, if nothing is left.

    Returns the files that are left. The ledger is removed last: until then, it is a study, which
    can be deleted.

    Raises:
        StudyHeldError: another process runs the study, or one inside its directory.
        SweeperError: as `check_deletable`.
        OSError: a file cannot be removed.
    """
    check_deletable(run_dir)
    with hold(run_dir):
        for path in run_dir.nested():
            if holds_study(RunDir(path)):
                delete(RunDir(path))
        if run_dir.staging.is_dir():
            clear_staging(run_dir)
        for path in _removable(run_dir):
            remove_inside(run_dir.root, path)
    for path in (run_dir.lock, run_dir.owner):
        remove_inside(run_dir.root, path)
    for path in (run_dir.staging, *run_dir.directories()):
        with suppress(OSError):  # not empty, or never made
            path.rmdir()
    left = sorted(run_dir.root.rglob("*"))
    if not left:
        run_dir.root.rmdir()
    return left


def check_deletable(run_dir: RunDir) -> None:
    """Refuse to delete what is not the directory of a study, and links.

    Raises:
        StudyError: it is not the directory of a study.
        SetupError: it does not exist, is a link, or contains one.
    """
    hint = "name the run directory of a study"
    if not run_dir.root.exists():
        raise SetupError(Problem(str(run_dir.root), "", "it does not exist", hint))
    if not holds_study(run_dir):
        raise StudyError(Problem(str(run_dir.root), "", "not a run directory", hint))
    if run_dir.root.is_symlink():
        raise SetupError(Problem(str(run_dir.root), "", "it is a link", "name what it points to"))
    refuse_links(run_dir)


def _removable(run_dir: RunDir) -> Iterator[Path]:
    """The files of a study in the order in which they can be removed, without its lock."""
    for own in (run_dir.own_parts, run_dir.own_models, run_dir.own_checkpoints, run_dir.own_logs):
        yield from own()
    yield from run_dir.own_requests()
    kept = (run_dir.lock, run_dir.owner, run_dir.confirm, run_dir.staging)
    files = [path for path in run_dir.names() if path not in (*kept, *run_dir.directories())]
    ledgers = (run_dir.ledger.name, run_dir.backup.name)
    yield from sorted(files, key=lambda path: path.name.startswith(ledgers))


def _unwritable(config: StudyConfig, place: Path | str) -> Problem:
    hint = "name a directory that you may write to"
    return config.problem("results.dir", f"cannot write to {place}", hint)
