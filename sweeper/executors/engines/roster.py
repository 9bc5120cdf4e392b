"""The slots of a cluster: those that are free, and those that come and go with its workers."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

from sweeper.errors import Problem, SetupError
from sweeper.executors.engines.engine import BusyError, Engine, EngineGoneError, LostError, Member
from sweeper.executors.engines.remote_slot import RemoteSlot
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.retry import WorkerGivenUpError, WorkerLostError
from sweeper.executors.slot import ClosedError

# how often it is looked who is there
_LOOK_S = 1.0
# how long a cluster may take to show a first worker, and how long it may be without any later
_GATHER_S = 10.0
_PATIENCE_S = 120.0
# so often in a row may the engine give no answer
_MOST_SILENCES = 3
_ASKED_AT_ONCE = 16

_log = logging.getLogger("sweeper")

Join = Callable[[str, Member, int], RemoteSlot]


class Roster:
    """Hands out slots, `most` at once if that is given.

    `join` makes a slot of a member, of whose host so many are there, or refuses it with a
    SetupError; `warn` is told of those that are refused while a study runs.
    """

    def __init__(
        self, engine: Engine, join: Join, warn: Callable[[str], None], most: int | None
    ) -> None:
        self._engine = engine
        self._join = join
        self._warn = warn
        self._most = most
        self._changed = threading.Condition()
        self._slots: dict[str, RemoteSlot] = {}
        self._free: list[RemoteSlot] = []
        self._joining: set[str] = set()
        self._refused: set[str] = set()
        self._asking = ThreadPoolExecutor(_ASKED_AT_ONCE, thread_name_prefix="joining")
        self._has_begun = False
        self._end: SetupError | None = None
        self._is_closed = False
        self._alone_since = time.monotonic()
        self._silences = 0
        self._watching = threading.Thread(target=self._watch, daemon=True)

    def gather(self) -> None:
        """Take up all who are there, and from here on who comes.

        Raises:
            SetupError: nobody is, or one of them is refused.
        """
        until = time.monotonic() + _GATHER_S
        while not (members := self._engine.members()):
            if time.monotonic() > until:
                raise SetupError(f"{self._engine.label}: it has no workers; start some, then go on")
            time.sleep(0.1)
        asked = self._take_up(members)
        wait(asked, timeout=_GATHER_S)
        for one in asked:
            if one.done():
                one.result()
        pending = {one for one in asked if not one.done()}
        while pending and not self._slots:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for one in done:
                one.result()
        if not self._slots:
            told = "its workers do other work, and none has answered; wait, or free one"
            raise SetupError(f"{self._engine.label}: {told}")
        self._has_begun = True
        self._watching.start()

    @contextmanager
    def lease(self) -> Iterator[Lease]:
        """A slot, once there is one that is free."""
        lease = Lease(self)
        try:
            yield lease
        finally:
            lease.end()

    def take(self) -> RemoteSlot:
        """The free slot that was used last, for what it has compiled; waits for one.

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
        """Have a slot free again."""
        with self._changed:
            if self._slots.get(slot.key) is slot:
                self._free.append(slot)
                self._changed.notify()

    def lose(self, slot: RemoteSlot) -> None:
        """Do without a slot whose place is gone; if it comes back, it is another."""
        with self._changed:
            if self._slots.get(slot.key) is slot:
                del self._slots[slot.key]
                self._alone_since = time.monotonic()
        self._engine.drop(slot.key)

    def check_open(self) -> None:
        """Go on only while something is to be trained.

        Raises:
            ClosedError: nothing is, any more.
        """
        with self._changed:
            if self._is_closed:
                raise ClosedError

    def close(self) -> None:
        """Hand out nothing more."""
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
            except Exception as error:  # nobody else would wake those who wait for a slot
                told = f"cannot be watched: {type(error).__name__}: {error}"
                mend = "go on: what is committed stands"
                self._finish(SetupError(Problem(self._engine.label, "", told, mend)))
                return

    def _look(self) -> None:
        try:
            members = self._engine.members()
            self._silences = 0
        except EngineGoneError:
            self._silences += 1
            if self._silences >= _MOST_SILENCES:
                raise
            return
        with self._changed:
            idle = [slot for slot in self._free if slot.key not in members]
            self._free = [slot for slot in self._free if slot.key in members]
        for slot in idle:
            _log.info("%s is gone from the cluster", slot.place)
            self.lose(slot)
        self._take_up(members)
        if not self._slots and time.monotonic() - self._alone_since > _PATIENCE_S:
            raise SetupError(
                f"{self._engine.label}: no worker is left, and none has come in {_PATIENCE_S:g} s; "
                "start some, then go on: what is committed stands"
            )

    def _take_up(self, members: Mapping[str, Member]) -> list[Future[None]]:
        """Begin to make slots of new members."""
        with self._changed:
            known = {*self._slots, *self._joining, *self._refused}
            new = [key for key in members if key not in known]
            if self._most is not None:
                del new[max(0, self._most - len(self._slots) - len(self._joining)) :]
            self._joining.update(new)
        hosts = Counter(member.host for member in members.values())
        return [
            self._asking.submit(self._ask, key, members[key], hosts[members[key].host])
            for key in new
        ]

    def _ask(self, key: str, member: Member, beside: int) -> None:
        """Make a slot of a member; one that is gone or busy is asked again when it is seen again.

        Raises:
            SetupError: it was refused before the study began.
        """
        slot = None
        try:
            slot = self._join(key, member, beside)
            _log.info("%s on %s takes part", member.name, member.host)
        except (LostError, BusyError) as error:
            _log.debug("%s does not take part yet: %r", member.name, error)
        except SetupError as error:
            if not self._has_begun:
                raise
            self._refused.add(key)
            self._warn(f"{error}; it takes no part")
        except Exception as error:  # of an engine that loses a worker while it is asked
            if not self._has_begun:
                raise
            _log.info("%s does not take part yet: %r", member.name, error)
        finally:
            with self._changed:
                self._joining.discard(key)
                if slot is not None:
                    self._slots[key] = slot
                    self._free.insert(0, slot)
                    self._changed.notify()
            if slot is None:
                self._engine.drop(key)

    def _finish(self, error: SetupError) -> None:
        with self._changed:
            self._end = error
            self._changed.notify_all()


class Lease:
    """A slot for the tries of one bucket: the same for all of them, unless it is lost."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.slot: RemoteSlot | None = roster.take()

    @property
    def place(self) -> str:
        """What the results call it."""
        return "" if self.slot is None else self.slot.place

    def attempt(self, work: Work) -> Outcome:
        """Train `work` in the slot, or in the next where that was lost.

        Raises:
            WorkerDiedError: as `Slot.attempt`; WorkerLostError where the slot itself is gone.
            ClosedError: nothing is to be trained any more.
            SetupError: as there, or the cluster is gone.
        """
        while True:
            slot = self.slot = self.slot or self._roster.take()
            try:
                return slot.attempt(work)
            except WorkerLostError as lost:
                self._roster.lose(slot)
                self.slot = None
                self._roster.check_open()
                if not isinstance(lost, WorkerGivenUpError):
                    raise
                _log.info("%s; its bucket goes to another worker", lost.how)

    def end(self) -> None:
        """Have the slot free for others."""
        if self.slot is not None:
            self._roster.give_back(self.slot)
