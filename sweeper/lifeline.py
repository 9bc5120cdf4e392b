"""Binds the life of a child process to that of its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_WATCH_S = 0.2


def die_with(parent: int) -> None:
    """End this process when its parent ends, whatever it is doing then."""
    if sys.platform == "linux":
        # the kernel ends a child even inside a native call that holds the interpreter
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    """For systems without a death signal, and for a parent that died before it was asked for."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)
