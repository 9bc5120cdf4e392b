"""The paths of a run directory; refuses one with links, or whose name is not UTF-8."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import Problem, SetupError
from sweeper.files import NO_LINK

HINT = "remove or rename it, then try again"
_CHECKPOINT = re.compile(r"r\d+-b\d+.*\.safetensors")
_MODEL = re.compile(r"trial-\d+(-\d+)?\.(eqx|safetensors)")
_LOG = re.compile(r"(worker-\d+(\.before)?|sweeper)\.log|left\.json")
_PART = re.compile(r"part-.*\.parquet")
_REQUEST = re.compile(r"\d+-[0-9a-f]+(\.answer)?\.json")
_LOGS_OF_LEDGERS = ("", "-wal", "-shm", "-journal")  # as SQLite names them


@dataclass(frozen=True, slots=True)
class RunDir:
    """Everything of one study, below the directory `root`."""

    root: Path

    @property
    def study_file(self) -> Path:
        """The study file as first run."""
        return self.root / "study.toml"

    @property
    def rows(self) -> Path:
        """The rows of a study that started with them in memory."""
        return self.root / "data.parquet"

    @property
    def ledger(self) -> Path:
        """The SQLite file that is the source of truth of the study."""
        return self.root / "ledger.db"

    @property
    def backup(self) -> Path:
        """A copy of the ledger, at most a few minutes old."""
        return self.root / "ledger.backup.db"

    @property
    def damaged(self) -> Path:
        """A damaged ledger that was replaced by its backup."""
        return self.root / "ledger.damaged.db"

    @property
    def lock(self) -> Path:
        """Held by the one process that runs the study."""
        return self.root / "ledger.lock"

    @property
    def owner(self) -> Path:
        """Which process runs the study, for file systems without locks."""
        return self.root / "ledger.lock.owner"

    @property
    def status(self) -> Path:
        """What `status` shows; replaced atomically."""
        return self.root / "status.json"

    @property
    def stop(self) -> Path:
        """Exists if the study was asked to stop; removed once it has stopped."""
        return self.root / "stop"

    @property
    def requests(self) -> Path:
        """Requests of users to the study, until they are answered, and the answers."""
        return self.root / "requests"

    @property
    def importance(self) -> Path:
        """How much each parameter matters for each objective; replaced atomically."""
        return self.root / "importance.parquet"

    @property
    def baseline(self) -> Path:
        """How good simple models are on the same rows; replaced atomically."""
        return self.root / "baseline.json"

    @property
    def ensemble(self) -> Path:
        """The trials whose predictions are averaged, and what that gains; replaced atomically."""
        return self.root / "ensemble.json"

    @property
    def trackers(self) -> Path:
        """What was logged to experiment trackers; replaced atomically."""
        return self.root / "trackers.json"

    @property
    def confirm(self) -> Path:
        """The run directory in which the best trials are trained again with fresh seeds."""
        return self.root / "confirm"

    @property
    def refit(self) -> Path:
        """The run directories of trials trained again on more rows, one per trial."""
        return self.root / "refit"

    @property
    def schema(self) -> Path:
        """The meaning of the columns of the published tables, for people."""
        return self.root / "SCHEMA.md"

    @property
    def trials(self) -> Path:
        """One row per finished trial; replaced atomically."""
        return self.root / "trials.parquet"

    @property
    def buckets(self) -> Path:
        """One row per bucket and round; replaced atomically."""
        return self.root / "buckets.parquet"

    @property
    def spans(self) -> Path:
        """What the program, its threads and its workers did and when; replaced atomically."""
        return self.root / "spans.parquet"

    @property
    def metrics(self) -> Path:
        """The directory of the parts of metrics; a part is complete and never changed."""
        return self.root / "metrics"

    @property
    def checkpoints(self) -> Path:
        """Training state of unfinished lanes after the last round."""
        return self.root / "checkpoints"

    @property
    def models(self) -> Path:
        """The weights of the best trials."""
        return self.root / "models"

    def model(self, number: int, member: int = 0) -> Path:
        """The weights of one member of trial `number`, if they were kept."""
        which = f"-{member}" if member else ""
        return self.models / f"trial-{number:06d}{which}.eqx"

    def saved(self, number: int, member: int = 0) -> Path:
        """The same weights with a digest, and the optimizer state if it was kept."""
        return self.model(number, member).with_suffix(".safetensors")

    @property
    def started_from(self) -> Path:
        """The saved model that all trials of the study start from, if any."""
        return self.root / "continued_from.safetensors"

    @property
    def preparation(self) -> Path:
        """How the study prepares its data, for exported models."""
        return self.root / "preparation.json"

    @property
    def data(self) -> Path:
        """The prepared data of the study, for workers."""
        return self.staging / "data.npz"

    @property
    def shared_marker(self) -> Path:
        """A random text; workers of a cluster that read the same text see this directory."""
        return self.staging / "meeting"

    @property
    def logs(self) -> Path:
        """What workers wrote to standard output and error, and how the last session ended."""
        return self.root / "logs"

    def worker_log(self, index: int) -> Path:
        """The log of the workers in one slot, one after the other."""
        return self.logs / f"worker-{index}.log"

    @property
    def log(self) -> Path:
        """The log of the program that runs the study."""
        return self.logs / "sweeper.log"

    @property
    def staging(self) -> Path:
        """Half-written files, to be renamed to their final paths."""
        return self.root / ".staging"

    @property
    def exit_note(self) -> Path:
        """Names the process that ended in good order in the middle of a round."""
        return self.logs / "left.json"

    def own_checkpoints(self) -> list[Path]:
        """The checkpoint files; other files in their directory are left alone."""
        return _named(self.checkpoints, _CHECKPOINT)

    def own_models(self) -> list[Path]:
        """The model files; other files in their directory are left alone."""
        return _named(self.models, _MODEL)

    def own_parts(self) -> list[Path]:
        """The part files of metrics/."""
        return _named(self.metrics, _PART)

    def own_requests(self) -> list[Path]:
        """The files of requests/."""
        return _named(self.requests, _REQUEST)

    def own_logs(self) -> list[Path]:
        """The files of logs/."""
        return _named(self.logs, _LOG)

    def nested(self) -> list[Path]:
        """Where run directories may be inside this one, also those that were moved aside."""
        return sorted((*self.root.glob(f"{self.confirm.name}*"), *self.refit.glob("*")))

    def names(self) -> Iterator[Path]:
        """Every path that the study may use directly in the run directory."""
        yield from (*self.files(), self.confirm, self.staging, *self.directories())

    def files(self) -> Iterator[Path]:
        """Every file that the study may write directly into the run directory."""
        ledgers = (self.ledger, self.backup, self.damaged)
        yield from (Path(f"{path}{end}") for path in ledgers for end in _LOGS_OF_LEDGERS)
        yield from (self.lock, self.owner, self.status, self.stop, self.study_file, self.schema)
        yield self.rows
        yield from (self.trials, self.buckets, self.spans, self.importance, self.baseline)
        yield from (self.ensemble, self.trackers)
        yield from (self.preparation, self.started_from)

    def directories(self) -> Iterator[Path]:
        """The directories that contain only files of the study."""
        yield from (self.metrics, self.checkpoints, self.models, self.logs, self.refit)
        yield self.requests

    def make(self) -> None:
        """Create every directory of the run."""
        for path in (self.metrics, self.checkpoints, self.models, self.logs, self.staging):
            path.mkdir(parents=True, exist_ok=True)


def _named(directory: Path, names: re.Pattern[str]) -> list[Path]:
    """The files in a directory whose names match, sorted."""
    return sorted(path for path in directory.glob("*") if names.fullmatch(path.name))


def links_in(run_dir: RunDir) -> Iterator[tuple[Path, str]]:
    """The links among the files and directories of a study, each with what is wrong with it."""
    for path in run_dir.names():
        if path.is_symlink():
            yield path, NO_LINK
    for directory in run_dir.directories():
        if directory.is_dir() and not directory.is_symlink():
            links = (path for path in sorted(directory.iterdir()) if path.is_symlink())
            yield from ((path, NO_LINK) for path in links)


def refuse_links(run_dir: RunDir) -> None:
    """Refuse a run directory that contains a link, or whose name is not UTF-8.

    Raises:
        SetupError: with each link.
    """
    refuse_non_utf8(run_dir.root, "rename the directory")
    if found := [*links_in(run_dir)]:
        raise SetupError(Problem(str(path), "", what, HINT) for path, what in found)


def refuse_non_utf8(root: Path, hint: str) -> None:
    """Refuse a directory whose name is not UTF-8, which Arrow needs to open files in it.

    Raises:
        SetupError: its name is not UTF-8; `hint` says what to do.
    """
    try:
        str(root).encode()
    except UnicodeEncodeError:
        found = "Parquet files cannot be read in it, because its name is not UTF-8"
        raise SetupError(Problem(str(root), "", found, hint)) from None
