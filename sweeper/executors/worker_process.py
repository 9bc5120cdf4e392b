"""One worker process, from start to end: a loky pool with one worker, its log and its signals.

A thread of this process reads its output from a pipe. The last output of a dead worker is therefore
known, and a worker that writes endlessly fills neither the disk nor a terminal. Processes that
Python starts here get no signals, which the program that runs the study handles, and import nothing
from the current directory.
"""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from multiprocessing import Pipe, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

from sweeper.errors import Problem, SetupError, SweeperError
from sweeper.executors import worker
from sweeper.executors.private_apis import (
    close_writer,
    drop_waiting_calls,
    manager_thread,
    result_queue,
    start_single_worker,
)
from sweeper.executors.signals import TERMINATING
from sweeper.executors.worker import BY_SWEEPER, SAFE_PATH
from sweeper.faults import Fault
from sweeper.files import move_inside, open_inside
from sweeper.process import open_streams

# maximum size of the file; another one of this size has what was written before
MAX_BYTES = 1 << 20
# text kept for messages; where a worker was is written from the innermost call on
_END_BYTES = 1 << 14
_MAX_CHARACTERS = 3000
_TRACE = re.compile(r"^(Fatal Python error|(Current t|T)hread 0x)", re.MULTILINE)
_PIPE_BYTES = 1 << 16
# how long a dead worker's last words may take to arrive
_LAST_WORDS_S = 1.0

# a second signal ends the program at once, and loky's tracker then removes its semaphores
_QUIETLY = "ignore:resource_tracker"

_log = logging.getLogger("sweeper")


