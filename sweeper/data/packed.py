"""Reads text files that may be compressed.

A file of a few megabytes may decompress to gigabytes, so a large text is measured in pieces before
it is read as a whole.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np

from sweeper.data.files import UnfitTableError
from sweeper.data.memory import FEWER, describe_excess
from sweeper.errors import listed
from sweeper.process import available_bytes, physical_bytes

SEPARATORS = (",", ";", "\t", "|")
"""Possible field separators of a table."""

SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz")
"""Suffixes of compressed files."""

DAMAGE = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, RuntimeError)
"""What reading a damaged file raises, apart from OSError and ValueError."""

# text up to this size is read without measuring it first
_UNMEASURED_BYTES = 64_000_000
_PIECE_BYTES = 1 << 20
# memory of a number or a string in a table, at least
_FIELD_BYTES = 8
_TAR = b"tar"
_GZIP, _BZ2, _XZ, _ZSTD, _ZIP = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"PK"


def suffix_of(path: Path) -> str:
    """The suffix of a table before that of its compression; .csv if there is none."""
    name = Path(path.name.lower())
    while name.suffix in SUFFIXES:
        name = Path(name.stem)
        if not name.suffix:
            return ".csv"
    is_packed = path.suffix.lower() in SUFFIXES
    return f"{name.suffix}{path.suffix}" if is_packed and name.suffix == ".parquet" else name.suffix


def is_packed(path: Path) -> bool:
    """Whether a file is compressed, judged by its first bytes.

    Raises:
        OSError: it cannot be read.
    """
    return bool(_kind(path))


def check_size(path: Path) -> None:
    """Refuse a large text that does not fit into free memory, or has no lines.

    Raises:
        UnfitTableError: with both sizes.
        OSError: it cannot be read.
    """
    there = path.stat()
    if there.st_size <= _UNMEASURED_BYTES and not is_packed(path):
        return
    needed = _table_bytes(path, there.st_size, there.st_mtime_ns)
    if needed is None:
        found = f"has a line of more than {_UNMEASURED_BYTES / 1e6:.0f} MB"
        raise UnfitTableError(found, "write a line of column names, then one line per row")
    if found := describe_excess(needed, available_bytes()):
        raise UnfitTableError(found, FEWER)


@contextmanager
def open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, or of the one file in an archive.

    Raises:
        UnfitTableError: an archive contains no file, or several; or as `check_size`.
        OSError: it cannot be read.
    """
    check_size(path)
    with _opened(path) as file:
        yield io.BufferedReader(file, _PIECE_BYTES)


@lru_cache(maxsize=8)
def _table_bytes(path: Path, size: int, _changed_ns: int) -> int | None:
    """The least memory for the table in a text file; 0 for a short one.

    None if a line is too long.
    """
    most = physical_bytes() or sys.maxsize
    needed = 0 if is_packed(path) else size
    text = line = lines = 0
    fields = dict.fromkeys(SEPARATORS, 0)
    with _opened(path) as file:
        while needed <= most and (piece := file.read(_PIECE_BYTES)):
            end = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
            line = len(piece) - end - 1 + (line if end < 0 else 0)
            if line > _UNMEASURED_BYTES:
                return None
            text += len(piece)
            # NumPy counts frequent bytes several times faster than `bytes.count`
            letters = np.frombuffer(piece, np.uint8)
            lines += int(np.count_nonzero(letters == ord("\n")))
            for separator in SEPARATORS:
                fields[separator] += int(np.count_nonzero(letters == ord(separator)))
            needed = max(needed, text, _FIELD_BYTES * (lines + max(fields.values())))
    is_short = text <= _UNMEASURED_BYTES and needed <= most
    return 0 if is_short else needed


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    kind = _kind(path)
    if kind == _TAR:
        with tarfile.open(path) as tar:
            members = {one.name: one for one in tar.getmembers() if one.isfile()}
            member = tar.extractfile(members[_only([*members])])
            assert member is not None  # None is not a file
            yield member
    elif kind == _ZIP:
        with zipfile.ZipFile(path) as archive, archive.open(_only(archive.namelist())) as file:
            yield file
    else:
        with _OPENERS[kind](path) as file:
            yield file


def _kind(path: Path) -> bytes:
    """How a file is compressed; empty if it is not."""
    if ".tar" in [suffix.lower() for suffix in path.suffixes] or path.suffix.lower() == ".tgz":
        return _TAR
    with path.open("rb") as file:
        start = file.read(6)
    if start.startswith(_BZ2) and not start[3:4].isdigit():
        return b""
    if start.startswith(_ZIP) and start[2:4] not in (b"\x03\x04", b"\x05\x06"):
        return b""
    return next((kind for kind in (_GZIP, _BZ2, _XZ, _ZSTD, _ZIP) if start.startswith(kind)), b"")


def _zstandard(path: Path) -> IO[bytes]:
    try:
        return import_module("zstandard").open(path, "rb")
    except ImportError as error:
        found = "is compressed with Zstandard, which needs another package"
        raise UnfitTableError(found, "run `pip install zstandard`, or decompress it") from error


def _only(names: list[str]) -> str:
    """The one file of an archive, ignoring directories and what macOS adds."""
    if "[Content_Types].xml" in names:
        raise UnfitTableError("is an Office file, not CSV", "save the table as CSV")
    files = [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX/")]
    if len(files) == 1:
        return files[0]
    found = f"holds {len(files)} files, {listed(sorted(files)[:5])}" if files else "holds no file"
    raise UnfitTableError(found, "pack exactly one table, or unpack it")


_OPENERS: dict[bytes, Callable[[Path], Any]] = {
    b"": partial(open, mode="rb"),
    _GZIP: gzip.open,
    _BZ2: bz2.open,
    _XZ: lzma.open,
    _ZSTD: _zstandard,
}
