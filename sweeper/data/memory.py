"""Checks that a study's data fits into memory, and splits columns into blocks to save memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sweeper.config import StudyConfig
from sweeper.errors import DataError, size_text
from sweeper.process import physical_bytes

FEWER = "use fewer rows or columns, or a machine with more memory"
"""How to fix a table that does not fit into memory."""


def describe_excess(needed_bytes: int, free_bytes: int | None) -> str:
    """A description of how much more memory a table needs than is free; empty if it fits.

    `free_bytes` is None if the free memory is not known.
    """
    if free_bytes is None or needed_bytes <= free_bytes:
        return ""
    needed, free = size_text(needed_bytes), size_text(free_bytes)
    return f"would take {needed} of memory, but {free} are free"


def check_host(
    config: StudyConfig, data_bytes: int, why: str = "", hints: Sequence[str] = ()
) -> None:
    """Refuse data that takes more than this machine's memory times `memory_fraction`.

    `why` says when and for what, `hints` are fixes besides the usual ones.

    Raises:
        DataError: with both sizes.
    """
    memory = physical_bytes()
    if memory is not None:
        share = int(memory * config.execution.memory_fraction)
        check_share(config, data_bytes, share, memory, "of this machine's memory", why, hints)


def check_share(
    config: StudyConfig,
    data_bytes: int,
    share_bytes: int,
    largest_bytes: int,
    whose: str,
    why: str = "",
    hints: Sequence[str] = (),
) -> None:
    """Refuse data that takes more than a share of memory; `whose` says of what.

    The share is `largest_bytes` with the largest `memory_fraction`, which is only advised if the
    data then fits. `why` and `hints` are as in `check_host`.

    Raises:
        DataError: with both sizes.
    """
    if data_bytes > share_bytes:
        take = f"the data takes {size_text(data_bytes)}{why and ' '}{why}"
        found = f"{take}, but the share {whose} is {size_text(share_bytes)}"
        every = [*hints, "drop columns or rows"]
        if data_bytes <= largest_bytes:
            every.append("write a larger execution.memory_fraction")
        hint = ", or ".join(part for part in (", ".join(every[:-1]), every[-1]) if part)
        raise DataError(config.problem("data", found, hint))


BLOCK_BYTES = 32 << 20
_NUMBER_BYTES = 8


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of the columns, each at most `BLOCK_BYTES` of float64, or one column."""
    width = max(1, BLOCK_BYTES // (_NUMBER_BYTES * max(1, n_rows)))
    for first in range(0, n_columns, width):
        yield slice(first, min(first + width, n_columns))


def block_bytes(n_rows: int, n_columns: int) -> int:
    """The size of the largest of these blocks."""
    widest = max((block.stop - block.start for block in blocks(n_rows, n_columns)), default=0)
    return _NUMBER_BYTES * n_rows * widest
