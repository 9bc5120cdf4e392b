"""The source of user-defined functions, by which a study knows whether it has changed."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType
from typing import Any

MAIN = "__main__"
_PLAIN = (bool, int, float, str, bytes, tuple)


def source_digests(function: str, base_dir: Path) -> dict[str, str]:
    """A digest of each file that `module:function` comes from, by its path from `base_dir`.

    They are the module's own and those in `base_dir` that it imports, directly or not; none of
    them is run. An installed module is its own file alone. What stands in `__main__`, as in a
    notebook, has a digest for each function, class and plain value that `function` refers to.
    """
    module, _, name = function.partition(":")
    base_dir = base_dir.resolve()
    if module == MAIN:
        return _digests_in_main(name)
    files = sorted(_files_beside(module, base_dir))
    if files:
        return {path.relative_to(base_dir).as_posix(): _digest(path) for path in files}
    return {path.name: _digest(path) for path in _installed(module)}


def is_beside(module: str, base_dir: Path) -> bool:
    """Whether importing the top-level `module` from `base_dir` runs a file in it."""
    importlib.invalidate_caches()
    spec = PathFinder.find_spec(module, [str(base_dir)])
    return spec is not None and spec.loader is not None


def _digests_in_main(name: str) -> dict[str, str]:
    """A digest of `name` in `__main__`, and of each name there that its source refers to."""
    values, found = vars(sys.modules[MAIN]), dict[str, str]()
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if f"{MAIN}.{name}" in found or name not in values:
            continue
        text, names = _source_of(values[name])
        if text is not None:
            found[f"{MAIN}.{name}"] = blake2b(text.encode(), digest_size=16).hexdigest()
            waiting += names
    return dict(sorted(found.items()))


def _source_of(value: Any) -> tuple[str | None, Sequence[str]]:
    """The source of a function, class or plain value, and the names in it; None for others."""
    if isinstance(value, _PLAIN):
        return repr(value), ()
    if getattr(value, "__module__", None) != MAIN:
        return None, ()
    if not isinstance(value, type):
        return _code_of(inspect.unwrap(value))
    bases = [base.__name__ for base in value.__bases__]
    texts, names = [repr(bases), repr(inspect.get_annotations(value))], list(bases)
    for attribute in value.__dict__:
        text, inner = _code_of(inspect.unwrap(getattr(value, attribute)))
        texts.append(f"{attribute} = {text}")
        names += inner
    return "\n".join(texts), names


def _code_of(function: Any) -> tuple[str | None, Sequence[str]]:
    """The source of a function, or its compiled code if there is none, and the names in it."""
    code = getattr(function, "__code__", None)
    if code is None:
        return (None, ()) if not isinstance(function, _PLAIN) else (repr(function), ())
    try:
        text = inspect.getsource(function)
    except OSError:
        text = repr((_compiled(code), function.__defaults__, function.__kwdefaults__))
    return text, [*_names_in(code)]


def _compiled(code: CodeType) -> str:
    inner = (_compiled(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
    return repr((code.co_code, code.co_names, code.co_varnames, *inner))


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


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
