"""Deliberate faults for tests: points at which the program can be killed, fail or wait.

    SWEEPER_FAULT="ledger.close:end=kill@3"          the third time that a round was committed
    SWEEPER_FAULT="checkpoint.sync:begin=raise:ENOSPC, train:begin=delay:0.5"

Each step of `Step` has two instants, before it (`begin`) and after it (`end`). An action happens
the first time that its instant is reached, or the n-th time with `@n`: `kill` sends SIGKILL to this
process, `raise` raises a `Fault`, `raise:NAME` an OSError with that error number, `oom` the error
that XLA raises if memory runs out, `delay:SECONDS` waits, and `hold:PATH` creates the file PATH and
waits until it is removed. Workers inherit the variable and count for themselves. Without the
variable nothing happens.

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
    """The steps at which a fault can happen, in the order of a study."""

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
    """Raised by `raise`; a BaseException, so that no error handler catches it by mistake."""


class FaultPlanError(ValueError):
    """The variable does not describe valid faults."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do the `at`-th time that `instant` is reached: `kind` with its `argument`."""

    instant: str
    kind: str
    argument: str = ""
    at: int = 1

    def strike(self) -> None:
        """Carry out the action."""
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
    """The actions that `text` describes, separated by commas.

    Raises:
        FaultPlanError: with the part that cannot be read.
    """
    return tuple(_action(part.strip()) for part in text.split(",") if part.strip())


def _action(text: str) -> Action:
    found = _ACTION.fullmatch(text)
    if found is None:
        raise FaultPlanError(
            f"{VARIABLE}: invalid fault '{text}'; use INSTANT=kill|raise|oom|delay:S|hold:PATH"
        )
    instant, kind, argument, at = found.groups(default="")
    if instant not in INSTANTS:
        raise FaultPlanError(f"{VARIABLE}: no instant '{instant}'; use {', '.join(INSTANTS)}")
    if kind == "raise" and argument and not hasattr(errno, argument):
        raise FaultPlanError(f"{VARIABLE}: no error number '{argument}'; write one such as ENOSPC")
    if kind == "delay" and not _SECONDS.fullmatch(argument):
        raise FaultPlanError(f"{VARIABLE}: delay needs a number of seconds; write delay:0.5")
    if kind == "hold" and not argument:
        raise FaultPlanError(f"{VARIABLE}: hold needs the file to create; write hold:PATH")
    if at == "0":
        raise FaultPlanError(f"{VARIABLE}: '{text}' never happens; counts start at 1")
    return Action(instant, kind, argument, int(at or 1))


class _Plan:
    """The actions still to come, and how often each instant was reached, over all threads."""

    def __init__(self, actions: Iterable[Action]) -> None:
        self._actions = tuple(actions)
        self._passed: Counter[str] = Counter()
        self._lock = threading.Lock()

    def passing(self, instant: str) -> None:
        """Count the instant, and carry out the action planned for it."""
        with self._lock:
            self._passed[instant] += 1
            count = self._passed[instant]
        for action in self._actions:
            if (action.instant, action.at) == (instant, count):
                action.strike()

    def passed(self) -> Counter[str]:
        """How often each instant was reached."""
        return Counter(self._passed)


_plan: _Plan | None = None


def plan_faults(text: str | None) -> None:
    """Use the faults that `text` describes from now on; none if it is empty or None.

    Raises:
        FaultPlanError: it cannot be read.
    """
    global _plan
    _plan = _Plan(read_plan(text)) if text else None


@contextmanager
def counting() -> Generator[Counter[str]]:
    """Count how often each instant is reached in the block; no fault happens."""
    global _plan
    before, _plan = _plan, _Plan(())
    passed: Counter[str] = Counter()
    try:
        yield passed
    finally:
        passed.update(_plan.passed())
        _plan = before


class _Instants:
    """A context manager with the two instants of a step."""

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
    """A context manager for the block that is `step`."""
    return _steps[step]
