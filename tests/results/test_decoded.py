"""A Parquet file that becomes too large in memory is refused before it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from sweeper.config import parse
from sweeper.data import parquet
from sweeper.data.files import UnfitTableError
from sweeper.data.parquet import parquet_table
from sweeper.errors import SetupError
from sweeper.results import decoded
from sweeper.results.columns import METADATA_KEY
from sweeper.results.compare import TableDifference, differences
from sweeper.results.decoded import check_published, decoded_bytes
from sweeper.results.light import read_light, readable
from sweeper.results.schema import trials_schema
from tests.command_line import STUDY

MiB = 1 << 20


def written(path: Path, columns: dict[str, Any], times: int = 1) -> Path:
    table = pa.table(columns)
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(times):
            writer.write_table(table)
    return path


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Ten million times the same number."""
    path = written(tmp_path / "numbers.parquet", {"x": [1.5] * 100_000}, times=100)
    assert path.stat().st_size < 64 << 10
    return path


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Ten thousand times the same long text."""
    column = pa.DictionaryArray.from_arrays([0] * 10_000, ["x" * 10_000])
    path = written(tmp_path / "texts.parquet", {"x": column.cast(pa.string())})
    assert path.stat().st_size < 64 << 10
    return path


def test_values_that_repeat_are_counted_each(numbers: Path, texts: Path) -> None:
    assert decoded_bytes([numbers], MiB) == 80_000_000
    assert decoded_bytes([texts], MiB) > 100_000_000
    assert decoded_bytes([numbers, texts], 100 * MiB) > 180_000_000


def test_the_size_of_a_column_of_categories_is_not_overestimated(tmp_path: Path) -> None:
    categories = [f"category {index % 100}" for index in range(100_000)]
    lists = [["a"]] * 1000
    path = written(tmp_path / "c.parquet", {"c": categories, "gaps": [None] * 100_000})
    assert 2 * MiB < decoded_bytes([path], MiB) < 8 * MiB
    assert decoded_bytes([written(tmp_path / "l.parquet", {"l": lists})], MiB) < MiB


def test_a_data_table_is_refused(
    numbers: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "available_bytes", lambda: 100 * MiB)
    assert len(parquet_table([numbers])) == 10_000_000
    with pytest.raises(UnfitTableError) as refused:
        parquet_table([numbers, numbers])
    assert "the 2 files would take 153 MiB of memory, but 100 MiB are free" in str(refused.value)
    monkeypatch.setattr(parquet, "available_bytes", lambda: 50 * MiB)
    with pytest.raises(UnfitTableError, match=r"^texts.parquet would take 95\.\d MiB"):
        parquet_table([texts])


def test_published_tables_are_refused(
    numbers: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_published(numbers)
    monkeypatch.setattr(decoded, "available_bytes", lambda: 50 * MiB)
    for path in (numbers, texts, numbers.parent):
        with pytest.raises(SetupError, match="but at most 50 MiB are allowed"):
            check_published(path)
    few = written(numbers.parent / "few", {"x": [1.5]})
    assert differences(numbers, few) is TableDifference.UNREADABLE


def test_oversized_files_are_refused_by_commands_and_the_page(
    numbers: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded, "MAX_AT_ONCE", 50 * MiB)
    with pytest.raises(SetupError, match=r"it takes 76\.3 MiB of memory"):
        read_light(numbers)
    assert readable(numbers) is None
    for path, columns in ((texts, None), (numbers, ["y"])):  # texts come as codes
        assert read_light(path, columns) is not None


def test_a_file_with_a_hole_is_not_read_into_memory(numbers: Path) -> None:
    with numbers.open("r+b") as file:
        tail = file.read()[-32_000:]
        file.truncate(2 << 30)
        file.seek((2 << 30) - len(tail))
        file.write(tail)
    with pytest.raises(SetupError):
        read_light(numbers)


def test_damaged_names_of_columns_are_refused(tmp_path: Path) -> None:
    path, schema = tmp_path / "trials.parquet", trials_schema(parse(STUDY, tmp_path))
    pq.write_table(schema.empty_table(), path)
    assert read_light(path) is not None
    path.write_bytes(path.read_bytes().replace(b"best_epoch", b"best_epocg"))
    with pytest.raises(SetupError, match="it cannot be read; rewrite it with"):
        read_light(path)


def test_tables_without_a_digest_are_refused_by_their_columns(tmp_path: Path) -> None:
    path, schema = tmp_path / "trials.parquet", trials_schema(parse(STUDY, tmp_path))
    about_study = {METADATA_KEY: schema.metadata[METADATA_KEY]}
    pq.write_table(schema.with_metadata(about_study).empty_table(), path)
    assert read_light(path) is not None
    path.write_bytes(path.read_bytes().replace(b"best_epoch", b"best_epocg", 1))
    with pytest.raises(SetupError, match="it cannot be read"):
        read_light(path)


@pytest.mark.parametrize("about", [b'{"columns": ["other"]}', b"[]", b"not JSON"])
def test_data_that_kept_the_metadata_of_results_are_measured_all_the_same(
    about: bytes, tmp_path: Path
) -> None:
    table = pa.table({"x": [1.5] * 1000}).replace_schema_metadata({METADATA_KEY: about})
    pq.write_table(table, tmp_path / "data.parquet")
    assert decoded_bytes([tmp_path / "data.parquet"], MiB) == 8000
    with pytest.raises(ValueError, match=r"columns|JSON|Expecting"):
        check_published(tmp_path / "data.parquet")
