"""The files that start first are there."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import LONGEST


def test_each_of_the_longest_files_exists_and_is_named_once() -> None:
    here = Path(__file__).parent
    assert [name for name in LONGEST if not (here / name).is_file()] == []
    assert len({*LONGEST}) == len(LONGEST)
