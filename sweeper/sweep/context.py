"""The components of a sweep, which its creator chooses; tests use fakes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sweeper.config import StudyConfig
from sweeper.executors.executor import TrainRound
from sweeper.ledger import Ledger
from sweeper.results.timeline import Timeline
from sweeper.scheduler.classes import Policy
from sweeper.scheduler.signature import StructureOf
from sweeper.sweep.requests import Requests
from sweeper.sweep.store import RunStore


@dataclass(frozen=True, slots=True)
class SweepContext:
    """Study, ledger, training, files and policy of a sweep."""

    config: StudyConfig
    ledger: Ledger
    train: TrainRound
    store: RunStore
    structure_of: StructureOf
    policy: Policy
    metrics: tuple[str, ...]
    test_metrics: tuple[str, ...]
    run_id: str
    boundary: str | None = None
    """The text with which its session marks rows, if any."""
    clock: Callable[[], float] = time.time
    """The time of day that rows record."""
    timer: Callable[[], float] = time.monotonic
    """Measures how long the session takes, even if the time of day is changed meanwhile."""
    ahead_after: int = 200
    """How many trials must have ended before proposals are drawn while others train."""
    busy_with: int = 128
    """How many trials keep a machine busy while proposals are drawn."""
    crashes: int = 0
    """How often the program died during the open round."""
    timeline: Timeline = field(default_factory=Timeline)
    """Records what everything does."""
    requests: Requests = field(default_factory=Requests)
    """What users request while the study runs."""
