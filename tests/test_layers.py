"""Imports point one way, and each outside library is imported in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "sweeper"

# From the bottom up: a room or a file at the root imports from those below its own.
LAYERS = (
    {"errors", "faults", "trial"},
    {"files", "process", "user_dirs"},
    {"rundir"},
    {"config"},
    {"results"},
    {"ledger", "study", "scheduler"},
    {"data"},
    {"templates"},
    {"models"},
    {"programs"},
    {"executors"},
    {"sweep"},
    {"preflight"},
    {"export"},
    {"dashboard"},
    {"notebook"},
    {"api"},
    {"estimators"},
    {"trackers"},
    {"cli"},
    {"__init__", "__main__"},
)
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}

DOORS = {
    "distributed": {"executors"},
    "equinox": {"models", "programs", "preflight", "sweep"},
    "IPython": {"notebook"},
    "filelock": {"sweep"},
    "jax": {"models", "programs", "executors", "sweep", "preflight", "export", "api"},
    "jax2onnx": {"export"},
    "joblib": {"executors"},
    "matplotlib": {"dashboard"},
    "mlflow": {"trackers"},
    "onnx": {"export"},
    "onnxruntime": {"export"},
    "optax": {"programs", "preflight"},
    "optuna": {"study"},
    "packaging": {"preflight"},
    "pandas": {"data", "estimators", "results"},
    "platformdirs": {"user_dirs"},
    "pyarrow": {"dashboard", "data", "results"},
    "pydantic": {"config"},
    "pydantic_core": {"config"},
    "ray": {"executors"},
    "rich": {"cli"},
    "safetensors": {"programs"},
    "sklearn": {"data", "estimators"},
    "sqlalchemy": {"study"},
    "sqlite3": {"ledger"},
    "starlette": {"dashboard"},
    "tomllib": {"config"},
    "tensorboard": {"trackers"},
    "tqdm": {"study"},
    "typer": {"cli"},
    "uvicorn": {"dashboard"},
    "wandb": {"trackers"},
}
HEAVY = {"jax", "equinox", "optax", "optuna", "pandas", "pyarrow", "sklearn", "matplotlib"}


@dataclass(frozen=True, slots=True)
class Import:
    """`module`, as imported in `line` of the file `path` below the package."""

    path: Path
    line: int
    module: str

    @property
    def importer(self) -> str:
        """The module or package directly below `sweeper` that imports."""
        return self.path.parts[0].removesuffix(".py")

    @property
    def imported(self) -> str:
        """The module or package directly below `sweeper` that is imported."""
        return self.module.split(".")[1] if "." in self.module else "__init__"

    @property
    def library(self) -> str:
        return self.module.partition(".")[0]

    def __str__(self) -> str:
        return f"sweeper/{self.path}:{self.line} imports {self.module}"


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
    found = {path.parts[0].removesuffix(".py") for path in _modules()}
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


def test_modules_have_no_import_circles() -> None:
    """Also inside functions: a late import is still an import."""
    modules = {_name(path) for path in _modules()}
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for path, tree in _modules().items():
        for node in ast.walk(tree):
            graph[_name(path)] |= {name for name in _named(node) if name in modules}
    assert list(TopologicalSorter(graph).static_order())


def _name(path: Path) -> str:
    """The dotted name of the module in `path` below the package."""
    return ".".join(("sweeper", *path.with_suffix("").parts)).removesuffix(".__init__")


def _named(node: ast.AST) -> Iterator[str]:
    """The modules that an import statement may name: `from a import b` is a, or a.b."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module), names=names):
            if module != "sweeper":
                yield module
            yield from (f"{module}.{alias.name}" for alias in names)
        case _:
            return


def test_no_import_is_relative() -> None:
    nodes = [
        (path.name, node.lineno)
        for path, tree in _modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert nodes == []


@pytest.mark.parametrize("library", sorted(DOORS))
def test_each_library_is_imported_only_where_allowed(library: str) -> None:
    wrong = [
        str(found)
        for found in _imports()
        if found.library == library and found.importer not in DOORS[library]
    ]
    assert wrong == []


def test_a_study_ends_without_the_database_library() -> None:
    """Its import takes half a second, and only storages of Optuna need it."""
    code = "import sys, sweeper.study.importance; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_only_the_commands_print() -> None:
    wrong = [
        f"{path}:{line}"
        for path, tree in _modules().items()
        if path.parts[:2] != ("cli", "commands")
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
        # training is imported while data is read and programs are compiled
        "import sweeper.cli.commands.running, sweeper.api",
    ],
)
def test_light_modules_import_nothing_heavy(statement: str) -> None:
    code = f"import sys; {statement}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
