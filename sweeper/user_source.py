"""The source of the user's own modules, by which a study knows whether it has changed."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from importlib.machinery import ModuleSpec
from pathlib import Path


def source_digests(function: str, base_dir: Path) -> dict[str, str]:
    """A digest of each file that `module:function` comes from, by its path from `base_dir`.

    They are the module's own and those in `base_dir` that it imports, directly or not; none of
    them is run. An installed module is its own file alone.
    """
    module, base_dir = function.partition(":")[0], base_dir.resolve()
    files = sorted(_files_beside(module, base_dir))
    if files:
        return {path.relative_to(base_dir).as_posix(): _digest(path) for path in files}
    return {path.name: _digest(path) for path in _installed(module)}


def _files_beside(module: str, base_dir: Path) -> set[Path]:
    """The files in `base_dir` that importing `module` runs."""
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        new = set(_files_of(waiting.pop(), base_dir)) - found
        found |= new
        waiting += [name for path in new for name in _imported(path, base_dir)]
    return found


def _files_of(module: str, base_dir: Path) -> Iterator[Path]:
    """The file of a module and those of the packages that it is in, where they are there."""
    names = module.split(".")
    for end in range(1, len(names) + 1):
        place = base_dir.joinpath(*names[:end])
        for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if path.is_file():
                yield path
                break


def _imported(path: Path, base_dir: Path) -> Iterator[str]:
    """What a file imports, by its dotted name; names from a module may be modules as well."""
    package = path.parent.relative_to(base_dir).parts
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # told where it is imported
        return
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package[: len(package) + 1 - level] if level else ()
                of = ".".join([*above, *([module] if module else [])])
                yield of
                yield from (f"{of}.{alias.name}" if of else alias.name for alias in names)
            case _:
                pass


def _installed(module: str) -> Iterator[Path]:
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
    """Where a module is; that of Python's own imports the packages around it for this."""
    for finder in sys.meta_path:
        with suppress(ImportError, ValueError, AttributeError):
            if spec := finder.find_spec(module, within):
                return spec
    return None


def _digest(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()