class WorkerLog:
    """The log of one worker, from start to end, in a file that several may share.

    `writer` is for the worker; this process must close its own copy once the worker has it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        reader, self.writer = Pipe(duplex=False)
        self._end = bytearray()
        self._is_written = True
        # nothing waits for it: a child process of the worker may keep the pipe open forever
        self._thread = threading.Thread(target=self._copy, args=(reader,), daemon=True)
        self._thread.start()

    def end(self) -> str:
        """The last words of the worker, which has ended; or its stack traces, if it wrote any."""
        self._thread.join(_LAST_WORDS_S)
        text = bytes(self._end).decode(errors="replace").strip()
        trace = _TRACE.search(text)
        return text[-_MAX_CHARACTERS:] if trace is None else text[trace.start() :][:_MAX_CHARACTERS]

    def _copy(self, reader: Connection) -> None:
        self._append(f"-- a worker starts, {datetime.now(UTC):%F %T} UTC --\n".encode())
        with reader:
            while written := os.read(reader.fileno(), _PIPE_BYTES):
                self._end += written
                del self._end[:-_END_BYTES]
                self._append(written)

    def _append(self, written: bytes) -> None:
        if not self._is_written:
            return
        try:
            root = self.path.parent.parent
            with open_inside(root, self.path, "ab") as file:
                size = file.tell() + file.write(written)
            if size > MAX_BYTES:
                move_inside(root, self.path, self.path.with_suffix(".before.log"))
        except OSError as error:  # a worker must not wait for disk space
            self._is_written = False
            _log.warning("%s can no longer be written: %s", self.path, error.strerror)


_starting = threading.Lock()


def safe_path() -> dict[str, str]:
    """The variable that keeps a new Python from importing files in the current directory.

    It imports a part of loky or multiprocessing before it has this process's import path.
    """
    return {SAFE_PATH: os.environ.get(SAFE_PATH) or BY_SWEEPER}


@contextmanager
def safe_import_path(**more: str) -> Iterator[None]:
    """Set that variable, and `more`, for resource trackers, which are started in the block."""
    with _starting:
        before = {name: os.environ.get(name) for name in (SAFE_PATH, *more)}
        os.environ.update(safe_path() | more)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def block_interrupts() -> None:
    """Block Ctrl-C, SIGTERM and SIGHUP in workers that this thread starts, from the beginning.

    Terminals and service managers send them to every process; a child inherits what the thread that
    starts it has blocked. Python unblocks all but SIGHUP when it starts its resource tracker, so
    that must run first.
    """
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, TERMINATING)
    with safe_import_path():
        resource_tracker.ensure_running()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *TERMINATING})


Given = TypeVar("Given")
Setup = TypeVar("Setup")

# how often to check whether a silent worker still exists
_LOOK_S = 1.0
# how long loky may take to end a worker
_ENDING_S = 3.0
# how long a hanging worker may take to write its stack traces
_ANSWER_S = 0.5


def _check_may_start() -> None:
    """Refuse to start a process from one that may not start others.

    Raises:
        SetupError: this one is daemonic, as in a `multiprocessing.Pool`.
    """
    if multiprocessing.current_process().daemon:
        found = "a trial needs a worker, but this process is daemonic and may start no other"
        hint = "use concurrent.futures.ProcessPoolExecutor, or daemon=False"
        raise SetupError(Problem("workers", "execution.workers", found, hint))


class GoneError(Exception):
    """A worker returned nothing useful and was ended.

    `how` continues after the name of the worker; `log` is the path and the end of its log.
    """

    def __init__(self, how: str, log: str) -> None:
        super().__init__(how)
        self.how = how
        self.log = log


class OverdueError(GoneError):
    """It was ended because it took too long."""


class WorkerProcess:
    """A worker, which starts at once, and exists until it is ended or a call finds it gone.

    It first runs `begin(setup, output)`; what is written to `output` goes to `log`.
    """

    def __init__(
        self,
        begin: Callable[[Setup, Connection], None],
        setup: Setup,
        environment: Mapping[str, str],
        log: Path,
    ) -> None:
        _check_may_start()
        open_streams()  # loky flushes them
        with safe_import_path(PYTHONWARNINGS=_QUIETLY):
            loky_tracker.ensure_running()
        with safe_import_path():
            resource_tracker.ensure_running()
        self._log = WorkerLog(log)
        try:
            self._pool: Any = _pool(
                max_workers=1,
                env={**environment, **safe_path()},
                initializer=begin,
                initargs=(setup, self._log.writer),
            )
            self._process = start_single_worker(self._pool)
        except UnboundLocalError as error:  # loky's cleanup after a pipe that it could not open
            raise error.__context__ or error from None
        finally:
            self._log.writer.close()
        self._results = result_queue(self._pool)
        self._ending = threading.Lock()
        self.pid: int = self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process exists."""
        return self._process.is_alive()

    def call(self, function: Callable[..., Given], *arguments: Any, limit_s: float | None) -> Given:
        """Run `function` in the worker, once it has started, and return its result.

        Raises:
            GoneError: the process ended, returned something unreadable, or raised an error that is
            not a `SweeperError`.
            OverdueError: it returned nothing for `limit_s` seconds.
            SweeperError: as `function`.
        """
        try:
            future: Future[Given] = self._pool.submit(function, *arguments)
            if not self._is_done(future, limit_s):
                self._ask_where_it_is()
                raise self.gone(f"returned no result in {limit_s:g} s and was killed", OverdueError)
            return future.result()
        except (SweeperError, Fault, GoneError):
            raise
        except TerminatedWorkerError as died:
            raise self.gone(_ending(self._process.exitcode)) from died
        except BrokenProcessPool as broken:
            raise self.gone("returned an unreadable result and was killed") from broken
        except BaseException as error:  # not an error of this package
            raise self.gone(f"raised {type(error).__name__} and was killed") from error

    def end(self) -> None:
        """Kill it, and every process that it started."""
        with self._ending:
            manager = manager_thread(self._pool)
            # loky fails the calls that wait, and its thread would then look for them
            drop_waiting_calls(self._pool)
            self._pool.shutdown(wait=False, kill_workers=True)
            if manager is not None:
                manager.join(_ENDING_S)
            if self.is_alive:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            if manager is not None and manager.is_alive():
                # loky waits for the rest of a result, whose pipe this process could also write to
                close_writer(self._results)
                manager.join()

    def _is_done(self, future: Future[Any], limit_s: float | None) -> bool:
        """Whether a call has finished in any way before the time limit."""
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
    """A loky pool.

    Raises:
        SetupError: the semaphores for its processes cannot be created.
        OSError: the system refuses something else.
    """
    try:
        return ProcessPoolExecutor(**options)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        found = f"workers need semaphores there, which cannot be created: {error.strerror}"
        fix = "give this user write permission there, or set execution.workers = 0"
        raise SetupError(Problem("/dev/shm", "", found, fix)) from error


def _ending(exit_code: int | None) -> str:
    """How a process ended by itself."""
    if exit_code is None or exit_code >= 0:
        return f"ended with exit code {exit_code}"
    number = -exit_code
    is_named = number in {*signal.Signals}  # signals for private use have no names
    name = signal.Signals(number).name if is_named else f"signal {number}"
    hint = " (from outside, or by the system because memory ran out)" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"
