"""Where a bucket trained, and each lane of it: as the results name it."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sweeper.executors.executor import Place
from sweeper.executors.opening import own_xla_threads
from sweeper.programs.segment import Segment


def place_on(device: Any, place: str, memory_fraction: float | None) -> Place:
    """The thread or worker `place` of this process, on one of its devices."""
    return Place(
        place=place,
        device=_named([device]),
        host=socket.gethostname(),
        worker_pid=os.getpid(),
        memory_fraction=memory_fraction,
        bytes_limit=_memory(device).get("bytes_limit"),
        xla_threads=own_xla_threads() if device.platform == "cpu" else None,
    )


def on_devices(place: Place, devices: Sequence[Any]) -> Place:
    """`place` with the devices that a program was compiled for."""
    return replace(place, device=_named(devices))


def place_of(lanes: slice, segment: Segment, place: Place, devices: Sequence[Any]) -> Place:
    """Where the `lanes` of a trial trained: each on one device, where they are spread over some."""
    if segment.device is None:
        return place
    used = sorted({int(device) for device in segment.device[lanes]})
    return on_devices(place, [devices[device] for device in used])


def peak_memory(devices: Sequence[Any]) -> int | None:
    """The most bytes that any of the devices ever used; a CPU says nothing."""
    peaks = [_memory(device).get("peak_bytes_in_use") for device in devices]
    return max((peak for peak in peaks if peak is not None), default=None)


def _named(devices: Sequence[Any]) -> str:
    """One as `cpu:0`, several as `gpu:0,1`."""
    return f"{devices[0].platform}:{','.join(str(device.id) for device in devices)}"


def _memory(device: Any) -> dict[str, int]:
    """What a device says of its memory; a CPU says nothing."""
    return device.memory_stats() or {}
