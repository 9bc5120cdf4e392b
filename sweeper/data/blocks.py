"""Columns a few at a time, so that what is computed of them takes little memory."""

from __future__ import annotations

from collections.abc import Iterator

BLOCK_BYTES = 32 << 20
_NUMBER_BYTES = 8


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of the columns, each of `BLOCK_BYTES` of float64 at most, or of one column."""
    width = max(1, BLOCK_BYTES // (_NUMBER_BYTES * max(1, n_rows)))
    for first in range(0, n_columns, width):
        yield slice(first, min(first + width, n_columns))


def block_bytes(n_rows: int, n_columns: int) -> int:
    """What the largest of these blocks takes."""
    widest = max((block.stop - block.start for block in blocks(n_rows, n_columns)), default=0)
    return _NUMBER_BYTES * n_rows * widest
