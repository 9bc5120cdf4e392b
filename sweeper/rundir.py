"""Every path of a run directory, in one place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CHECKPOINT = re.compile(r"r\d+-b\d+.*\.safetensors")
_MODEL = re.compile(r"trial-\d+(-\d+)?\.(eqx|safetensors)")
_PART = re.compile(r"part-.*\.parquet")
_LOGS_OF_LEDGERS = ("", "-wal", "-shm", "-journal")  # as SQLite names them


@dataclass(frozen=True, slots=True)
class RunDir:
    """The directory `root` that holds everything of one study."""

    root: Path

    @property
    def study_file(self) -> Path:
        """The study file as first run."""
        return self.root / "study.toml"

    @property
    def ledger(self) -> Path:
        """The SQLite file that is the truth of the study."""
        return self.root / "ledger.db"

    @property
    def backup(self) -> Path:
        """A copy of the ledger, some minutes old at most."""
        return self.root / "ledger.backup.db"

    @property
    def damaged(self) -> Path:
        """A ledger that was damaged, where the copy was put back in its place."""
        return self.root / "ledger.damaged.db"

    @property
    def lock(self) -> Path:
        """Held by the one process that runs the study."""
        return self.root / "ledger.lock"

    @property
    def owner(self) -> Path:
        """Which process runs the study, where the file system has no locks."""
        return self.root / "ledger.lock.owner"

    @property
    def status(self) -> Path:
        """What `status` reads; rewritten atomically."""
        return self.root / "status.json"

    @property
    def stop(self) -> Path:
        """There where somebody has asked the study to stop; removed when it has."""
        return self.root / "stop"

    @property
    def importance(self) -> Path:
        """How much each parameter matters for each objective; replaced atomically."""
        return self.root / "importance.parquet"

    @property
    def confirm(self) -> Path:
        """The run directory of its finalists, trained again with fresh seeds."""
        return self.root / "confirm"

    @property
    def refit(self) -> Path:
        """The run directories of trials that were trained again on more rows, a number each."""
        return self.root / "refit"

    @property
    def schema(self) -> Path:
        """What the columns of the published tables mean, for people."""
        return self.root / "SCHEMA.md"

    @property
    def trials(self) -> Path:
        """One row a finished trial; replaced atomically."""
        return self.root / "trials.parquet"

    @property
    def buckets(self) -> Path:
        """One row a bucket and round; replaced atomically."""
        return self.root / "buckets.parquet"

    @property
    def spans(self) -> Path:
        """What the program, its threads and its workers did, and when; replaced atomically."""
        return self.root / "spans.parquet"

    @property
    def metrics(self) -> Path:
        """The directory of immutable parts; nothing but whole parts is ever in it."""
        return self.root / "metrics"

    @property
    def checkpoints(self) -> Path:
        """Unfinished lanes of the last round."""
        return self.root / "checkpoints"

    @property
    def models(self) -> Path:
        """The weights of the best trials."""
        return self.root / "models"

    def model(self, number: int, member: int = 0) -> Path:
        """The weights of a member of trial `number`, if they are kept."""
        which = f"-{member}" if member else ""
        return self.models / f"trial-{number:06d}{which}.eqx"

    def saved(self, number: int, member: int = 0) -> Path:
        """The same with its digest, and the state of its optimizer where that is kept."""
        return self.model(number, member).with_suffix(".safetensors")

    @property
    def started_from(self) -> Path:
        """The saved model that all trials of the study start from, if they do."""
        return self.root / "continued_from.safetensors"

    @property
    def preparation(self) -> Path:
        """What a model has to be told of the study's data, for exports."""
        return self.root / "preparation.json"

    @property
    def data(self) -> Path:
        """The prepared data of the study, for workers."""
        return self.staging / "data.npz"

    @property
    def meeting(self) -> Path:
        """What a session writes for machines of a cluster to find, if they see the directory."""
        return self.staging / "meeting"

    @property
    def logs(self) -> Path:
        """What workers wrote to their standard output and error, and how the last session left."""
        return self.root / "logs"

    def worker_log(self, index: int) -> Path:
        """That of the workers in one place, one after the other."""
        return self.logs / f"worker-{index}.log"

    @property
    def log(self) -> Path:
        """What the program that runs the study did."""
        return self.logs / "sweeper.log"

    @property
    def staging(self) -> Path:
        """Half-written files, to be renamed into place."""
        return self.root / ".staging"

    @property
    def left(self) -> Path:
        """Which process left the study in good order, in the middle of a round."""
        return self.logs / "left.json"

    def own_checkpoints(self) -> list[Path]:
        """The checkpoints that are there; other files stay whatever happens."""
        return _named(self.checkpoints, _CHECKPOINT)

    def own_models(self) -> list[Path]:
        """The files of models that are there."""
        return _named(self.models, _MODEL)

    def own_parts(self) -> list[Path]:
        """The parts of metrics/ that are there."""
        return _named(self.metrics, _PART)

    def names(self) -> Iterator[Path]:
        """Every path directly in the run directory that the study may use, there or not."""
        ledgers = (self.ledger, self.backup, self.damaged)
        yield from (Path(f"{path}{end}") for path in ledgers for end in _LOGS_OF_LEDGERS)
        yield from (self.lock, self.owner, self.status, self.stop, self.study_file, self.schema)
        yield from (self.trials, self.buckets, self.spans, self.importance)
        yield from (self.preparation, self.started_from, self.confirm, self.staging)
        yield from self.directories()

    def directories(self) -> Iterator[Path]:
        """The directories of the study that nobody else has files in."""
        yield from (self.metrics, self.checkpoints, self.models, self.logs, self.refit)

    def make(self) -> None:
        """Create every directory of the run."""
        for path in (self.metrics, self.checkpoints, self.models, self.logs, self.staging):
            path.mkdir(parents=True, exist_ok=True)


def _named(directory: Path, names: re.Pattern[str]) -> list[Path]:
    """The files in a directory with such names, in their order."""
    return sorted(path for path in directory.glob("*") if names.fullmatch(path.name))
