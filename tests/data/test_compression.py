"""Compressed CSV files are read like their contents; damaged ones are refused by name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from sweeper.data.dataset import Dataset
from sweeper.data.guess import guess
from sweeper.data.new_rows import read_rows
from sweeper.data.prepare import prepare
from sweeper.data.transform import Transform
from sweeper.errors import DataError

TABLE = "size,kind\n" + "".join(f"{i % 7}.5,{i % 2}\n" for i in range(40))
GAP = TABLE.replace("3.5,", ",", 1)
CSV = 'source = "csv"\npath = "PATH"\ntarget = "kind"\n'


def zipped(table: bytes, *names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, table)
    return content.getvalue()


def in_tar(table: bytes) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        info = tarfile.TarInfo("rows.csv")
        info.size = len(table)
        archive.addfile(info, io.BytesIO(table))
    return content.getvalue()


def in_zstandard(table: bytes) -> bytes:
    """Two frames, as several threads write them."""
    frames = b""
    for part in (table[:50], table[50:]):
        content = pa.BufferOutputStream()
        with pa.CompressedOutputStream(content, "zstd") as frame:
            frame.write(part)
        frames += content.getvalue().to_pybytes()
    return frames


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "rows.csv.gz": gzip.compress,
    "rows.csv.bz2": bz2.compress,
    "rows.csv.xz": lzma.compress,
    "rows.csv.zst": in_zstandard,
    "rows.zip": lambda table: zipped(table, "d/rows.csv", "__MACOSX/d/._rows.csv"),
    "rows.csv.tar.gz": in_tar,
    "named.csv": gzip.compress,
    "plain.csv.gz": bytes,
}


@pytest.mark.parametrize("name", PACKINGS)
def test_a_compressed_file_is_read_like_the_plain_one(
    name: str, make_study, tmp_path: Path
) -> None:
    def prepared(path: str) -> Dataset:
        return prepare(make_study(CSV.replace("PATH", path), TABLE))

    expected = prepared("rows.csv")
    (tmp_path / name).write_bytes(PACKINGS[name](TABLE.encode()))
    assert prepared(name).digest == expected.digest
    assert guess(tmp_path / name) == guess(tmp_path / "rows.csv")
    transform = Transform.from_dict(expected.transform)
    rows = read_rows(tmp_path / name, transform, {"kind"}, keep=["kind"])
    assert rows.frame["size"].tolist() == [i % 7 + 0.5 for i in range(40)]
    assert rows.kept["kind"].tolist()[:3] == ["0", "1", "0"]


@pytest.mark.parametrize("name", PACKINGS)
def test_a_gap_is_refused_with_its_line(name: str, make_study, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(PACKINGS[name](GAP.encode()))
    with pytest.raises(DataError, match=rf"of {name}: 1 value is missing \(line 5\)"):
        prepare(make_study(CSV.replace("PATH", name)))


WHOLE = TABLE.encode()


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("rows.csv.gz", gzip.compress(WHOLE)[:-20], "cannot be decompressed: "),
        ("rows.csv.bz2", bz2.compress(WHOLE)[:-20], "cannot be decompressed: "),
        ("rows.csv.xz", lzma.compress(WHOLE)[:-20], "cannot be decompressed: "),
        ("rows.csv.zst", in_zstandard(WHOLE)[:-20], "cannot be decompressed: "),
        ("rows.zip", zipped(WHOLE, "a.csv")[:-20], "cannot be decompressed: "),
        ("rows.zip", zipped(WHOLE, "a.csv", "b.csv"), "holds 2 files, a.csv and b.csv; pack "),
        ("rows.zip", zipped(WHOLE), "holds no file; pack exactly one table"),
        ("rows.csv.gz", gzip.compress(b""), "is empty; write a line of column names"),
        ("rows.csv", zipped(WHOLE, "[Content_Types].xml"), "is an Office file, not CSV; save "),
        ("rows.csv.tar.gz", b"no archive", "cannot be decompressed: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_that_cannot_be_unpacked_are_refused(
    name: str, content: bytes, found: str, make_study, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        prepare(make_study(CSV.replace("PATH", name)))
    assert f"data.path: {name} {found}" in str(caught.value)
    with pytest.raises(DataError) as caught:
        guess(tmp_path / name)
    assert found in str(caught.value)
