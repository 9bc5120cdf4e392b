"""The curves of a bucket as one blob: a row a lane would make the ledger slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sweeper.trial import Curve


def pack(curves: Sequence[Curve]) -> bytes:
    """One blob a bucket: how many trials and metrics, an index row a trial, all members' values."""
    width = max((curve.values.shape[1] for curve in curves), default=0)
    head = [len(curves), width]
    for curve in curves:
        members, epochs, _ = curve.by_member.shape
        head += [curve.number, curve.first_epoch, epochs, curve.steps_per_epoch, members]
    values = (np.ascontiguousarray(curve.by_member, "<f8").tobytes() for curve in curves)
    return b"".join([np.array(head, "<i8").tobytes(), *values])


def unpack(packed: bytes) -> Iterator[Curve]:
    count, width = np.frombuffer(packed, "<i8", 2).tolist()
    index = np.frombuffer(packed, "<i8", 5 * count, offset=16).reshape(count, 5)
    values = np.frombuffer(packed, "<f8", offset=16 + 40 * count).reshape(-1, max(width, 1))
    start = 0
    for number, first_epoch, epochs, steps, members in index.tolist():
        stop = start + members * epochs
        its = values[start:stop].reshape(members, epochs, values.shape[1])
        yield Curve.of_members(number, first_epoch, its, steps)
        start = stop
