"""A file that would not fit into memory is refused before it is read, even if compressed."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sweeper.data import ahead, csv_file, guess, new_rows, npz
from sweeper.data.ahead import preparing
from sweeper.data.prepare import prepare
from sweeper.data.transform import Transform
from sweeper.errors import DataError
from tests.data.test_compression import CSV, PACKINGS

KB = 1000
# 160 kB of text, which becomes at least 640 kB of numbers
LARGE = "size,kind\n" + "1,1\n" * 40 * KB
ENDLESS = "size,kind\n" + "1" * 160 * KB
NPZ = 'source = "npz"\npath = "rows.npz"\n'
CANNOT_FIT = r"would take .* of memory, but 97.7 KiB are free; use fewer rows or columns"


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 100 kB of free memory, on which files above 20 kB are large."""
    monkeypatch.setattr(csv_file, "_UNMEASURED_BYTES", 20 * KB)
    monkeypatch.setattr(csv_file, "_PIECE_BYTES", 4 * KB)
    for module in (csv_file, npz, new_rows):
        monkeypatch.setattr(module, "available_bytes", lambda: 100 * KB)


@pytest.mark.parametrize("name", ["rows.csv", *PACKINGS])
@pytest.mark.parametrize(
    ("text", "found"), [(LARGE, CANNOT_FIT), (ENDLESS, "has a line of more than 0 MB; write a ")]
)
def test_a_large_text_file_is_measured_before_it_is_read(
    text: str, found: str, name: str, make_study, tmp_path: Path
) -> None:
    pack = PACKINGS.get(name, bytes)
    (tmp_path / name).write_bytes(pack(text.encode()))
    with pytest.raises(DataError, match=f"data.path: {name} {found}"):
        prepare(make_study(CSV.replace("PATH", name)))
    with pytest.raises(DataError, match=found):
        guess.guess(tmp_path / name)


def test_text_below_the_limit_is_read(make_study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "available_bytes", lambda: 700 * KB)
    with pytest.raises(DataError, match="is '1' in every row"):
        prepare(make_study(CSV.replace("PATH", "rows.csv"), LARGE))


def test_a_file_larger_than_the_memory_is_not_read_to_name_what_is_kept_of_it(
    make_study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_study(CSV.replace("PATH", "rows.csv"), "size,kind\n1,1\n")
    with (tmp_path / "rows.csv").open("ab") as file:
        file.truncate(10**12)  # takes no space on the disk
    monkeypatch.setattr(ahead, "_may_fork", lambda: False)
    with preparing(config) as prepared, pytest.raises(DataError, match="would take 931 GiB"):
        prepared()


def npz_bytes(claimed_rows: int, zeros: int) -> bytes:
    """Arrays `x` and `y` that claim this many rows, with this many bytes behind each header."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, shape in {"x": (claimed_rows, 2), "y": (claimed_rows,)}.items():
            archive.writestr(f"{name}.npy", npy(shape, zeros))
    return content.getvalue()


def npy(shape: tuple[int, ...], zeros: int) -> bytes:
    header = io.BytesIO()
    said = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, said)
    return header.getvalue() + bytes(zeros)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (npz_bytes(10**12, 16), "MemoryError: Unable to allocate"),
        (npz_bytes(100, 16), "ValueError: "),
        (npz_bytes(20 * KB, 160 * KB), CANNOT_FIT),
    ],
    ids=["lying", "short", "large"],
)
def test_large_arrays_are_measured_before_they_are_read(
    content: bytes, found: str, make_study, tmp_path: Path
) -> None:
    (tmp_path / "rows.npz").write_bytes(content)
    with pytest.raises(DataError, match=rf"data.path: rows.npz .*{found}"):
        prepare(make_study(NPZ))


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("new.npz", npz_bytes(10**12, 16), "cannot be read: Unable to allocate"),
        ("new.npz", npz_bytes(20 * KB, 160 * KB), "cannot be read: it would take"),
        ("new.npy", npy((10**12, 1), 16), "cannot be read: Unable to allocate"),
        ("new.npy", npy((40 * KB, 1), 160 * KB), "cannot be read: it would take"),
        ("new.csv.gz", gzip.compress(LARGE.encode()), "would take"),
    ],
)
def test_large_rows_to_predict_are_measured_before_they_are_read(
    name: str, content: bytes, found: str, make_study, tmp_path: Path
) -> None:
    rows = "size,kind\n" + "".join(f"{i},{i % 2}\n" for i in range(40))
    transform = Transform.from_dict(
        prepare(make_study(CSV.replace("PATH", "rows.csv"), rows)).transform
    )
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name}: {found}"):
        new_rows.read_rows(tmp_path / name, transform, {"kind"})
