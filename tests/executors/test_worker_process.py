"""A worker that dies, hangs, floods or returns rubbish is reported and ended."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
from joblib.externals.loky.backend import popen_loky_posix

from sweeper.errors import SetupError
from sweeper.executors import worker_process
from sweeper.executors.worker import write_to
from sweeper.executors.worker_process import (
    MAX_BYTES,
    GoneError,
    OverdueError,
    WorkerProcess,
)
from sweeper.process import die_with
from tests.processes import ROOT, is_alive

SPOKEN = "what it had to say"
PARENT = """
import os
from pathlib import Path
from sweeper.executors.worker_process import WorkerProcess
from tests.executors.test_worker_process import begin_bound, hangs_in_native_code

process = WorkerProcess(begin_bound, str(os.getpid()), {}, Path("worker-0.log"))
print(process.call(os.getpid, limit_s=60), flush=True)
process.call(hangs_in_native_code, limit_s=None)
"""


def begin(setup: str, output: Connection) -> None:
    """A worker without a study: it starts at once."""
    write_to(output)
    os.write(1, setup.encode())


def begin_bound(setup: str, output: Connection) -> None:
    die_with(int(setup))
    write_to(output)


def cannot_begin(setup: str, output: Connection) -> None:
    write_to(output)
    raise ValueError(setup)


def doubled(number: int) -> int:
    return 2 * number


def refused() -> NoReturn:
    raise SetupError("the disk is full")


class Unreadable:
    """An object that can be sent but not received."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _unreadable, ()


def _unreadable() -> NoReturn:
    raise ValueError("cannot be built")


class NeedsTwoError(Exception):
    """Pickles with fewer arguments than it needs."""

    def __init__(self, one: object, _two: object) -> None:
        super().__init__(one)


def gives_what_cannot_be_read() -> object:
    return Unreadable()


def gives_what_cannot_be_sent() -> object:
    return threading.Lock()


def raises_what_cannot_be_read() -> NoReturn:
    raise NeedsTwoError(1, 2)


def raises_what_ends_programs() -> NoReturn:
    raise KeyboardInterrupt


def gets_a_signal_without_a_name() -> None:
    os.kill(os.getpid(), signal.SIGRTMIN + 1)


def crashes() -> None:
    ctypes.string_at(0)


def leaves() -> NoReturn:
    os._exit(3)


def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_killed_while_it_gives() -> None:
    """Write the head of a long result and only a part of the rest."""
    for queue in gc.get_objects():
        if isinstance(queue, SimpleQueue):
            os.write(queue._writer.fileno(), struct.pack("!i", 1000) + b"x")
    os.kill(os.getpid(), signal.SIGKILL)


def hangs() -> None:
    time.sleep(1000)


def hangs_in_native_code() -> None:
    ctypes.PyDLL(None).sleep(1000)  # which does not release the interpreter


def floods(megabytes: int) -> int:
    for _ in range(megabytes):
        os.write(1, b"nonsense\n" * (1 << 17))
    return megabytes


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    started: list[WorkerProcess] = []

    def start(beginning: Callable[[str, Connection], None] = begin) -> WorkerProcess:
        started.append(WorkerProcess(beginning, SPOKEN, {}, tmp_path / "logs" / "worker-0.log"))
        return started[-1]

    (tmp_path / "logs").mkdir()
    yield start
    for process in started:
        process.end()


