"""Commands from start to end in forks of a process that has imported what they import.

Importing takes a command two seconds or more of a core, and the suite starts hundreds. A fork is
still a separate process: its environment, directory, output, signals and exit are those of `python
-m sweeper`, and it starts its own threads.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from threading import Lock
from typing import IO, Any

ROOT = Path(__file__).parent.parent
# what commands import late from libraries
LATE = ("sklearn.datasets", "optuna.storages._rdb.models", "optuna.importance", "safetensors.numpy")
# parts of the package that most commands do not use
UNUSED = ("__main__", "engines", "templates", "dashboard")
# variables that Python or a library reads when it is imported
READ_EARLY = ("JAX", "PYTHON", "OMP", "OPENBLAS", "LD_")
_LARGEST_REQUEST = 1 << 20


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether a command with this environment behaves in a fork as when started."""
    mine = {**os.environ, "PYTHONPATH": str(ROOT)}
    return sys.platform == "linux" and all(
        environment.get(name) == mine.get(name)
        for name in {*environment, *mine}
        if name.startswith(READ_EARLY)
    )


def forked(
    arguments: Sequence[str], directory: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `python -m sweeper` from its start to its end and return its output.

    Raises:
        subprocess.TimeoutExpired: it took longer than `timeout` seconds, and is killed.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        code = _server().run(arguments, directory, environment, (out, said), timeout)
        printed = (_text(out), _text(said))
    return subprocess.CompletedProcess(arguments, code, *printed)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@cache
def _server() -> _Server:
    server = _Server()
    atexit.register(server.close)
    return server


class _Server:
    """The process that forks; it ends with this one, because the socket is closed then."""

    def __init__(self) -> None:
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = Lock()
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forking", str(its.fileno())],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )

    def run(
        self,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        printed: Sequence[IO[bytes]],
        timeout: float,
    ) -> int:
        request = {"argv": [*arguments], "cwd": str(directory), "env": {**environment}}
        with self._lock:
            files = [file.fileno() for file in printed]
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            pid = self._answer()
            self._socket.settimeout(timeout)
            try:
                return self._answer()
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._socket.settimeout(None)
                self._answer()
                raise subprocess.TimeoutExpired([*arguments], timeout) from None
            finally:
                self._socket.settimeout(None)

    def _answer(self) -> int:
        told = self._socket.recv(64)
        assert told, "the process that forks commands has ended"
        return int(told)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def _import_all() -> None:
    package = import_module("sweeper")
    modules = [found.name for found in walk_packages(package.__path__, "sweeper.")]
    for name in (*LATE, *modules):
        if not set(UNUSED) & {*name.split(".")}:
            import_module(name)


def _serve(tests: socket.socket) -> dict[str, Any]:
    """Fork for each request; a fork then runs the request."""
    while True:
        asked, files, _, _ = socket.recv_fds(tests, _LARGEST_REQUEST, 2)
        if not asked:
            sys.exit()
        pid = os.fork()
        if not pid:
            for file, place in zip(files, (1, 2), strict=True):
                os.dup2(file, place)
                os.close(file)
            return json.loads(asked)
        for file in files:
            os.close(file)
        tests.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        tests.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: Mapping[str, Any]) -> None:
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = request["cwd"]
    sys.argv[1:] = request["argv"]
    # no fork server of multiprocessing: its processes skip what Python does at its end
    runpy.run_module("sweeper", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _import_all()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as its_tests:
        wanted = _serve(its_tests)
    _become(wanted)
