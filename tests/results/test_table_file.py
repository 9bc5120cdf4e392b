"""A reader that began with one version of a file can finish during the next two."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from sweeper.results.table_file import TableFile

SIZES = [0, 1, 5, 6, 7, 8, 200, 201, 202, 203, 50_000, 50_001, 3, 50_002, 4]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "trials.parquet"


@pytest.fixture
def start(target: Path, tmp_path: Path) -> Callable[[], TableFile]:
    """A new start of the program, which finds the file of the previous one."""
    return lambda: TableFile(target, tmp_path / "staging")


def table(n_rows: int) -> pa.Table:
    """A table that differs in every row from those of other sizes."""
    numbers = range(n_rows * 7, n_rows * 8)
    return pa.table({"number": list(numbers), "name": [f"row {number}" for number in numbers]})


def footer(content: bytes) -> bytes:
    """What a reader keeps of a version: the metadata at the end of its file."""
    return content[-8 - int.from_bytes(content[-8:-4], "little") :]


def test_the_last_version_is_read(start: Callable[[], TableFile], target: Path) -> None:
    file = start()
    for n_rows in SIZES:
        file.write(table(n_rows))
        assert parquet.read_table(target).equals(table(n_rows))


def test_an_older_footer_finds_its_pages(start: Callable[[], TableFile], target: Path) -> None:
    file = start()
    versions: list[tuple[int, bytes]] = []
    for n_rows in SIZES:
        file.write(table(n_rows))
        content = target.read_bytes()
        for older_rows, older in versions[-2:]:
            tail = footer(older)
            mixed = content[: len(older) - len(tail)] + tail
            assert parquet.read_table(BytesIO(mixed)).equals(table(older_rows))
        versions.append((n_rows, content))


def test_an_older_size_finds_a_footer(start: Callable[[], TableFile], target: Path) -> None:
    file = start()
    older, older_rows = b"", 0
    for n_rows in SIZES:
        file.write(table(n_rows))
        content = target.read_bytes()
        assert len(content) >= len(older)
        if older:
            found = parquet.read_table(BytesIO(content[: len(older)]))
            assert found.num_rows in (older_rows, n_rows)
        older, older_rows = content, n_rows


def test_a_new_start_keeps_the_version_before_it(
    start: Callable[[], TableFile], target: Path
) -> None:
    start().write(table(10))
    older = target.read_bytes()
    start().write(table(11))
    content = target.read_bytes()
    assert parquet.read_table(BytesIO(content[: len(older)])).equals(table(10))
    assert parquet.read_table(target).equals(table(11))


@pytest.mark.parametrize("left", [b"", b"PAR", b"PAR1", b"0123456789", b"PAR1" + bytes(9)])
def test_a_damaged_file_is_overwritten(
    left: bytes, start: Callable[[], TableFile], target: Path
) -> None:
    target.write_bytes(left)

    start().write(table(5))

    assert target.read_bytes().startswith(b"PAR1")
    assert parquet.read_table(target).equals(table(5))


def test_many_starts_do_not_make_the_file_large(
    start: Callable[[], TableFile], target: Path
) -> None:
    start().write(table(100))
    once = target.stat().st_size
    for _ in range(50):
        start().write(table(100))
    assert target.stat().st_size < 20 * once


def test_the_file_is_a_few_times_its_table(start: Callable[[], TableFile], target: Path) -> None:
    file = start()
    for n_rows in range(0, 20_000, 200):
        file.write(table(n_rows))
    plain = BytesIO()
    parquet.write_table(table(19_800), plain)
    assert target.stat().st_size < 15 * len(plain.getvalue())
