"""A Parquet file that can be replaced while others read it.

Readers open a path more than once: pandas, Polars and DuckDB read its size, its footer and its
pages through different handles, and a rename in between would mix two files. So each version also
keeps the bytes of the versions before it at their old offsets, and a reader that started with an
older footer ends with the older table.

    slot 0      slot 1      slot 2      tail
    [version 3] [version 4] [version 2] [footer of version 4]

A new version goes into the slot of the oldest. If it does not fit, the file grows: new slots and a
new tail are appended, so that readers with an older size find its footer. Space that no kept
version needs becomes a hole in the file. If a file cannot be read, the error names the command that
rewrites it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from sweeper.errors import Problem, SetupError
from sweeper.files import replacing

_SLOTS = 3
_MAGIC = b"PAR1"
_TRAILER = 8  # the length of the footer, and the magic
_MAX_DEAD = 32  # times the new version: the largest old file that a new start keeps

Pieces = tuple[tuple[int, bytes], ...]


class TableFile:
    """The Parquet file `target`; only one process may write to it at a time."""

    def __init__(self, target: Path, staging: Path) -> None:
        self._target = target
        self._staging = staging
        self._kept: deque[Pieces] = deque(maxlen=_SLOTS)
        self._size = self._first_slot = len(_MAGIC)
        self._room = self._tail = 0
        self._turn = 0

    def write(self, rows: pa.Table) -> None:
        """Replace the content of the file by `rows`."""
        data, footer = _encoded(rows, self._slot())
        if len(data) > self._room or len(footer) > self._tail:
            self._grow(len(data), len(footer))
            data, footer = _encoded(rows, self._slot())
        self._kept.append(((self._slot(), data), (self._size - len(footer), footer)))
        self._turn = (self._turn + 1) % _SLOTS
        with replacing(self._target, self._staging) as staged, staged.open("wb") as file:
            file.truncate(self._size)
            file.write(_MAGIC)
            for offset, content in (piece for pieces in self._kept for piece in pieces):
                file.seek(offset)
                file.write(content)

    def _slot(self) -> int:
        return self._first_slot + self._turn * self._room

    def _grow(self, data_bytes: int, footer_bytes: int) -> None:
        if not self._kept and self._target.exists():
            self._take_over(_MAX_DEAD * (data_bytes + footer_bytes))
        self._room, self._tail = 2 * data_bytes, 2 * footer_bytes
        self._first_slot = self._size
        self._size += _SLOTS * self._room + self._tail
        self._turn = 0

    def _take_over(self, most_bytes: int) -> None:
        """Keep the file of an earlier start, unless many starts have made it larger than that.

        A file that lost its start or its end has nothing that a reader could have opened.
        """
        if self._target.stat().st_size > most_bytes:
            return
        content = self._target.read_bytes()
        is_whole = content.startswith(_MAGIC) and content.endswith(_MAGIC)
        if is_whole and len(content) >= _TRAILER:
            self._kept.append(((0, content),))
            self._size = len(content)


def _encoded(rows: pa.Table, offset: int) -> tuple[bytes, bytes]:
    """The data and the footer of `rows` as Parquet, for data at `offset` of the file."""
    sink = pa.BufferOutputStream()
    with parquet.ParquetWriter(sink, rows.schema) as writer:
        # The writer has written the header; offsets of what follows count from the sink's position.
        sink.write(bytes(offset - len(_MAGIC)))
        writer.write_table(rows)
    content = sink.getvalue().to_pybytes()[offset:]
    footer_bytes = _TRAILER + int.from_bytes(content[-_TRAILER:-4], "little")
    return content[:-footer_bytes], content[-footer_bytes:]


@contextmanager
def refusing_damage(path: Path) -> Generator[None]:
    """Say how to fix the table at `path`, a file or a directory of parts, if it cannot be read.

    Raises:
        SetupError: it is not Parquet, or is truncated.
        OSError: the system refuses to read it.
    """
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise _damaged(path, "it cannot be read") from error


def refuse_without_study(path: Path, said: Mapping[str, Any]) -> None:
    """Refuse a trials.parquet at `path` whose metadata, `said`, have nothing about a study.

    Raises:
        SetupError: another program has rewritten it.
    """
    if not said:
        raise _damaged(path, "another program has rewritten it without its metadata")


def _damaged(path: Path, found: str) -> SetupError:
    root = path.parent.parent if path.match("metrics/part-*") else path.parent
    hint = f"rewrite it with: python -m sweeper verify {quote(str(root))} --repair"
    return SetupError(Problem(str(path), "", found, hint))
