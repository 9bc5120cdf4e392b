"""Faults on purpose: instants at which the program can be made to die, to fail or to wait.

    SWEEPER_FAULT="ledger.close:end=kill@3"          the third time, when the round was committed
    SWEEPER_FAULT="checkpoint.sync:begin=raise:ENOSPC, train:begin=delay:0.5"

Each step of `Step` has two instants, before it (`begin`) and after it (`end`). An action strikes at
one passing of its instant, the first unless another is named: `kill` is SIGKILL to this process,
`raise` a `Fault`, `raise:NAME` an OSError of that error number, `oom` what XLA raises where memory
ran out, `delay:SECONDS` a pause, and `hold:PATH` makes the file PATH and waits until somebody
removes it. Workers inherit the variable and count for themselves. Without it nothing is done at
all.

"A crash" in tests is `raise` without a name: nothing in the package catches a `Fault` for good.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

VARIABLE = "SWEEPER_FAULT"
_LOOKS_S = 0.01


class Step(StrEnum):
    """What can be struck, in the order of a study."""

    MAKE_DIRECTORY = "directory.make"
    CREATE_LEDGER = "ledger.create"
    ADD_SESSION = "ledger.session"
    COPY_STUDY = "study.copy"
    NOTE_PREPARATION = "preparation.note"
    ASK = "study.ask"
    PLAN = "plan"
    OPEN_ROUND = "ledger.open"
    SEND_DATA = "worker.data"
    START_WORKER = "worker.start"
    COMPILE = "compile"
    TRAIN = "train"
    WRITE_CHECKPOINT = "checkpoint.write"
    SYNC_CHECKPOINT = "checkpoint.sync"
    RETURN_OUTCOME = "worker.return"
    ASK_AHEAD = "study.ask_ahead"
    DECIDE = "study.decide"
    KEEP_MODEL = "model.keep"
    CLOSE_ROUND = "ledger.close"
    COMMIT = "ledger.commit"
    TIDY = "tidy"
    BACK_UP = "ledger.backup"
    PUBLISH_PART = "publish.part"
    PUBLISH_TABLES = "publish.tables"
    WRITE_STATUS = "status.write"
    SYNC_FILE = "file.sync"
    RENAME_FILE = "file.rename"
    RESTORE = "restore"


INSTANTS = tuple(f"{step}:{edge}" for step in Step for edge in ("begin", "end"))


class Fault(BaseException):
    """What `raise` raises: no handler of errors may mistake it for one."""


class FaultPlanError(ValueError):
    """The variable says what no fault is."""


@dataclass(frozen=True, slots=True)
class Action:
    """What strikes at passing number `at` of `instant`: `kind` with its `argument`."""

    instant: str
    kind: str
    argument: str = ""
    at: int = 1

    def strike(self) -> None:
        """Do it."""
        match self.kind:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "delay":
                time.sleep(float(self.argument))
            case "oom":
                raise RuntimeError(f"RESOURCE_EXHAUSTED: Out of memory (fault at {self.instant})")
            case "hold":
                held = Path(self.argument)
                held.touch()
                while held.exists():
                    time.sleep(_LOOKS_S)
            case _ if self.argument:
                number = getattr(errno, self.argument)
                raise OSError(number, f"{os.strerror(number)} (fault at {self.instant})")
            case _:
                raise Fault(self.instant)


_ACTION = re.compile(r"([\w.]+:\w+)=(kill|raise|delay|oom|hold)(?::([^@]+))?(?:@(\d+))?")
_SECONDS = re.compile(r"\d+(\.\d+)?")


def read_plan(text: str) -> tuple[Action, ...]:
    """The actions that `text` asks for, separated by commas.

    Raises:
        FaultPlanError: with the part that cannot be read.
    """
    return tuple(_action(part.strip()) for part in text.split(",") if part.strip())


def _action(text: str) -> Action:
    found = _ACTION.fullmatch(text)
    if found is None:
        raise FaultPlanError(
            f"{VARIABLE}: '{text}' is none; write INSTANT=kill, raise, oom, delay:S or hold:FILE"
        )
    instant, kind, argument, at = found.groups(default="")
    if instant not in INSTANTS:
        raise FaultPlanError(f"{VARIABLE}: no instant '{instant}'; there are {', '.join(INSTANTS)}")
    if kind == "raise" and argument and not hasattr(errno, argument):
        raise FaultPlanError(f"{VARIABLE}: no error number '{argument}'; write one as ENOSPC")
    if kind == "delay" and not _SECONDS.fullmatch(argument):
        raise FaultPlanError(f"{VARIABLE}: a pause needs its seconds; write delay:0.5")
    if kind == "hold" and not argument:
        raise FaultPlanError(f"{VARIABLE}: a hold needs the file that it makes; write hold:PATH")
    if at == "0":
        raise FaultPlanError(f"{VARIABLE}: '{text}' strikes never; passings count from 1")
    return Action(instant, kind, argument, int(at or 1))


class _Plan:
    """The actions to come, and how often each instant was passed; for all threads together."""

    def __init__(self, actions: Iterable[Action]) -> None:
        self._actions = tuple(actions)
        self._passed: Counter[str] = Counter()
        self._lock = threading.Lock()

    def passing(self, instant: str) -> None:
        """Do what is to be done at this passing."""
        with self._lock:
            self._passed[instant] += 1
            count = self._passed[instant]
        for action in self._actions:
            if (action.instant, action.at) == (instant, count):
                action.strike()

    def passed(self) -> Counter[str]:
        """How often each instant was passed."""
        return Counter(self._passed)


_plan: _Plan | None = None


def plan_faults(text: str | None) -> None:
    """Do from here on what `text` asks for; nothing where it is empty, or there is none.

    Raises:
        FaultPlanError: it cannot be read.
    """
    global _plan
    _plan = _Plan(read_plan(text)) if text else None


@contextmanager
def counting() -> Generator[Counter[str]]:
    """How often each instant is passed in the block, told when it ends; nothing strikes."""
    global _plan
    before, _plan = _plan, _Plan(())
    passed: Counter[str] = Counter()
    try:
        yield passed
    finally:
        passed.update(_plan.passed())
        _plan = before


class _Instants:
    """The two instants of a step, around a block."""

    __slots__ = ("_step",)

    def __init__(self, step: Step) -> None:
        self._step = step

    def __enter__(self) -> None:
        if _plan is not None:
            _plan.passing(f"{self._step}:begin")

    def __exit__(self, kind: object, *_: object) -> None:
        if _plan is not None and kind is None:
            _plan.passing(f"{self._step}:end")


_steps = {step: _Instants(step) for step in Step}


def fault_points(step: Step) -> _Instants:
    """A context for the block that is `step`."""
    return _steps[step]
