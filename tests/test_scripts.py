"""What the scripts import from the package exists, although most of them rarely run."""

from __future__ import annotations

import ast
import runpy
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "scripts"


def python_files() -> Iterator[Path]:
    """The scripts in Python, and what they share."""
    for path in sorted(SCRIPTS.rglob("*")):
        if path.suffix == ".py" or (path.is_file() and not path.suffix and is_python(path)):
            yield path


def is_python(path: Path) -> bool:
    return path.read_text(encoding="utf-8").partition("\n")[0].endswith("python3")


def test_ruff_checks_every_script_in_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    scripts = [f"scripts/{path.name}" for path in python_files() if not path.suffix]
    assert project["tool"]["ruff"]["extend-include"] == scripts


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """The modules of the package that a script imports from, each with the imported name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sweeper"):
            yield from ((str(node.module), alias.name) for alias in node.names)


@pytest.mark.parametrize("path", [*python_files()], ids=lambda path: path.name)
def test_imports_of_scripts_exist_in_the_package(path: Path) -> None:
    missing = [
        (module, name)
        for module, name in imported(path)
        if not (hasattr(import_module(module), name) or find_spec(f"{module}.{name}"))
    ]
    assert missing == []


def test_each_integration_test_has_a_group_with_an_extra() -> None:
    groups = runpy.run_path(str(SCRIPTS / "test_integrations"))["GROUPS"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    there = {ROOT / tests for tests in groups.values()}
    assert {*groups} <= {*extras["optional-dependencies"]}
    marked = {
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark.integration" in path.read_text("utf-8") and path != Path(__file__)
    }
    assert {path for path in marked if not {path, *path.parents} & there} == set()


def test_some_scripts_import_from_the_package() -> None:
    assert sum(any(imported(path)) for path in python_files()) > 3
