"""Imports point one way, and each outside library has one door."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "sweeper"

# From the bottom up: a module imports from layers below its own, never from beside or above.
LAYERS = (
    {"main_source"},
    {"teardown", "user_source"},
    {
        "errors",
        "faults",
        "naming",
        "trial",
        "ranking",
        "rundir",
        "small_files",
        "timeline",
        "randomness",
        "streams",
        "cachedir",
        "jax_pins",
        "lifeline",
        "interrupts",
        "resources",
        "user_code",
    },
    {"config", "links", "address_space"},
    {"keywords", "trust"},
    {"scheduler", "study", "ledger", "results"},
    {"progress", "trial_file", "saved_code", "ended", "lock"},
    {"models", "data", "reconcile", "study_copy"},
    {"templates", "origins", "text_files"},
    {"authoring", "backup"},
    {"ownership"},
    {"programs"},
    {"executors", "calibration_cases"},
    {
        "state",
        "store",
        "planning",
        "calibration",
        "trials_apart",
        "saved_model",
        "export",
        "starting",
        "xla_threads",
        "importances",
        "optuna_export",
        "diagnosis",
    },
    {"predicting"},
    {
        "deaths",
        "directory",
        "rows",
        "resume",
        "standing",
        "switch_preview",
        "duration",
        "sweep_parts",
        "data_preview",
        "contract",
        "model_checks",
    },
    {"sweep", "session"},
    {"study_run", "unchecked", "preview", "decay_preview", "verification", "leaving"},
    {"api"},
    {"winner"},
    {"wording", "console"},
    {"live", "answers", "logs", "dashboard"},
    {"plan_answers", "trial_answers"},
    {"commands"},
    {"cli"},
    {"__init__", "__main__"},
)
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}

# worker.py is the part of the executors that a child process runs.
ROOMS = {"worker": "executors"}

DOORS = {
    "cloudpickle": {"models"},
    "distributed": {"executors"},
    "equinox": {"models", "programs", "store"},
    "filelock": {"lock"},
    "jax": {
        "models",
        "programs",
        "executors",
        "planning",
        "calibration",
        "contract",
        "trials_apart",
        "api",
        "saved_model",
        "predicting",
        "diagnosis",
    },
    "joblib": {"executors"},
    "optax": {"programs"},
    "optuna": {"study"},
    "packaging": {"diagnosis"},
    "pandas": {"data", "results"},
    "platformdirs": {"cachedir"},
    "pyarrow": {"dashboard", "results"},
    "pydantic": {"config"},
    "pydantic_core": {"config"},
    "ray": {"executors"},
    "rich": {"console", "live", "answers", "plan_answers", "trial_answers", "commands"},
    "safetensors": {"programs"},
    "sklearn": {"data"},
    "sqlalchemy": {"study"},
    "sqlite3": {"ledger"},
    "starlette": {"dashboard"},
    "tomllib": {"config"},
    "typer": {"cli", "commands"},
    "uvicorn": {"dashboard"},
}
HEAVY = {"jax", "equinox", "optax", "optuna", "pandas", "pyarrow", "sklearn"}


@dataclass(frozen=True, slots=True)
class Import:
    """`module`, as imported in `line` of the file `path` below the package."""

    path: Path
    line: int
    module: str

    @property
    def importer(self) -> str:
        """The module or package directly below `sweeper` that imports."""
        return _room(self.path.parts[0].removesuffix(".py"))

    @property
    def imported(self) -> str:
        """The module or package directly below `sweeper` that is imported."""
        return _room(self.module.split(".")[1] if "." in self.module else "__init__")

    @property
    def library(self) -> str:
        return self.module.partition(".")[0]

    def __str__(self) -> str:
        return f"sweeper/{self.path}:{self.line} imports {self.module}"


def _room(name: str) -> str:
    return ROOMS.get(name, name)


@cache
def _modules() -> dict[Path, ast.Module]:
    """Every module by its path below the package, parsed once for all tests."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE): ast.parse(path.read_text("utf-8")) for path in paths}


def _imported(node: ast.AST) -> list[str]:
    """The modules that an import statement names; `from sweeper import x` is sweeper.x."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module="sweeper", names=names):
            return [f"sweeper.{alias.name}" for alias in names]
        case ast.ImportFrom(module=str(module)):
            return [module]
        case _:
            return []


@cache
def _imports() -> tuple[Import, ...]:
    return tuple(
        Import(path, node.lineno, module)
        for path, tree in _modules().items()
        for node in ast.walk(tree)
        for module in _imported(node)
    )


def _called_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node.lineno


def test_every_module_has_its_layer() -> None:
    found = {_room(path.parts[0].removesuffix(".py")) for path in _modules()}
    assert found == set(HEIGHT)


def test_imports_point_down() -> None:
    wrong = [
        str(found)
        for found in _imports()
        if found.library == "sweeper"
        and found.imported != found.importer
        and HEIGHT[found.imported] >= HEIGHT[found.importer]
    ]
    assert wrong == []


def test_no_import_is_relative() -> None:
    nodes = [
        (path.name, node.lineno)
        for path, tree in _modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert nodes == []


@pytest.mark.parametrize("library", sorted(DOORS))
def test_each_library_comes_in_by_its_door(library: str) -> None:
    wrong = [
        str(found)
        for found in _imports()
        if found.library == library and found.importer not in DOORS[library]
    ]
    assert wrong == []


def test_only_the_commands_print() -> None:
    wrong = [
        f"{path}:{line}"
        for path, tree in _modules().items()
        if path.parts[0] != "commands"
        for name, line in _called_names(tree)
        if name == "print"
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "statement",
    [
        "import sweeper",
        "import sweeper.results.status",
        "import sweeper.cli.main",
        # what trains is imported while data are read and programs are compiled
        "import sweeper.cli.commands.running, sweeper.api",
    ],
)
def test_light_modules_import_nothing_heavy(statement: str) -> None:
    code = f"import sys; {statement}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
