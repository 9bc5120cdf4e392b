"""Examples in the docstrings of public functions run, and print what they show."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest

import sweeper


@pytest.mark.parametrize("name", ["load_study", "run"])
def test_an_example_runs_as_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"sweeper": sweeper, "np": np}
    (example,) = doctest.DocTestFinder(recurse=False).find(
        getattr(sweeper, name), name, globs=given
    )
    assert len(example.examples) >= 3
    assert doctest.DocTestRunner().run(example).failed == 0
