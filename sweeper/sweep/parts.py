"""The components of a sweep, which its creator chooses; tests use fakes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sweeper.config import StudyConfig
from sweeper.executors.executor import TrainRound
from sweeper.ledger import Ledger
from sweeper.results.timeline import Timeline
from sweeper.scheduler.classes import Policy
from sweeper.scheduler.signature import StructureOf
from sweeper.trial import TrialSpec


class Store(Protocol):
    """The files next to the ledger: checkpoints of live lanes, weights of the best trials."""

    def keep_model(
        self, spec: TrialSpec, checkpoint: str, digest: str, row: Mapping[str, Any]
    ) -> None:
        """Save a trial's weights from the checkpoint of its last round; `row` is its final row."""
        ...

    def tidy(self, checkpoints: set[str], models: set[int]) -> None:
        """Remove every checkpoint and model that is not named."""
        ...


@dataclass(frozen=True, slots=True)
class SweepContext:
    """Study, ledger, training, files and policy of a sweep.

    `boundary` is the text with which its session marks rows, if any. `ahead_after` is how many
    trials must have ended before proposals are drawn while others train, and `busy_with` how many
    trials keep a machine busy in the meantime. `deaths` is how often the program died during the
    open round. `timeline` records what everything does.
    """

    config: StudyConfig
    ledger: Ledger
    train: TrainRound
    store: Store
    structure_of: StructureOf
    policy: Policy
    metrics: tuple[str, ...]
    test_metrics: tuple[str, ...]
    run_id: str
    boundary: str | None = None
    clock: Callable[[], float] = time.time
    ahead_after: int = 200
    busy_with: int = 128
    deaths: int = 0
    timeline: Timeline = field(default_factory=Timeline)
