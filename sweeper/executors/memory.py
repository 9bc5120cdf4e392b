"""How a device's memory is shared between this process and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Exactly one of the two may be set when JAX starts: both together are a ValueError.
FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
# what a process may take that sets no fraction
UNCLAIMED = 0.75
# of a device, what processes may take in all: contexts and libraries live outside of their shares
MOST = 0.90
_NEWER_FRACTION = "XLA_CLIENT_MEM_FRACTION"


@dataclass(frozen=True, slots=True)
class Shares:
    """The part of a device's memory that the parent gets, and that each worker gets."""

    parent: float
    worker: float


def shares(memory_fraction: float, threads: int, workers: int) -> Shares:
    """Half to the parent, the rest to the workers in equal parts; nothing to who does not train.

    The sum is `memory_fraction`, but at most `MOST` less 0.02 a process, which is never more than
    half of it: a machine of many cores has many workers.
    """
    total = min(memory_fraction, max(MOST - 0.02 * (workers + 1), MOST / 2))
    if workers == 0:
        return Shares(total, 0.0)
    if threads == 0:
        return Shares(0.0, total / workers)
    return Shares(total / 2, total / 2 / workers)


def fraction_variable(environment: Mapping[str, str]) -> str:
    """The variable to set: the newer name where the user set that one, so that one is set."""
    return _NEWER_FRACTION if _NEWER_FRACTION in environment else FRACTION


def carried_fraction(environment: Mapping[str, str]) -> float | None:
    """The fraction that a process's environment carries; None where it carries none."""
    value = environment.get(fraction_variable(environment))
    return float(value) if value else None
