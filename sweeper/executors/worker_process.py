"""One worker process, from its start to its end: a loky pool of a single worker."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from multiprocessing import resource_tracker as python_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

from sweeper.errors import Problem, SetupError, SweeperError
from sweeper.executors import worker
from sweeper.executors.interrupts import safe_import_path, safe_path
from sweeper.executors.worker_log import WorkerLog
from sweeper.faults import Fault
from sweeper.streams import open_streams

Given = TypeVar("Given")
Setup = TypeVar("Setup")

# how often it is looked whether a worker that has given nothing is there
_LOOK_S = 1.0
# how long loky may take to end one
_ENDING_S = 3.0
# how long one that hangs may take to write where it is
_ANSWER_S = 0.5


class GoneError(Exception):
    """A worker gave nothing of use and has been ended.

    `how` goes on after the name of the worker; `log` is how its log ends, and where that is.
    """

    def __init__(self, how: str, log: str) -> None:
        super().__init__(how)
        self.how = how
        self.log = log


class OverdueError(GoneError):
    """It was ended because it took too long."""


class WorkerProcess:
    """A worker, which starts at once, and is there until it is ended or a call finds it gone.

    The first that it does is `begin(setup, output)`; what is written to `output` goes to `log`.
    """

    def __init__(
        self,
        begin: Callable[[Setup, Connection], None],
        setup: Setup,
        environment: Mapping[str, str],
        log: Path,
    ) -> None:
        open_streams()  # loky flushes them
        with safe_import_path():
            loky_tracker.ensure_running()
            python_tracker.ensure_running()
        self._log = WorkerLog(log)
        # loky shows neither the process nor the pipe of its results, and lets go of both at the end
        try:
            self._pool: Any = _pool(
                max_workers=1,
                env={**environment, **safe_path()},
                initializer=begin,
                initargs=(setup, self._log.writer),
            )
            self._pool._adjust_process_count()
        finally:
            self._log.writer.close()
        (self._process,) = self._pool._processes.values()
        self._results = self._pool._result_queue
        self._ending = threading.Lock()
        self.pid: int = self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process is there."""
        return self._process.is_alive()

    def call(self, function: Callable[..., Given], *arguments: Any, limit_s: float | None) -> Given:
        """What `function` gives there, once the worker has started.

        Raises:
            GoneError: the process ended, gave what cannot be read, or raised what is no error of a
                study's.
            OverdueError: it gave nothing for `limit_s` seconds.
            SweeperError: as `function`.
        """
        try:
            future: Future[Given] = self._pool.submit(function, *arguments)
            if not self._is_done(future, limit_s):
                self._ask_where_it_is()
                raise self.gone(f"gave no result in {limit_s:g} s and was killed", OverdueError)
            return future.result()
        except (SweeperError, Fault, GoneError):
            raise
        except TerminatedWorkerError as died:
            raise self.gone(_ending(self._process.exitcode)) from died
        except BrokenProcessPool as broken:
            raise self.gone("gave what cannot be read and was killed") from broken
        except BaseException as error:  # nothing of the package's own
            raise self.gone(f"raised {type(error).__name__} and was killed") from error

    def end(self) -> None:
        """Kill it, and every process that it started."""
        with self._ending:
            manager = self._pool._executor_manager_thread
            self._pool.shutdown(wait=False, kill_workers=True)
            if manager is not None:
                manager.join(_ENDING_S)
            if self.is_alive:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            if manager is not None and manager.is_alive():
                # loky waits for the rest of a result, which this process, too, could write
                self._results._writer.close()
                manager.join()

    def _is_done(self, future: Future[Any], limit_s: float | None) -> bool:
        """Whether a call has come to an end, of whatever kind, before its time is over."""
        began = time.monotonic()
        while True:
            left = _LOOK_S if limit_s is None else began + limit_s - time.monotonic()
            was_alive = self.is_alive
            wait([future], timeout=max(0.0, min(left, _LOOK_S)))
            if future.done():
                return True
            if not was_alive:
                raise self.gone(_ending(self._process.exitcode))
            if left <= 0:
                return False

    def _ask_where_it_is(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, worker.WHERE_ARE_YOU)
        self._process.join(_ANSWER_S)

    def gone(self, how: str, kind: type[GoneError] = GoneError) -> GoneError:
        self.end()
        path = f"{self._log.path.parent.name}/{self._log.path.name}"
        end = self._log.end()
        return kind(how, f"the end of {path}:\n{end}" if end else f"it wrote nothing to {path}")


def _pool(**options: Any) -> ProcessPoolExecutor:
    """A pool of loky.

    Raises:
        SetupError: it cannot make the semaphores that its processes wait for each other with.
        OSError: the system refuses something else.
    """
    try:
        return ProcessPoolExecutor(**options)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        found = f"workers need semaphores there, which cannot be made: {error.strerror}"
        fix = "let this user write there, or set execution.workers = 0"
        raise SetupError(Problem("/dev/shm", "", found, fix)) from error


def _ending(exit_code: int | None) -> str:
    """How a process ended by itself."""
    if exit_code is None or exit_code >= 0:
        return f"ended with exit code {exit_code}"
    number = -exit_code
    is_named = number in {*signal.Signals}  # signals for programs' own use have no names
    name = signal.Signals(number).name if is_named else f"signal {number}"
    hint = " (from outside, or by the system for want of memory)" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"
