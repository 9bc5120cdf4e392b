"""The source of user-defined functions, which shows whether it has changed."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from sweeper.config.main_source import ATTRIBUTES, MAIN, found_in_main

OF_ANOTHER_MAIN = (
    "run the command in the notebook or script that defines it, such as "
    'sweeper.command("export", "runs/digits"), or move it to a file next to the study file, name '
    "that in the study file and train the study again"
)


def source_digests(function: str, base_dir: Path) -> dict[str, str]:
    """A digest of each file that `module:function` depends on, by its path from `base_dir`.

    These are the module's own file and those in `base_dir` that it imports, directly or not; none
    of them is run. For an installed module, only its own file counts. In `__main__`, as in a
    notebook, each function, class and value that `function` refers to has its own digest.
    """
    module, _, name = function.partition(":")
    base_dir = base_dir.resolve()
    if module == MAIN:
        found = found_in_main(name)
        files = {path for one in found.modules for path in _module_files(one, base_dir)}
        return {**found.digests, **_digests_of(files, base_dir)}
    files = _module_files(module, base_dir)
    if files:
        return _digests_of(files, base_dir)
    return {path.name: _digest(path) for path in _installed_files(module)}


def is_of_another_main(function: str) -> bool:
    """Whether `function` is in the `__main__` of a notebook or script other than this program."""
    module, _, name = function.partition(":")
    return module == MAIN and (is_command_line() or not hasattr(sys.modules[MAIN], name))


def is_command_line() -> bool:
    """Whether this program is sweeper itself, so that nothing in `__main__` is the user's."""
    spec = getattr(sys.modules[MAIN], "__spec__", None)
    return spec is not None and spec.name.partition(".")[0] == "sweeper"


def changed_names(
    before: Mapping[str, str], now: Mapping[str, str], edition: int, *, in_main: bool
) -> list[str]:
    """The files, or names in `__main__`, whose digests differ from those recorded `before`.

    Edition 1 only recorded plain values of `__main__`, so only names in both records are compared.
    Attributes are compared if they were recorded, which earlier versions did not.
    """
    names = [*before, *(one for one in now if one not in before and not one.endswith(ATTRIBUTES))]
    if edition == 1 and now and in_main:
        names = [name for name in names if name in before and name in now]
    return [name for name in names if before.get(name) != now.get(name)]


def incomparable(function: str) -> list[str]:
    """Names in `__main__` that `function` uses and whose edits cannot be detected."""
    module, _, name = function.partition(":")
    return found_in_main(name).incomparable if module == MAIN else []


def _digests_of(files: Iterable[Path], base_dir: Path) -> dict[str, str]:
    return {path.relative_to(base_dir).as_posix(): _digest(path) for path in sorted(files)}


def is_module_in(module: str, base_dir: Path) -> bool:
    """Whether importing the top-level `module` with `base_dir` in the path runs a file in it."""
    importlib.invalidate_caches()
    spec = PathFinder.find_spec(module, [str(base_dir)])
    return spec is not None and spec.loader is not None


def _module_files(module: str, base_dir: Path) -> set[Path]:
    """The files in `base_dir` that importing `module` runs."""
    found: set[Path] = set()
    names, waiting = {module}, [module]
    while waiting:
        new = set(_files_of(waiting.pop(), base_dir)) - found
        found |= new
        imported = {name for path in new for name in _imported_names(path, base_dir)} - names
        names |= imported
        waiting += imported
    return found


def _files_of(module: str, base_dir: Path) -> Iterator[Path]:
    """The files of a module and of the packages that contain it, if they exist."""
    place = base_dir
    for name in module.split("."):
        if not place.is_dir():
            return
        within, place = place, place / name
        for path in (place / "__init__.py", within / f"{name}.py"):
            if path.is_file():
                yield path
                break


def _imported_names(path: Path, base_dir: Path) -> Iterator[str]:
    """The dotted names that a file imports; names imported from a module may be modules as well."""
    package = path.parent.relative_to(base_dir).parts
    for module, names, level in _imports(path.read_bytes()):
        above = package[: len(package) + 1 - level] if level else ()
        of = ".".join([*above, *([module] if module else [])])
        yield from (
            name for name in (of, *(f"{of}.{name}" if of else name for name in names)) if name
        )


@lru_cache(maxsize=4096)
def _imports(source: bytes) -> list[tuple[str, tuple[str, ...], int]]:
    """The module, the names taken from it and the level of each import statement of a file."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # reported when it is imported
        return []
    found: list[tuple[str, tuple[str, ...], int]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [(alias.name, (), 0) for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                found.append((module or "", tuple(alias.name for alias in names), level))
            case _:
                pass
    return found


def _installed_files(module: str) -> Iterator[Path]:
    spec, names = None, module.split(".")
    for end in range(1, len(names) + 1):
        within = None if spec is None else spec.submodule_search_locations
        if spec is not None and within is None:
            return
        spec = _found(".".join(names[:end]), within)
        if spec is None:
            return
    if spec is not None and spec.origin is not None and Path(spec.origin).is_file():
        yield Path(spec.origin)


def _found(module: str, within: Sequence[str] | None) -> ModuleSpec | None:
    """Where a module is; finding it the usual way would import the packages around it."""
    for finder in sys.meta_path:
        with suppress(ImportError, ValueError, AttributeError):
            if spec := finder.find_spec(module, within):
                return spec
    return None


def _digest(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()