def test_a_call_that_loky_has_not_sent_yet_ends_with_the_worker(
    start: Callable[..., WorkerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """loky's own thread, looking for the call that it has failed, would end with a traceback."""
    process = start()
    assert process.call(doubled, 4, limit_s=60) == 8
    with monkeypatch.context() as patch:
        patch.setattr(process._pool._executor_manager_thread_wakeup, "wakeup", lambda: None)
        waiting = process._pool.submit(doubled, 5)

    process.end()

    assert waiting.exception(timeout=60) is not None
    assert not process.is_alive


def test_a_worker_answers_until_it_is_ended(
    start: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    process = start()
    assert process.call(doubled, 4, limit_s=60) == 8
    with pytest.raises(SetupError, match="the disk is full"):
        process.call(refused, limit_s=None)
    assert process.call(floods, 40, limit_s=60) == 40
    assert process.is_alive
    process.end()
    process.end()
    assert not is_alive(process.pid)
    assert not process.is_alive
    logs = sorted((tmp_path / "logs").iterdir())
    assert [path.name for path in logs] == ["worker-0.before.log", "worker-0.log"]
    assert sum(path.stat().st_size for path in logs) < 3 * MAX_BYTES


@pytest.mark.parametrize(
    ("function", "how"),
    [
        (leaves, "ended with exit code 3"),
        (
            is_killed,
            "was killed by SIGKILL (from outside, or by the system because memory ran out)",
        ),
        (crashes, "was killed by SIGSEGV"),
        (gets_a_signal_without_a_name, f"was killed by signal {signal.SIGRTMIN + 1}"),
        (
            is_killed_while_it_gives,
            "was killed by SIGKILL (from outside, or by the system because memory ran out)",
        ),
        (gives_what_cannot_be_read, "returned an unreadable result and was killed"),
        (gives_what_cannot_be_sent, "raised TypeError and was killed"),
        (raises_what_cannot_be_read, "returned an unreadable result and was killed"),
        (raises_what_ends_programs, "raised KeyboardInterrupt and was killed"),
    ],
)
def test_a_worker_that_ends_without_a_result_is_gone(
    function: Callable[[], object], how: str, start: Callable[..., WorkerProcess]
) -> None:
    process = start()
    assert process.call(doubled, 1, limit_s=60) == 2
    with pytest.raises(GoneError) as gone:
        process.call(function, limit_s=60)
    assert gone.value.how == how
    assert "logs/worker-0.log" in gone.value.log
    assert SPOKEN in gone.value.log or "in crashes" in gone.value.log
    assert not is_alive(process.pid)
    with pytest.raises(GoneError):
        process.call(doubled, 1, limit_s=60)


@pytest.mark.parametrize("function", [hangs, hangs_in_native_code])
def test_a_worker_that_hangs_is_killed_and_reports_where(
    function: Callable[[], object], start: Callable[..., WorkerProcess]
) -> None:
    process = start()
    process.call(doubled, 1, limit_s=60)
    with pytest.raises(OverdueError) as gone:
        process.call(function, limit_s=1.5)
    assert gone.value.how == "returned no result in 1.5 s and was killed"
    assert f"in {function.__name__}" in gone.value.log
    assert not is_alive(process.pid)


def test_a_stopped_worker_is_killed_too(start: Callable[..., WorkerProcess]) -> None:
    process = start()
    process.call(doubled, 1, limit_s=60)
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(OverdueError):
        process.call(doubled, 1, limit_s=0.2)
    assert not is_alive(process.pid)


def test_semaphores_that_cannot_be_created_are_named(
    start: Callable[..., WorkerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(**_: object) -> NoReturn:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(worker_process, "ProcessPoolExecutor", read_only)
    with pytest.raises(SetupError, match=r"/dev/shm: workers need semaphores .* Read-only"):
        start()


def test_a_process_that_may_start_no_others_is_told_so(
    start: Callable[..., WorkerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a `multiprocessing.Pool`."""
    daemonic = SimpleNamespace(daemon=True)
    monkeypatch.setattr(worker_process.multiprocessing, "current_process", lambda: daemonic)
    with pytest.raises(SetupError, match="needs a worker, but this process is daemonic"):
        start()


def test_a_worker_that_cannot_start_reports_why(start: Callable[..., WorkerProcess]) -> None:
    with pytest.raises(GoneError) as gone:
        start(cannot_begin).call(doubled, 1, limit_s=60)
    assert f"ValueError: {SPOKEN}" in gone.value.log


def test_a_worker_ends_at_once_when_its_parent_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.3)  # into the native call
        assert is_alive(pid)
        parent.kill()
    time.sleep(0.3)
    assert not is_alive(pid)


def test_a_program_that_ends_at_once_leaves_no_warning_of_loky(tmp_path: Path) -> None:
    ends = PARENT.replace("process.call(hangs_in_native_code, limit_s=None)", "os._exit(143)")
    done = subprocess.run(
        [sys.executable, "-c", ends],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (143, b"")


class NoPipes:
    """The module `os` in a process that cannot open another pipe."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def pipe(self) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_too_few_file_descriptors_for_a_worker_are_an_os_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(popen_loky_posix, "os", NoPipes())
    with pytest.raises(OSError, match="Too many open files"):
        WorkerProcess(begin, "", {}, tmp_path / "worker-0.log")
