"""Calls a function as if it ran in another process, on another machine and another day."""

from __future__ import annotations

import os
import platform
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import RLock, get_ident
from typing import Any

_LATER_S = 400 * 86_400
_lock = RLock()


def _next(number: int) -> int:
    return number + 1


def _other_name(name: str) -> str:
    return f"{name}-2"


def _other_host(found: os.uname_result) -> os.uname_result:
    system, node, *rest = found
    return os.uname_result((system, _other_name(node), *rest))


_CHANGES: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (os, "getpid", _next),
    (os, "getppid", _next),
    (os, "uname", _other_host),
    (socket, "gethostname", _other_name),
    (socket, "getfqdn", _other_name),
    (platform, "node", _other_name),
    (uuid, "getnode", _next),
    (time, "time", lambda now: now + _LATER_S),
    (time, "time_ns", lambda now: now + _LATER_S * 10**9),
)


@contextmanager
def elsewhere() -> Iterator[None]:
    """Within this block, this thread sees another process id, host and day.

    A module that has imported such a function under its own name still calls the original.
    """
    with _lock, ExitStack() as stack:
        for module, name, change in _CHANGES:
            call = getattr(module, name, None)
            if call is not None:
                stack.callback(setattr, module, name, call)
                setattr(module, name, _changed(call, change))
        yield


def _changed(call: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function, with its result changed in this thread only."""
    thread = get_ident()

    def changed(*arguments: Any, **named: Any) -> Any:
        found = call(*arguments, **named)
        return change(found) if get_ident() == thread else found

    return changed
