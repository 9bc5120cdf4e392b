"""Writes functions of `__main__`, and everything they refer to, as a module.

A model exported from a notebook or script contains this module, so that its functions run
elsewhere if the code is trusted.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import io
import linecache
import pickle
import symtable
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from math import isfinite
from pathlib import Path
from textwrap import dedent
from types import FunctionType
from types import ModuleType as Module
from typing import Any

from sweeper.config.main_source import MAIN, undecorated
from sweeper.config.same_code import different_names

# the file of the module
MAIN_FILE = "functions_of_main.py"
_NAME = Path(MAIN_FILE).stem
_HEADING = '"""Functions of a notebook or script, as they were when their model was exported."""\n'
_MAX_CHARACTERS = 1_000_000  # of the text of a value
# scopes whose code runs as part of the statement around them
_COMPREHENSIONS = {"listcomp", "setcomp", "dictcomp", "genexpr"}


@dataclass(frozen=True, slots=True)
class _Definition:
    """How to define a name: `imports` and a statement.

    `names` are the global names that it refers to, `first` those that it needs when it runs.
    """

    text: str = ""
    imports: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    first: frozenset[str] = frozenset()


def module_of(names: Iterable[str]) -> tuple[str, list[str]]:
    """The text of a module that defines `names` of `__main__`, and those that cannot be written.

    The text is empty if there are any of these, or no names at all. Examples are functions whose
    source is not known, or that captured values, objects of classes in `__main__`, and functions
    and classes whose text gives something else now: their defaults, decorators, methods or
    attributes have changed since.
    """
    values = vars(sys.modules[MAIN])
    found, absent, waiting = dict[str, _Definition](), set[str](), [*names]
    while waiting:
        name = waiting.pop()
        if name in found or name in absent or name not in values:
            continue
        if (one := _definition(name, values)) is None:
            absent.add(name)
        else:
            found[name] = one
            waiting += sorted(one.names)
    if not absent and found:
        text = _text(found)
        if not (absent := _different(text, found, values)):
            return text, []
    return "", sorted(absent)


def _different(text: str, names: Iterable[str], values: Mapping[str, Any]) -> set[str]:
    """The names that the text of a module defines otherwise than `__main__`; all if it fails."""
    module = Module(_NAME)
    known = sys.modules.get(_NAME)
    sys.modules[_NAME] = module  # dataclasses look up the module of a class
    try:
        with redirect_stdout(io.StringIO()):
            exec(compile(text, MAIN_FILE, "exec"), vars(module))
    except Exception:  # whatever the code raises
        return {*names}
    finally:
        del sys.modules[_NAME]
        if known is not None:
            sys.modules[_NAME] = known
    return different_names(names, values, vars(module), (MAIN, _NAME))


def _text(found: Mapping[str, _Definition]) -> str:
    imports = sorted({line for one in found.values() for line in one.imports})
    texts = [found[name].text for name in _in_order(found) if found[name].text]
    # `from __future__` must be first
    imports.sort(key=lambda line: not line.startswith("from __future__"))
    return "\n".join([_HEADING, *imports, *(f"\n{text.rstrip()}" for text in texts)]) + "\n"


def _in_order(found: Mapping[str, _Definition]) -> list[str]:
    """The names so that each follows those that it needs."""
    try:
        return [*_sorted({name: one.names | one.first for name, one in found.items()})]
    except CycleError:  # functions that call each other
        return [*_sorted({name: one.first for name, one in found.items()})]


def _sorted(needs: Mapping[str, frozenset[str]]) -> Iterable[str]:
    graph = {name: sorted(needs[name] & needs.keys() - {name}) for name in sorted(needs)}
    return TopologicalSorter(graph).static_order()


def _definition(name: str, values: Mapping[str, Any]) -> _Definition | None:
    """How to define a global name of `__main__`; None if its value cannot be written."""
    value = values[name]
    if isinstance(value, Module):
        return _Definition(imports=frozenset({_import(value.__name__, name)}))
    if _is_literal(value):
        return _stated(f"{name} = {value!r}")
    if getattr(undecorated(value), "__module__", None) == MAIN and callable(value):
        return _source_of(name, value, values)
    return _import_of(name, value) or _pickle_of(name, value)


def _stated(text: str) -> _Definition | None:
    return _Definition(text) if len(text) <= _MAX_CHARACTERS else None


def _import(module: str, name: str) -> str:
    return f"import {module}" if module == name else f"import {module} as {name}"


def _is_literal(value: Any) -> bool:
    """Whether `repr` of a value is Python code for it."""
    kind = value.__class__
    if kind is float:
        return isfinite(value)
    try:
        if kind in (list, tuple):
            return all(map(_is_literal, value))
        if kind is dict:
            return all(map(_is_literal, [*value, *value.values()]))
    except RecursionError:  # it contains itself
        return False
    return kind in (type(None), bool, int, str, bytes)


def _import_of(name: str, value: Any) -> _Definition | None:
    """The import of a function or class of another module, from a public one if possible."""
    module = str(getattr(value, "__module__", ""))
    called = str(getattr(value, "__qualname__", getattr(value, "__name__", "")))
    for place in accumulate(module.split("."), "{}.{}".format):
        if called.isidentifier() and getattr(sys.modules.get(place), called, None) is value:
            as_name = "" if called == name else f" as {name}"
            return _Definition(imports=frozenset({f"from {place} import {called}{as_name}"}))
    return None


def _pickle_of(name: str, value: Any) -> _Definition | None:
    """Any other value, pickled; None if the pickle refers to `__main__`."""
    try:
        content = pickle.dumps(value)
    except Exception:  # whatever the object raises
        return None
    one = _stated(f"{name} = pickle.loads({content!r})")
    if one is None or MAIN.encode() in content:
        return None
    return _Definition(one.text, frozenset({"import pickle"}))


def _source_of(name: str, value: Any, values: Mapping[str, Any]) -> _Definition | None:
    """A function or class by its source, or a second name of one."""
    called = getattr(value, "__name__", None)
    if called != name and isinstance(called, str) and values.get(called) is value:
        first = frozenset({called})
        return _Definition(f"{name} = {called}", names=first, first=first)
    text = _source(value)
    if text is None or not _defines(text, name):
        return None
    first, names = _names_in(text)
    imports = {
        f"import {module}"
        for module in _submodules(text, values)
        if module.partition(".")[0] in names | first
    }
    if _has_postponed_annotations(value):
        imports.add("from __future__ import annotations")
    return _Definition(text, frozenset(imports), names, first)


def _source(value: Any) -> str | None:
    """The source of a function or class, with decorators; None if it would not recreate it."""
    if type(value).__name__ in ("custom_jvp", "custom_vjp"):
        return None  # their rules are statements of their own
    function = undecorated(value)
    try:
        if isinstance(value, type):
            return _source_of_class(value)
        if not isinstance(function, FunctionType) or function.__code__.co_freevars:
            return None
        return dedent(inspect.getsource(function))
    except (OSError, TypeError, SyntaxError):  # it has no source
        return None


def _source_of_class(kind: type) -> str | None:
    """The text of a class: around its methods, since its name may have been defined several times.

    A class without methods is the only one of its name.
    """
    places = [(code.co_filename, code.co_firstlineno) for code in _codes(kind)]
    found = {*_classes_in(*places[0][:1], kind.__name__, places[0][1])} if places else set[str]()
    if len(found) == 1:
        return found.pop()
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):  # in a notebook, a class has no file
        # entries of files have a modification time
        cells = [name for name, entry in [*linecache.cache.items()] if entry[1:2] == (None,)]
        found = {text for name in cells for text in _classes_in(name, kind.__name__, None)}
        return found.pop() if len(found) == 1 and not places else None


def _codes(kind: type) -> Iterator[Any]:
    """The compiled code of the methods that are written in a class."""
    for name in vars(kind):
        method = undecorated(getattr(kind, name))
        method = getattr(method, "__func__", method)
        is_own = getattr(method, "__qualname__", "") == f"{kind.__qualname__}.{name}"
        code = getattr(method, "__code__", None)
        # a method that dataclasses make is in <string>, as is `python -c` since Python 3.13
        if not is_own or code is None or code.co_filename == "<string>":
            continue
        if linecache.getlines(code.co_filename):
            yield code


def _classes_in(file: str, name: str, line: int | None) -> Iterator[str]:
    """The text of each class `name` in a file or cell, around `line` unless that is None."""
    lines, body = linecache.getlines(file), list[ast.stmt]()
    with suppress(SyntaxError):  # a cell that did not run
        body = ast.parse("".join(lines)).body
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name == name and node.end_lineno:
            start = min(one.lineno for one in (node, *node.decorator_list))
            if line is None or start <= line <= node.end_lineno:
                yield "".join(lines[start - 1 : node.end_lineno])


def _defines(text: str, name: str) -> bool:
    """Whether a text is one statement that defines `name`."""
    try:
        body = ast.parse(text).body
    except SyntaxError:  # a lambda within a statement of several lines
        return False
    match body:
        case [ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() as one]:
            return one.name == name
        case [ast.Assign(targets=[ast.Name(id=target)], value=ast.Lambda())]:
            return target == name
        case _:
            return False


def _names_in(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The global names that a statement needs when it runs, and all that it refers to."""
    first, names = set[str](), set[str]()

    def add(table: symtable.SymbolTable, *, is_first: bool) -> None:
        used = {
            one.get_name()
            for one in table.get_symbols()
            if one.is_referenced() and (one.is_global() or table.get_type() == "module")
        }
        names.update(used)
        first.update(used if is_first else ())
        for inner in table.get_children():
            runs = inner.get_type() != "function" or inner.get_name() in _COMPREHENSIONS
            add(inner, is_first=is_first and runs)

    add(symtable.symtable(text, MAIN_FILE, "exec"), is_first=True)
    return frozenset(first), frozenset(names)


def _submodules(text: str, values: Mapping[str, Any]) -> Iterator[str]:
    """The modules that a text reaches through their packages, as in `scipy.special.erf`."""
    for node in ast.walk(ast.parse(text)):
        path = [*_path(node)]
        package = values.get(path[0]) if path else None
        if isinstance(package, Module):
            longer = accumulate([package.__name__, *path[1:]], "{}.{}".format)
            yield from [one for one in longer if one in sys.modules][1:]


def _path(node: ast.AST) -> Iterator[str]:
    """The names in `a.b.c`; nothing for another expression."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=value, attr=name) if path := [*_path(value)]:
            yield from (*path, name)
        case _:
            return


def _has_postponed_annotations(value: Any) -> bool:
    codes = _codes(value) if isinstance(value, type) else [undecorated(value).__code__]
    return any(code.co_flags & __future__.annotations.compiler_flag for code in codes)
