"""Reads text files that may be compressed.

A file of a few megabytes may decompress to gigabytes, so a large file is measured piece by piece
before it is read.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sweeper.data.files import UnfitTableError
from sweeper.errors import listed

COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz")
"""Suffixes of compressed files."""

DAMAGE = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, RuntimeError)
"""What reading a damaged file raises, apart from OSError and ValueError."""

_TAR = b"tar"
_GZIP, _BZ2, _XZ, _ZSTD, _ZIP = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"PK"


def suffix_of(path: Path) -> str:
    """The suffix of a table before that of its compression; .csv if there is none."""
    name = Path(path.name.lower())
    while name.suffix in COMPRESSED_SUFFIXES:
        name = Path(name.stem)
        if not name.suffix:
            return ".csv"
    is_one = path.suffix.lower() in COMPRESSED_SUFFIXES
    return f"{name.suffix}{path.suffix}" if is_one and name.suffix == ".parquet" else name.suffix


def is_compressed(path: Path) -> bool:
    """Whether a file is compressed, judged by its first bytes.

    Raises:
        OSError: it cannot be read.
    """
    return bool(_kind(path))


@contextmanager
def open_decompressed(path: Path) -> Iterator[Any]:
    """The bytes of a file, or of the one file in an archive.

    Raises:
        UnfitTableError: an archive contains no file, or several.
        OSError: it cannot be read.
    """
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


def _zstandard(path: Path) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(str(path), "zstd")


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
