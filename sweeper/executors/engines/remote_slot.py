"""A slot on another machine, as seen from this one."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from uuid import uuid4

from sweeper.errors import SetupError
from sweeper.executors.engines.engine import ClusterWorker, Engine, GivenUpError, LostError
from sweeper.executors.engines.remote_worker import Opening
from sweeper.executors.environment import FLAGS
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.process_executor import ClosedError
from sweeper.executors.retry import WorkerDiedError, WorkerGivenUpError, WorkerLostError
from sweeper.faults import VARIABLE
from sweeper.trial import Place

# environment variables that workers inherit, like those on this machine
_INHERITED = (*FLAGS, VARIABLE)


@dataclass(frozen=True, slots=True)
class RemoteSlot:
    """The slot of the worker of `engine` with this `key`, opened with `opening`."""

    engine: Engine
    key: str
    worker: ClusterWorker
    opening: Opening

    @property
    def place(self) -> str:
        """Its name in the results."""
        return self.worker.name

    def attempt(self, work: Work) -> Outcome:
        """Train `work` there.

        Raises:
            WorkerDiedError: as `Slot.attempt`; WorkerLostError if the slot itself is gone,
            WorkerGivenUpError if it was given up.
            SetupError: as there, or the engine is gone.
        """
        started_at = time.time()
        # a slot that was given up may still be working, and write its checkpoint
        marked = replace(work, checkpoint_suffix=f"-{uuid4().hex[:8]}")
        try:
            given = self.engine.train(self.key, self._opening(), marked)
        except GivenUpError as lost:
            raise self._lost(str(lost), started_at, WorkerGivenUpError) from lost
        except LostError as lost:
            raise self._lost(str(lost), started_at) from lost
        if isinstance(given, Outcome) and given.bucket == work.bucket:
            return given
        if isinstance(given, WorkerDiedError | SetupError):
            raise given
        kind = WorkerGivenUpError if isinstance(given, ClosedError) else WorkerLostError
        raise self._lost("gave up its place", started_at, kind)

    def _opening(self) -> Opening:
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return replace(self.opening, variables=inherited)

    def _lost(
        self, how: str, started_at: float, kind: type[WorkerLostError] = WorkerLostError
    ) -> WorkerLostError:
        place = Place(self.place, "", self.worker.host, None, None, None)
        return kind(f"{self.place} {how}", place, started_at)
