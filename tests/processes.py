"""A study as a separate process, to be killed."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.forking import Fork, can_fork

ROOT = Path(__file__).parent.parent


def start(
    directory: Path,
    cache: Path,
    arguments: Sequence[str],
    *,
    own_group: bool = False,
    environment: Mapping[str, str] | None = None,
    forked: bool = True,
) -> subprocess.Popen[str]:
    """`python -m sweeper` with `arguments`, in `directory`, with its own compile cache.

    In its own process group it can be sent what a terminal sends to everything that runs in it.
    Unless it is `forked`, it imports everything itself.
    """
    variables = {**environment_of(cache), **(environment or {})}
    is_fork = forked and can_fork(variables)
    begin = Fork if is_fork else subprocess.Popen[str]
    return begin(
        [*([] if is_fork else [sys.executable]), "-m", "sweeper", *arguments],
        cwd=directory,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0 if own_group else None,
    )


def environment_of(cache: Path) -> dict[str, str]:
    """The environment of a command: that of the tests, without a width."""
    mine = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return {**mine, "SWEEPER_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for a process that must succeed, and return its standard output."""
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return out


def kill(process: subprocess.Popen[str]) -> list[int]:
    """`kill -9` only this process, and return its descendants that are alive a second later."""
    family = descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    time.sleep(1)
    return [pid for pid in family if is_alive(pid)]


def descendants(pid: int) -> list[int]:
    """Every process below `pid`."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found, todo = list[int](), [pid]
    while todo:
        mine = children.get(todo.pop(), [])
        found += mine
        todo += mine
    return found


def parent(pid: int) -> int:
    """The process that started `pid`."""
    found = _parent(Path(f"/proc/{pid}"))
    assert found is not None, "it has ended"
    return found


def command_line(pid: int) -> str:
    """How a process was started; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _parent(entry: Path) -> int | None:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has just ended
        return None


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def shown_on_terminal(
    words: Sequence[str], *streams: str, directory: Path, environment: Mapping[str, str]
) -> bytes:
    """What a command writes to those of its `streams`, such as stderr, that are a terminal."""
    reading, writing = pty.openpty()
    others = dict.fromkeys({"stdin", "stdout", "stderr"} - {*streams}, subprocess.DEVNULL)
    given = {**others, **dict.fromkeys(streams, writing)}
    shown = b""
    with (
        os.fdopen(reading, "rb", buffering=0) as terminal,
        subprocess.Popen(words, cwd=directory, env={**environment}, **given),
    ):
        os.close(writing)
        with suppress(OSError):  # the terminal's other end is closed
            while part := terminal.read(1 << 16):
                shown += part
    return shown
