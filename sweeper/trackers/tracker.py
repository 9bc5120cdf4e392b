"""What an experiment tracker is given of a study, and what it must be able to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from sweeper.errors import Problem, SetupError
from sweeper.trial import Scalar

_NAME = re.compile(r"\w+")


class TrackerName(StrEnum):
    """The trackers; their names are also those of the extras."""

    MLFLOW = "mlflow"
    WANDB = "wandb"
    TENSORBOARD = "tensorboard"


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """A study as one run: its search space, its progress and its best trial.

    `key` is unique to the run directory. `settings` has tables in tables, as in the study file;
    `space` has each search entry by the name of its parameter. `numbers` and `texts` are its
    outcome so far; times are seconds since 1970.
    """

    key: str
    name: str
    state: str
    settings: Mapping[str, Any]
    space: Mapping[str, Mapping[str, Any]]
    metrics: Sequence[str]
    numbers: Mapping[str, float]
    texts: Mapping[str, str]
    began_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class Point:
    """The values of the `step`-th trial that ended, counted from 1, and the best value so far."""

    step: int
    time: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """A finished trial as one run.

    `curves` has the value after each epoch, by metric; `numbers` and `texts` are other columns of
    `trials.parquet` that are not null. Times are seconds since 1970.
    """

    number: int
    state: str
    params: Mapping[str, Scalar]
    numbers: Mapping[str, float]
    texts: Mapping[str, str]
    curves: Mapping[str, Mapping[int, float]]
    began_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class Logged:
    """What a tracker already has of a study: how many points, and which trials."""

    points: int = 0
    trials: frozenset[int] = frozenset()


class Tracker(Protocol):
    """A place that keeps runs; `start` comes first, and `close` last, also after an error.

    Raises:
        SetupError: it cannot be reached, or refuses what it is given.
    """

    def start(self, study: StudyRecord) -> Logged:
        """Open the run of the study, or make it; returns what it has."""
        ...

    def log_points(self, points: Sequence[Point]) -> None:
        """Add points to the run of the study, in order of their steps."""
        ...

    def log_trial(self, trial: TrialRecord) -> None:
        """Make the run of a trial, below that of the study, complete or not at all."""
        ...

    def finish(self, study: StudyRecord, files: Mapping[str, Path]) -> str:
        """Update the run of the study, with files and directories by name; says where it is."""
        ...

    def close(self) -> None:
        """Release what `start` opened."""
        ...


def by_dotted_key(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Tables in tables as one, with dotted keys; settings without a value are left out.

    A table whose keys are not names, such as class labels, remains one value.
    """
    found: dict[str, Any] = {}
    for name, value in tables.items():
        if isinstance(value, Mapping) and all(map(_NAME.fullmatch, value)):
            found |= by_dotted_key(value, f"{prefix}{name}.")
        elif value is not None:
            found[f"{prefix}{name}"] = value
    return found


@contextmanager
def explain_errors(kind: type[Exception], service: str, hint: str) -> Iterator[None]:
    """Raise errors of a tracker's library as SetupError, with what to do."""
    try:
        yield
    except kind as error:
        raise SetupError(Problem(service, "", str(error), hint)) from error


def value_text(value: Any) -> str:
    """A value as trackers show it: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
