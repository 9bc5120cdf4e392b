"""The README's recipes for pandas, DuckDB and Polars run on a study as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.in_process import study_in, trained
from tests.small_studies import DIGITS
from tests.test_readme import README, _blocks, _section

LIBRARIES = ("pandas", "duckdb", "polars")
RECIPES = [
    block
    for block in _blocks("python", _section("Reading the results"))
    if block.startswith(tuple(f"import {name}" for name in LIBRARIES))
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where runs/digits holds a study that has ended."""
    directory = tmp_path_factory.mktemp("recipes")
    run_dir = f"results.dir={directory / 'runs' / 'digits'}"
    trained(study_in(directory, DIGITS, run_dir, "train.epochs=2"))
    return directory


def test_each_table_has_a_recipe() -> None:
    assert [recipe.split()[1] for recipe in RECIPES] == [*LIBRARIES]
    assert "runs/digits" in README


@pytest.mark.parametrize("recipe", RECIPES, ids=LIBRARIES)
def test_a_recipe_runs(
    recipe: str,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(directory)
    exec(compile(recipe, "README.md", "exec"), {"__name__": "recipe"})
    assert len(capsys.readouterr().out.splitlines()) > 3
