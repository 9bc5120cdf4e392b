"""The slots of a cluster: those that are free, and those that come and go with its workers."""

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
from sweeper.executors.process import ClosedError

# how often it is looked who is there, and at first, when all are waited for
_LOOK_S = 1.0
_SOON_S = 0.1
# how long a cluster may take to show a first worker, and how long it may be without any later
_GATHER_S = 10.0
_PATIENCE_S = 120.0
# so often in a row may the engine give no answer
_MAX_SILENCES = 3
# an answer that takes longer is hardly coming soon: another member is asked, too
_PROMPT_S = 5.0
_ASKED_AT_ONCE = 16

_log = logging.getLogger("sweeper")


class Joining(Protocol):
    """Makes slots of members."""

    def join(self, key: str, member: ClusterWorker, neighbours: int) -> RemoteSlot:
        """The slot of a member, of whose host so many are there.

        Raises:
            SetupError: it may take no part.
        """
        ...

    def leave(self, slot: RemoteSlot) -> None:
        """What a slot had of its host is free for others."""
        ...


class Roster:
    """Hands out slots, `most` at once if that is given.

    `warn` is told of members that are refused while a study runs. Those that have not answered in
    `prompt_s` hold no place of the `most`: they may be busy, and others free.
    """

    def __init__(
        self,
        engine: Engine,
        joining: Joining,
        warn: Callable[[str], None],
        most: int | None,
        prompt_s: float = _PROMPT_S,
    ) -> None:
        self._engine = engine
        self._members = joining
        self._warn = warn
        self._most = sys.maxsize if most is None else most
        self._prompt_s = prompt_s
        self._changed = threading.Condition()
        self._slots: dict[str, RemoteSlot] = {}
        self._free: list[RemoteSlot] = []
        # since when they are asked, and how often they were in vain
        self._joining: dict[str, float] = {}
        self._vain: Counter[str] = Counter()
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
        asked: set[Future[None]] = set()
        while True:
            members = self._engine.members()
            asked.update(self._take_up(members))
            done, asked = wait(asked, timeout=_SOON_S)
            for one in done:
                one.result()
            is_late = time.monotonic() > until
            if self._slots and (is_late or not asked or len(self._slots) >= self._most):
                break
            if not members:
                if is_late:
                    told = "it has no workers; start some, then go on"
                    raise SetupError(f"{self._engine.label}: {told}")
                time.sleep(_SOON_S)
            elif not self._slots and all(self._vain[key] for key in members):
                told = "its workers do other work, and none has answered; wait, or free one"
                raise SetupError(f"{self._engine.label}: {told}")
        self._has_begun = True
        self._watching.start()

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
            self._free.append(slot)
            self._changed.notify()

    def lose(self, slot: RemoteSlot) -> None:
        """Do without a slot that was taken and is gone; if it comes back, it is another."""
        self._engine.drop(slot.key)  # as long as nobody else can be given its key
        self._members.leave(slot)
        with self._changed:
            del self._slots[slot.key]
            self._alone_since = time.monotonic()

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
                hint = "go on: what is committed stands"
                self._finish(SetupError(Problem(self._engine.label, "", told, hint)))
                return

    def _look(self) -> None:
        try:
            members = self._engine.members()
            self._silences = 0
        except EngineGoneError:
            self._silences += 1
            if self._silences >= _MAX_SILENCES:
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

    def _take_up(self, members: Mapping[str, ClusterWorker]) -> list[Future[None]]:
        """Begin to make slots of new members."""
        with self._changed:
            now = time.monotonic()
            known = {*self._slots, *self._joining, *self._refused}
            new = sorted((key for key in members if key not in known), key=self._vain.__getitem__)
            prompt = sum(now - since < self._prompt_s for since in self._joining.values())
            room = max(0, self._most - len(self._slots) - prompt)
            del new[room:]
            self._joining |= dict.fromkeys(new, now)
        hosts = Counter(member.host for member in members.values())
        return [
            self._asking.submit(self._ask, key, members[key], hosts[members[key].host])
            for key in new
        ]

    def _ask(self, key: str, member: ClusterWorker, neighbours: int) -> None:
        """Make a slot of a member; one that is gone or busy is asked again when it is seen again.

        Raises:
            SetupError: it was refused before the study began.
        """
        slot, has_joined = None, False
        try:
            if self._has_room():
                slot = self._members.join(key, member, neighbours)
                has_joined = self._add(slot)
        except (LostError, BusyError) as error:
            self._vain[key] += 1
            _log.debug("%s does not take part yet: %r", member.name, error)
        except EngineGoneError:  # it may be back soon, or the watch finds that it is not
            if not self._has_begun:
                raise
            self._vain[key] += 1
        except SetupError as error:
            if not self._has_begun:
                raise
            self._refused.add(key)
            self._warn(f"{error}; it takes no part")
        except Exception as error:  # of an engine that loses a worker while it is asked
            if not self._has_begun:
                raise
            self._vain[key] += 1
            _log.info("%s does not take part yet: %r", member.name, error)
        finally:
            if not has_joined:
                self._engine.drop(key)
                if slot is not None:
                    self._members.leave(slot)
            with self._changed:
                del self._joining[key]

    def _has_room(self) -> bool:
        with self._changed:
            return len(self._slots) < self._most

    def _add(self, slot: RemoteSlot) -> bool:
        """Have one more slot, unless others were sooner."""
        with self._changed:
            if len(self._slots) >= self._most:
                return False
            self._slots[slot.key] = slot
            self._free.insert(0, slot)
            self._changed.notify()
        _log.info("%s on %s takes part", slot.place, slot.member.host)
        return True

    def _finish(self, error: SetupError) -> None:
        with self._changed:
            self._end = error
            self._changed.notify_all()
