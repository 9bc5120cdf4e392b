"""The log file of a run: lines with times and levels, in addition to the live view."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import MemoryHandler
from pathlib import Path
from typing import Any, Literal

from sweeper.errors import printable
from sweeper.files import make_directory, open_inside
from sweeper.results import formatting
from sweeper.results.events import (
    BucketFinished,
    BucketStarted,
    CompileFinished,
    CompilePlanned,
    CompileStarted,
    Event,
    Observer,
    RoundClosed,
    RoundStarted,
    StudyOpened,
    Warned,
)
from sweeper.rundir import RunDir

Level = Literal["debug", "info", "warning", "error"]
_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_KEPT = 10_000  # lines to keep until the run directory exists
_own = logging.getLogger("sweeper")
_events = logging.getLogger("sweeper.events")


@contextmanager
def log_events(observer: Observer, file: Path | None, level: Level) -> Iterator[Observer]:
    """An observer that also logs the events it receives, and whatever the package logs.

    The log goes to `file`, or else to `logs/` of the run directory once that exists, so that a
    refused study leaves no log. Warnings also go to standard error.
    """
    keeper = MemoryHandler(_KEPT, flushLevel=logging.CRITICAL + 1)
    keeper.setLevel(level.upper())
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        _begin(keeper, logging.FileHandler(file, encoding="utf-8"))
    stderr_handler = logging.StreamHandler()
    stderr_handler.setLevel(logging.WARNING)
    stderr_handler.setFormatter(_Printable())

    def observed(event: Event) -> None:
        if isinstance(event, StudyOpened) and keeper.target is None:
            _begin(keeper, _LogHandler(RunDir(event.run_dir)))
        _log(event)
        if keeper.target is not None:
            keeper.flush()
        observer(event)

    before = _own.level, _events.propagate
    # without a handler, Python prints warnings itself
    spoken = [] if logging.getLogger().handlers else [stderr_handler]
    _own.setLevel(min(logging.getLevelName(level.upper()), logging.WARNING))
    _events.propagate = False  # the view shows them
    for one in (keeper, *spoken):
        _own.addHandler(one)
    _events.addHandler(keeper)
    try:
        yield observed
    except Exception as error:
        _events.error("ended by %s: %s", type(error).__name__, error)
        raise
    finally:
        _events.removeHandler(keeper)
        for one in (keeper, *spoken):
            _own.removeHandler(one)
        before_all, _events.propagate = before
        _own.setLevel(before_all)
        if keeper.target is not None:
            keeper.flush()
            keeper.target.close()


class _Printable(logging.Formatter):
    """Escapes control characters, since names and errors may come from anybody's table or code."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), kept="\n\t")


class _LogHandler(logging.FileHandler):
    """Appends to the log of a run directory; refuses it if it is a link."""

    def __init__(self, run_dir: RunDir) -> None:
        self._run_dir = run_dir
        make_directory(run_dir.logs)
        super().__init__(run_dir.log, encoding="utf-8")

    def _open(self) -> Any:
        return open_inside(self._run_dir.root, self._run_dir.log, "a", encoding="utf-8")


def _begin(keeper: MemoryHandler, handler: logging.FileHandler) -> None:
    handler.setFormatter(_Printable(_FORMAT))
    keeper.setTarget(handler)
    keeper.flush()


def _log(event: Event) -> None:
    match event:
        case StudyOpened(study=study, rounds_done=done, n_trials=count):
            _events.info("study %s opened: %d trials, %d rounds done", study, count, done)
            if event.moved_to is not None:
                _events.info("the old run directory is now %s", event.moved_to)
        case RoundStarted(round=number, n_trials=count):
            _events.debug("round %d begins to train %d trials", number, count)
        case BucketStarted(trials=trials, place=place):
            shown = formatting.trial_numbers(trials)
            _events.debug("bucket %d, %s: %s, %s", event.bucket, event.strategy, shown, place)
        case BucketFinished(bucket=bucket, place=place):
            compiled, trained = (formatting.seconds(s) for s in (event.compile_s, event.train_s))
            message = "bucket %d finished on %s: %s compiling, %s training"
            _events.debug(message, bucket, place, compiled, trained)
        case CompilePlanned(class_id=class_id, strategy=strategy):
            _events.debug("the %s program %s will be compiled", strategy, class_id)
        case CompileStarted(class_id=class_id, strategy=strategy, place=place):
            _events.debug("%s is compiling the %s program %s", place, strategy, class_id)
        case CompileFinished(class_id=class_id, strategy=strategy, place=place):
            _events.debug("%s has compiled the %s program %s", place, strategy, class_id)
        case RoundClosed(status=status):
            best = "" if status.best is None else formatting.best_trial(status.metric, status.best)
            shown = f"{formatting.progress(status)}; {formatting.states(status)}"
            _events.info("round %d closed: %s; %s", status.round, shown, best or "no best yet")
        case Warned(message=message, is_news=is_news):
            _events.log(logging.INFO if is_news else logging.WARNING, "%s", message)
