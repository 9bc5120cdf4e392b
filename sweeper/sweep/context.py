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
    """Study, ledger, training, files and policy of a sweep.

    `boundary` is the text with which its session marks rows, if any. `ahead_after` is how many
    trials must have ended before proposals are drawn while others train, and `busy_with` how many
    trials keep a machine busy in the meantime. `crashes` is how often the program died during the
    open round. `timeline` records what everything does. `requests` are what users ask meanwhile.
    """

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
    clock: Callable[[], float] = time.time
    ahead_after: int = 200
    busy_with: int = 128
    crashes: int = 0
    timeline: Timeline = field(default_factory=Timeline)
    requests: Requests = field(default_factory=Requests)
