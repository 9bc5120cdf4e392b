"""A file that a command writes is complete, or does not exist."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sweeper.errors import SetupError
from sweeper.results.text_files import write_new, write_over


@contextmanager
def largest_file(n_bytes: int) -> Iterator[None]:
    """Writing more into a file fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("content", ["a" * 100_000, b"a" * 100_000])
def test_interrupted_writing_leaves_no_partial_file(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(SetupError, match="File too large"), largest_file(4096):
        write_new(tmp_path / "answer.csv", content)
    assert [*tmp_path.iterdir()] == []


def test_a_file_is_replaced_whole_or_stays(tmp_path: Path) -> None:
    path, link = tmp_path / "report.html", tmp_path / "link.html"
    write_over(path, "first")
    link.symlink_to(path)
    with pytest.raises(SetupError, match="File too large"), largest_file(4096):
        write_over(path, "a" * 100_000)
    assert path.read_text(encoding="utf-8") == "first"

    write_over(link, "second")
    assert path.read_text(encoding="utf-8") == "second"
    assert {*tmp_path.iterdir()} == {path, link}
    assert link.is_symlink()
    with pytest.raises(SetupError, match="No such file"):
        write_over(tmp_path / "absent" / "report.html", "third")
    write_over(Path("/dev/null"), "fourth")
