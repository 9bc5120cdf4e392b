"""Standard streams, in a program that was started without them."""

from __future__ import annotations

import os
import sys

_STDERR = 2  # its descriptor, the last of the three


def open_streams() -> None:
    """Let what is said go nowhere where the program was started without standard streams.

    Their descriptors are taken, too: else a ledger would be opened as one of them, and whatever
    native code says would be written into it.
    """
    free: set[int] = set()
    while (nowhere := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(nowhere, True)  # or workers would take other files for their streams
        free.add(nowhere)
    os.close(nowhere)
    for descriptor, name in enumerate(("stdout", "stderr"), 1):
        if getattr(sys, name) is None:
            # a file of the caller's may have taken the place of the stream
            place = descriptor if descriptor in free else os.devnull
            setattr(sys, name, open(place, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
