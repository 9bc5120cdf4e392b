"""Trains buckets in the slots of a cluster, which come and go with its workers."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Protocol

from sweeper.errors import Problem, SetupError
from sweeper.executors.engines.engine import (
    BusyError,
    ClusterWorker,
    Engine,
    EngineGoneError,
    LostError,
)
from sweeper.executors.engines.remote_slot import RemoteSlot
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.process_executor import ClosedError
from sweeper.executors.retry import WorkerGivenUpError, WorkerLostError, train_observed
from sweeper.results.events import Observer

# how often to look for workers: later, and at first, while all are awaited
_LOOK_S = 1.0
_SOON_S = 0.1
# how long a cluster may take to show a first worker, or be without any later
_GATHER_S = 10.0
_PATIENCE_S = 120.0
# how often in a row the engine may fail to answer
_MAX_FAILED_POLLS = 3
# a later answer is unlikely to come soon, so another worker is asked too
_PROMPT_S = 5.0
_ASKED_AT_ONCE = 16
# one thread per bucket that is training or waiting for a slot
_MAX_THREADS = 1024

_log = logging.getLogger("sweeper")


class SlotFactory(Protocol):
    """Makes slots of workers."""

    def join(self, key: str, worker: ClusterWorker, neighbours: int) -> RemoteSlot:
        """The slot of a worker; `neighbours` is the number of workers on its host.

        Raises:
            SetupError: it is not suitable.
        """
        ...

    def leave(self, slot: RemoteSlot) -> None:
        """Free what a slot used of its host."""
        ...


class WorkerPool:
    """Hands out slots, at most `most` at once if given.

    `warn` is called with workers that are refused while a study runs. Workers that have not
    answered within `prompt_s` do not count towards `most`: they may be busy while others are free.
    """

    def __init__(
        self,
        engine: Engine,
        slot_factory: SlotFactory,
        warn: Callable[[str], None],
        most: int | None,
        prompt_s: float = _PROMPT_S,
    ) -> None:
        self._engine = engine
        self._slot_factory = slot_factory
        self._warn = warn
        self._most = sys.maxsize if most is None else most
        self._prompt_s = prompt_s
        self._changed = threading.Condition()
        self._slots: dict[str, RemoteSlot] = {}
        self._free: list[RemoteSlot] = []
        # since when they have been asked, and how often that failed
        self._joining: dict[str, float] = {}
        self._failed_joins: Counter[str] = Counter()
        self._refused: set[str] = set()
        self._asking = ThreadPoolExecutor(_ASKED_AT_ONCE, thread_name_prefix="joining")
        self._has_begun = False
        self._end: SetupError | None = None
        self._is_closed = False
        self._alone_since = time.monotonic()
        self._failed_polls = 0
        self._watching = threading.Thread(target=self._watch, daemon=True)

    def gather(self) -> None:
        """Take all workers that are there, and any that come later.

        Raises:
            SetupError: there are none, or one of them is refused.
        """
        until = time.monotonic() + _GATHER_S
        asked: set[Future[None]] = set()
        while True:
            workers = self._engine.workers()
            asked.update(self._take_up(workers))
            done, asked = wait(asked, timeout=_SOON_S)
            for one in done:
                one.result()
            is_late = time.monotonic() > until
            if self._slots and (is_late or not asked or len(self._slots) >= self._most):
                break
            if not workers:
                if is_late:
                    hint = "start some, then try again"
                    raise SetupError(Problem(self._engine.label, "", "it has no workers", hint))
                time.sleep(_SOON_S)
            elif not self._slots and all(self._failed_joins[key] for key in workers):
                found = "its workers are busy with other work or lost, and none has answered"
                hint = "wait, free one, or start others"
                raise SetupError(Problem(self._engine.label, "", found, hint))
        self._has_begun = True
        self._watching.start()

    def take(self) -> RemoteSlot:
        """The free slot that was used last, since it has compiled programs; waits for one.

        Raises:
            ClosedError: nothing is to be trained any more.
            SetupError: the cluster is gone.
        """
        with self._changed:
            while True:
                if self._is_closed:
                    raise ClosedError
                if self._end is not None:
                    raise self._end
                if self._free:
                    return self._free.pop()
                self._changed.wait()

    def give_back(self, slot: RemoteSlot) -> None:
        """Mark a slot as free again."""
        with self._changed:
            self._free.append(slot)
            self._changed.notify_all()  # the watch waits, too, and would keep a single wake-up

    def lose(self, slot: RemoteSlot) -> None:
        """Remove a slot that was taken and is gone; if it comes back, it is a new one."""
        self._engine.drop(slot.key)  # before another worker can get its key
        self._slot_factory.leave(slot)
        with self._changed:
            del self._slots[slot.key]
            self._alone_since = time.monotonic()

    def check_open(self) -> None:
        """Check that something is still to be trained.

        Raises:
            ClosedError: nothing is.
        """
        with self._changed:
            if self._is_closed:
                raise ClosedError

    def close(self) -> None:
        """Hand out no more slots."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._asking.shutdown(wait=False, cancel_futures=True)
        if self._watching.ident is not None:
            self._watching.join()

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, _LOOK_S)
                if self._is_closed:
                    return
            try:
                self._look()
            except SetupError as error:
                self._finish(error)
                return
            except Exception as error:  # nothing else would wake threads that wait for a slot
                found = f"cannot be watched: {type(error).__name__}: {error}"
                hint = "resume the study: committed rounds are kept"
                self._finish(SetupError(Problem(self._engine.label, "", found, hint)))
                return

    def _look(self) -> None:
        try:
            workers = self._engine.workers()
            self._failed_polls = 0
        except EngineGoneError:
            self._failed_polls += 1
            if self._failed_polls >= _MAX_FAILED_POLLS:
                raise
            return
        with self._changed:
            idle = [slot for slot in self._free if slot.key not in workers]
            self._free = [slot for slot in self._free if slot.key in workers]
        for slot in idle:
            _log.info("%s is gone from the cluster", slot.place)
            self.lose(slot)
        self._take_up(workers)
        if not self._slots and time.monotonic() - self._alone_since > _PATIENCE_S:
            found = f"no worker is left, and none has joined for {_PATIENCE_S:g} s"
            hint = "start some, then resume the study: committed rounds are kept"
            raise SetupError(Problem(self._engine.label, "", found, hint))

    def _take_up(self, workers: Mapping[str, ClusterWorker]) -> list[Future[None]]:
        """Start to make slots of new workers."""
        with self._changed:
            now = time.monotonic()
            known = {*self._slots, *self._joining, *self._refused}
            new = sorted(
                (key for key in workers if key not in known), key=self._failed_joins.__getitem__
            )
            prompt = sum(now - since < self._prompt_s for since in self._joining.values())
            room = max(0, self._most - len(self._slots) - prompt)
            del new[room:]
            self._joining |= dict.fromkeys(new, now)
        hosts = Counter(worker.host for worker in workers.values())
        return [
            self._asking.submit(self._ask, key, workers[key], hosts[workers[key].host])
            for key in new
        ]

    def _ask(self, key: str, worker: ClusterWorker, neighbours: int) -> None:
        """Make a slot of a worker; a lost or busy one is asked again when it is seen again.

        Raises:
            SetupError: it was refused before the study began.
        """
        slot, has_joined = None, False
        try:
            if self._has_room():
                slot = self._slot_factory.join(key, worker, neighbours)
                has_joined = self._add(slot)
        except (LostError, BusyError) as error:
            self._failed_joins[key] += 1
            _log.debug("%s has not joined yet: %r", worker.name, error)
        except EngineGoneError:  # it may be back soon, or the watch notices that it is not
            if not self._has_begun:
                raise
            self._failed_joins[key] += 1
        except SetupError as error:
            if not self._has_begun:
                raise
            self._refused.add(key)
            self._warn(f"{error}; it is not used")
        except Exception as error:  # an engine may lose a worker while it is asked
            if not self._has_begun:
                raise
            self._failed_joins[key] += 1
            _log.info("%s has not joined yet: %r", worker.name, error)
        finally:
            if not has_joined:
                self._engine.drop(key)
                if slot is not None:
                    self._slot_factory.leave(slot)
            with self._changed:
                del self._joining[key]

    def _has_room(self) -> bool:
        with self._changed:
            return len(self._slots) < self._most

    def _add(self, slot: RemoteSlot) -> bool:
        """Add a slot, unless others were faster."""
        with self._changed:
            if len(self._slots) >= self._most:
                return False
            self._slots[slot.key] = slot
            self._free.insert(0, slot)
            self._changed.notify_all()
        _log.info("%s on %s has joined", slot.place, slot.worker.host)
        return True

    def _finish(self, error: SetupError) -> None:
        with self._changed:
            self._end = error
            self._changed.notify_all()


