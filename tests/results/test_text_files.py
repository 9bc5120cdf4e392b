"""A text file that a command writes is complete, or does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.errors import SetupError
from sweeper.results.text_files import write_new, write_over


def test_interrupted_writing_leaves_no_partial_file(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):  # a signal ends it in the same way
        write_new(tmp_path / "answer.csv", "a" * 100_000 + "\ud800")
    assert [*tmp_path.iterdir()] == []


def test_a_file_is_replaced_whole_or_stays(tmp_path: Path) -> None:
    path, link = tmp_path / "report.html", tmp_path / "link.html"
    write_over(path, "first")
    link.symlink_to(path)
    with pytest.raises(UnicodeEncodeError):
        write_over(path, "a" * 100_000 + "\ud800")
    assert path.read_text(encoding="utf-8") == "first"

    write_over(link, "second")
    assert path.read_text(encoding="utf-8") == "second"
    assert {*tmp_path.iterdir()} == {path, link}
    assert link.is_symlink()
    with pytest.raises(SetupError, match="No such file"):
        write_over(tmp_path / "absent" / "report.html", "third")
    write_over(Path("/dev/null"), "fourth")
