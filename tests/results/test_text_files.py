"""A text file that a command writes is complete, or does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.results.text_files import write_new


def test_interrupted_writing_leaves_no_partial_file(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):  # a signal ends it in the same way
        write_new(tmp_path / "answer.csv", "a" * 100_000 + "\ud800")
    assert [*tmp_path.iterdir()] == []