class Lease:
    """A slot for all tries of one bucket, as soon as one is free; replaced only if it is lost."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self.slot: RemoteSlot | None = pool.take()

    @property
    def place(self) -> str:
        """Its name in the results."""
        return "" if self.slot is None else self.slot.place

    def attempt(self, work: Work) -> Outcome:
        """Train `work` in the slot, or in another one if it was lost.

        Raises:
            WorkerDiedError: as `Slot.attempt`; WorkerLostError if the slot itself is gone.
            ClosedError: nothing is to be trained any more.
            SetupError: as there, or the cluster is gone.
        """
        while True:
            slot = self.slot = self.slot or self._pool.take()
            try:
                return slot.attempt(work)
            except WorkerLostError as lost:
                self._pool.lose(slot)
                self.slot = None
                self._pool.check_open()
                if not isinstance(lost, WorkerGivenUpError):
                    raise
                _log.info("%s; its bucket goes to another worker", lost.how)

    def end(self) -> None:
        """Free the slot for others."""
        if self.slot is not None:
            self._pool.give_back(self.slot)


class EngineExecutor:
    """Trains buckets in the free slots of `pool`."""

    def __init__(self, engine: Engine, pool: WorkerPool, retries: int, observer: Observer) -> None:
        self._engine = engine
        self._pool = pool
        self._retries = retries
        self._observer = observer
        self._threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="engine")

    def submit(self, work: Work) -> Future[Outcome]:
        """Queue `work`; the first free slot takes it."""
        return self._threads.submit(self._train, work)

    def close(self) -> None:
        """End all work for this study on the cluster at once."""
        self._pool.close()
        self._engine.close()
        self._threads.shutdown(cancel_futures=True)

    def _train(self, work: Work) -> Outcome:
        lease = Lease(self._pool)
        try:
            return train_observed(work, lease.place, lease.attempt, self._retries, self._observer)
        finally:
            lease.end()
