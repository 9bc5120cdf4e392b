"""The curves of a bucket as one blob: a row a lane would make the ledger slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sweeper.trial import Curve


def pack(curves: Sequence[Curve]) -> bytes:
    """One blob a bucket: the number of lanes and of metrics, an index row a lane, the values."""
    width = max((curve.values.shape[1] for curve in curves), default=0)
    head = [len(curves), width]
    for curve in curves:
        head += [curve.number, curve.first_epoch, len(curve.values), curve.steps_per_epoch]
    values = (np.ascontiguousarray(curve.values, "<f8").tobytes() for curve in curves)
    return b"".join([np.array(head, "<i8").tobytes(), *values])


def unpack(packed: bytes) -> Iterator[Curve]:
    count, width = np.frombuffer(packed, "<i8", 2).tolist()
    index = np.frombuffer(packed, "<i8", 4 * count, offset=16).reshape(count, 4)
    values = np.frombuffer(packed, "<f8", offset=16 + 32 * count).reshape(-1, max(width, 1))
    start = 0
    for number, first_epoch, epochs, steps in index.tolist():
        yield Curve(number, first_epoch, values[start : start + epochs], steps)
        start += epochs
