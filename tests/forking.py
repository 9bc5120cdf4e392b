"""Commands in forks of a process that has imported what they import.

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
import select
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
UNUSED = ("__main__", "engines", "templates", "dashboard", "notebook", "trackers")
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
    return _ended(["-m", "sweeper", *arguments], directory, environment, timeout)


def _ended(
    arguments: Sequence[str], directory: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        streams = {"stdout": out, "stderr": said}
        with Fork([*arguments], cwd=directory, env=environment, **streams) as process:
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
        printed = (_text(out), _text(said))
    return subprocess.CompletedProcess(arguments, code, *printed)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def run_code(
    code: str, *arguments: str, directory: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python -c` with this code, for which all that commands import is imported already."""
    variables = {**os.environ, **(environment or {})}
    return _ended(["-c", code, *arguments], directory, variables, timeout=120)


class Fork(subprocess.Popen[str]):
    """A process of `python` with these arguments, begun by a fork.

    Only `-m sweeper` and `-c` are understood. How `Popen` begins a process and asks for its end
    are private methods, which `tests/test_forking.py` compares with those of a real one.
    """

    def _execute_child(self, args: Sequence[str], *given: Any) -> None:
        directory, environment, pipes, group = given[4], given[5], given[9:15], given[-1]
        # what is not redirected goes where that of this process goes
        printed = [own if pipe < 0 else pipe for pipe, own in ((pipes[3], 1), (pipes[5], 2))]
        self.pid = _server().fork(args, directory, environment, group == 0, printed)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if not wait_flags:
            ended = os.pidfd_open(self.pid)
            select.select([ended], [], [])
            os.close(ended)
        return _server().status(self.pid)


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

    def fork(
        self,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        own_group: bool,
        printed: Sequence[int],
    ) -> int:
        """Begin a process that prints into the files `printed`; its number."""
        request = {
            "argv": [*arguments],
            "cwd": str(directory),
            "env": {**environment},
            "own_group": own_group,
        }
        return self._asked(request, printed)[0]

    def status(self, pid: int) -> tuple[int, int]:
        """The answer of `waitpid` without waiting."""
        pid, status = self._asked({"pid": pid}, ())
        return pid, status

    def _asked(self, request: Mapping[str, Any], files: Sequence[int]) -> list[int]:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            told = self._socket.recv(64)
        assert told, "the process that forks commands has ended"
        return json.loads(told)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def _import_all() -> None:
    package = import_module("sweeper")
    modules = [found.name for found in walk_packages(package.__path__, "sweeper.")]
    for name in (*LATE, *modules):
        if set(UNUSED) & {*name.split(".")}:
            continue
        try:
            import_module(name)
        except ModuleNotFoundError as missing:
            # commands without that library do without this part, too
            if missing.name is None or missing.name.partition(".")[0] == "sweeper":
                raise


def _serve(tests: socket.socket) -> dict[str, Any]:
    """Answer each request; the fork for one returns it."""
    while True:
        asked, files, _, _ = socket.recv_fds(tests, _LARGEST_REQUEST, 2)
        if not asked:
            sys.exit()
        request = json.loads(asked)
        if "pid" in request:
            tests.send(json.dumps(os.waitpid(request["pid"], os.WNOHANG)).encode())
            continue
        pid = os.fork()
        if not pid:
            for file, place in zip(files, (1, 2), strict=True):
                os.dup2(file, place)
                os.close(file)
            if request["own_group"]:
                os.setpgid(0, 0)
            return request
        for file in files:
            os.close(file)
        tests.send(json.dumps([pid]).encode())


def _become(request: Mapping[str, Any]) -> None:
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = request["cwd"]
    option, what, *sys.argv[1:] = request["argv"]
    if option == "-c":
        sys.argv[0], sys.path[0] = option, ""
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
        return
    # no fork server of multiprocessing: its processes skip what Python does at its end
    runpy.run_module(what, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _import_all()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as its_tests:
        wanted = _serve(its_tests)
    _become(wanted)
