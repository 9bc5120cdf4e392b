"""The source of functions in `__main__`, and of the values that they use there.

A notebook or script has no file that determines what a function does: cells run in any order, and
global names may have changed since. So each function, class and value that a function refers to is
compared on its own.
"""

from __future__ import annotations

import copyreg
import dataclasses
import dis
import functools
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType
from types import ModuleType as Module
from typing import Any, cast

MAIN = "__main__"
VALUE = " (value)"
CAPTURED = " (defaults and captured values)"
ATTRIBUTES = " (attributes)"
_PLAIN = (bool, int, float, str, bytes, tuple)
# types of values without parts
SCALARS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range)
_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME"}
# what dataclasses and abstract classes add to a class
_GENERATED = {
    "__annotate__",
    "__annotate_func__",
    "__delattr__",
    "__eq__",
    "__ge__",
    "__gt__",
    "__hash__",
    "__le__",
    "__lt__",
    "__replace__",
    "__repr__",
    "__setattr__",
    "_abc_impl",
}
# values with more parts, or deeper nesting, are not recorded
_MAX_PARTS = 100_000
_DEEPEST = 50


class _IncomparableError(Exception):
    """A value has a part that cannot be compared, such as a lock or an open file."""


@dataclass(slots=True)
class Found:
    """Everything in `__main__` that a function refers to.

    `digests` are those of functions, classes and values, by name. `modules` are the names of other
    modules that it uses, `incomparable` the names of values without a digest.
    """

    digests: dict[str, str] = field(default_factory=dict[str, str])
    modules: set[str] = field(default_factory=set[str])
    incomparable: list[str] = field(default_factory=list[str])


def found_in_main(name: str) -> Found:
    """Everything in `__main__` that `name` refers to, including itself."""
    values, found = vars(sys.modules[MAIN]), Found()
    _add_sources(name, values, found)
    waiting, seen = [name], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in values:
            continue
        seen.add(name)
        parts = _Parts(values)
        try:
            if (entry := _entry(name, values[name], parts)) is not None:
                found.digests[f"{MAIN}.{entry}"] = parts.hash.hexdigest()
        except _IncomparableError:
            found.incomparable.append(name)
        _add_attributes(name, values, found)
        found.modules |= parts.modules
        for other in parts.names:
            _add_sources(other, values, found)
        waiting += parts.names
    found.digests = dict(sorted(found.digests.items()))
    return found


def _entry(name: str, value: Any, parts: _Parts) -> str | None:
    """Add the parts of a global value; returns the name of its entry, or None."""
    unwrapped = undecorated(value)
    if isinstance(unwrapped, FunctionType) and unwrapped.__module__ == MAIN:
        parts.names += _globals_in(unwrapped.__code__)
        levels = {id(one): one for one in (unwrapped, value) if isinstance(one, FunctionType)}
        has_more = [parts.add_captured(one) for one in levels.values()]
        return name + CAPTURED if any(has_more) else None
    if isinstance(value, type) and value.__module__ == MAIN:
        return name + CAPTURED if parts.add_class(value) else None
    if _is_plain(value):
        return None
    parts.add(value)
    is_code = isinstance(value, Module | type | BuiltinFunctionType) or _is_importable(unwrapped)
    return None if is_code else name + VALUE


def _add_attributes(name: str, values: Mapping[str, Any], found: Found) -> None:
    """Add an entry for the attributes of a function, such as `build.scale`, if it has any."""
    function = undecorated(values[name])
    if not isinstance(function, FunctionType) or function.__module__ != MAIN:
        return
    if not (attributes := attributes_of(function)):
        return
    parts = _Parts(values)
    try:
        parts.add(attributes)
    except _IncomparableError:
        if name not in found.incomparable:
            found.incomparable.append(name)
        return
    found.digests[f"{MAIN}.{name}{ATTRIBUTES}"] = parts.hash.hexdigest()


def attributes_of(function: FunctionType) -> dict[str, Any]:
    """The attributes that a program has given to a function; those of libraries begin with `_`."""
    return {name: one for name, one in sorted(vars(function).items()) if not name.startswith("_")}


def _is_importable(value: Any) -> bool:
    """Whether a value belongs to a module, so that its name and version identify it."""
    return (
        isinstance(value, FunctionType)
        and value.__module__ != MAIN
        and "<locals>" not in value.__qualname__
    )


def _kind_of(value: object) -> type:
    return type(value)


def undecorated(value: Any) -> Any:
    """The function inside decorators such as `jax.jit`."""
    try:
        return inspect.unwrap(value)
    except ValueError:  # it wraps itself
        return value


class _Parts:
    """The content of a value: its hash, and the global names and modules that it refers to."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.hash = blake2b(digest_size=16)
        self.names: list[str] = []
        self.modules: set[str] = set()
        self._values = values
        self._count = 0
        self._within: list[int] = []

    def add(self, value: Any) -> None:
        """Add `value` with all its parts.

        Raises:
            _IncomparableError: a part cannot be compared, or there are too many parts.
        """
        self._count += 1
        if self._count > _MAX_PARTS or len(self._within) > _DEEPEST:
            raise _IncomparableError
        if id(value) in self._within:
            self._note("within", len(self._within) - self._within.index(id(value)))
            return
        self._within.append(id(value))
        try:
            self._add(value)
        finally:
            self._within.pop()

    def add_captured(self, function: FunctionType) -> bool:
        """Add the defaults and captured values of a function; returns whether there are any."""
        given = (function.__defaults__, function.__kwdefaults__, captured_by(function))
        if not any(given):
            return False
        for one in given:
            self.add(one)
        return True

    def add_class(self, kind: type) -> bool:
        """Add the content of a class's attributes, except plain values and source."""
        begun = self._count
        self.names += [base.__name__ for base in kind.__bases__ if base.__module__ == MAIN]
        for name, attribute in vars(kind).items():
            if name in _GENERATED or isinstance(attribute, SCALARS):
                continue
            value = undecorated(getattr(kind, name))
            value = getattr(value, "__func__", value)
            if isinstance(value, FunctionType):
                self._add_method(kind, value)
            elif not name.startswith("__"):
                self._add_attribute(name, attribute, value)
        self._add_fields(kind)
        return self._count > begun

    def _add_method(self, kind: type, method: FunctionType) -> None:
        params = vars(kind).get("__dataclass_params__")
        if method.__name__ == "__init__" and params is not None and params.init:
            return  # generated by the dataclass
        self.names += _globals_in(method.__code__)
        self.add_captured(method)

    def _add_attribute(self, name: str, attribute: Any, value: Any) -> None:
        if isinstance(attribute, property | functools.cached_property):
            self._note(name)
            self.add(_getters(cast("property", attribute)))
        elif not inspect.isdatadescriptor(attribute):
            self._note(name)
            self.add(value)

    def _add_fields(self, kind: type) -> None:
        for one in vars(kind).get("__dataclass_fields__", {}).values():
            options = (one.default_factory, dict(one.metadata))
            if options != (dataclasses.MISSING, {}):
                self._note(one.name)
                self.add([each for each in options if each is not dataclasses.MISSING])

    def _add(self, value: Any) -> None:
        unwrapped = undecorated(value) if callable(value) else value
        kind = _kind_of(value)
        if isinstance(value, SCALARS):
            self._note(type(value).__name__, value)
        elif isinstance(value, list | tuple):
            self._add_all(kind, cast("Sequence[Any]", value))
        elif isinstance(value, set | frozenset):
            self._note(kind.__name__, sorted(self._digest(one) for one in cast(Any, value)))
        elif type(value) in (dict, MappingProxyType):
            pairs = cast("Mapping[Any, Any]", value)
            self._add_all(dict, [each for pair in pairs.items() for each in pair])
        elif isinstance(value, Module):
            self._note("module", value.__name__)
            self.modules.add(value.__name__)
        elif isinstance(value, type):
            self._add_named(value)
        elif isinstance(unwrapped, FunctionType):
            self._add_function(value if isinstance(value, FunctionType) else unwrapped)
        elif isinstance(value, MethodType):
            self._add_all(MethodType, [value.__func__, value.__self__])
        elif hasattr(value, "dtype") and hasattr(value, "__array__"):
            self._add_array(value)
        else:
            self._add_reduced(value)

    def _add_all(self, kind: type, values: Iterable[Any]) -> None:
        values = [*values]
        self._note(kind.__qualname__, len(values))
        for value in values:
            self.add(value)

    def _add_named(self, value: Any) -> None:
        """Add a function or class by name; those in `__main__` have entries of their own."""
        self._note("named", value.__module__, value.__qualname__)
        if value.__module__ != MAIN:
            self.modules.add(value.__module__)
        elif self._values.get(value.__name__) is value:
            self.names.append(value.__name__)
        else:
            self.hash.update((source_of(value)[0] or "").encode())
            if isinstance(value, type):
                self.add_class(value)

    def _add_function(self, function: FunctionType) -> None:
        if _is_importable(function) or self._values.get(function.__name__) is function:
            self._add_named(function)
            return
        self._note("function", function.__module__, code_of(function)[0])
        if function.__module__ == MAIN:
            self.names += _globals_in(function.__code__)
        self.add_captured(function)

    def _add_array(self, value: Any) -> None:
        import numpy as np

        self._note("array", str(value.dtype), getattr(value, "shape", ()))
        try:
            array = np.asarray(value)
        except TypeError:  # JAX random keys
            array = np.asarray(sys.modules["jax"].random.key_data(value))
        if array.dtype == object:
            self._add_all(list, array.ravel().tolist())
        else:
            self.hash.update(np.ascontiguousarray(array).tobytes())

    def _add_reduced(self, value: Any) -> None:
        """Add any other object by what its pickle would contain."""
        try:
            reducer = copyreg.dispatch_table.get(_kind_of(value))
            reduced = reducer(value) if reducer else value.__reduce_ex__(2)
        except Exception as error:
            raise _IncomparableError from error
        self._note("object", type(value).__module__, type(value).__qualname__)
        if isinstance(reduced, str):
            self._note(reduced)
            return
        for part in reduced:
            self.add([*part] if isinstance(part, Iterator) else part)

    def _digest(self, value: Any) -> str:
        """The digest of an element of a set, which has no order."""
        outer, self.hash = self.hash, blake2b(digest_size=16)
        try:
            self.add(value)
            return self.hash.hexdigest()
        finally:
            self.hash = outer

    def _note(self, *parts: object) -> None:
        self.hash.update(f"{parts!r}\n".encode("utf-8", "backslashreplace"))


def captured_by(function: FunctionType) -> dict[str, Any]:
    """The values of variables around a function that it refers to, by name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: _content(cell) for name, cell in cells if name != "__class__"}


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return None


def _getters(attribute: property | functools.cached_property[Any]) -> list[Any]:
    if isinstance(attribute, property):
        return [attribute.fget, attribute.fset]
    return [attribute.func]


def _add_sources(name: str, values: Mapping[str, Any], found: Found) -> None:
    """Add the source of `name` and of each function, class and plain value that it refers to."""
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if f"{MAIN}.{name}" in found.digests or name not in values:
            continue
        text, names = source_of(values[name])
        if text is not None:
            found.digests[f"{MAIN}.{name}"] = blake2b(text.encode(), digest_size=16).hexdigest()
            waiting += names


def source_of(value: Any) -> tuple[str | None, Sequence[str]]:
    """The source of a function, class or plain value, and the names in it; None for others."""
    if isinstance(value, _PLAIN):
        return _plain_text(value), ()
    if getattr(value, "__module__", None) != MAIN:
        return None, ()
    if not isinstance(value, type):
        return code_of(inspect.unwrap(cast("Callable[..., Any]", value)))
    bases = [base.__name__ for base in value.__bases__]
    texts, names = [repr(bases), repr(inspect.get_annotations(value))], list(bases)
    for attribute in value.__dict__:
        text, inner = code_of(inspect.unwrap(getattr(value, attribute)))
        texts.append(f"{attribute} = {text}")
        names += inner
    return "\n".join(texts), names


def _plain_text(value: Any) -> str | None:
    """The text of a plain value; None for a tuple whose text contains memory addresses."""
    text = _text(value)
    return None if isinstance(value, tuple) and " at 0x" in text else text


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(each) for each in cast("tuple[Any, ...]", value))
    return isinstance(value, SCALARS)


def code_of(function: Any) -> tuple[str | None, Sequence[str]]:
    """The source of a function, or its compiled code if there is none, and the names in it."""
    code = getattr(function, "__code__", None)
    if code is None:
        return (_plain_text(function) if isinstance(function, _PLAIN) else None), ()
    try:
        text = inspect.getsource(function)
    except OSError:
        text = _text((_code_text(code), function.__defaults__, function.__kwdefaults__))
    return text, [*_names_in(code)]


def _code_text(code: CodeType) -> str:
    inner = (_code_text(c) if isinstance(c, CodeType) else _text(c) for c in code.co_consts)
    return repr((code.co_code, code.co_names, code.co_varnames, *inner))


def _text(value: object) -> str:
    """Its `repr`, in which the elements of sets are sorted.

    Those that are not only numbers have another order in each process.
    """
    if type(value) is tuple:
        texts = [*map(_text, cast("tuple[object, ...]", value))]
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
    if type(value) is dict:
        pairs = cast("dict[object, object]", value).items()
        return "{" + ", ".join(f"{key!r}: {_text(one)}" for key, one in pairs) + "}"
    if not isinstance(value, set | frozenset):
        return repr(value)
    elements = cast("Collection[object]", value)
    if all(isinstance(one, int | float) for one in elements):
        return repr(elements)
    inner = "{" + ", ".join(sorted(map(_text, elements))) + "}"
    return inner if isinstance(value, set) else f"frozenset({inner})"


def _names_in(code: CodeType) -> Iterator[str]:
    for one in _with_inner(code):
        yield from one.co_names


def _globals_in(code: CodeType) -> Iterator[str]:
    """The global names in compiled code, without attribute names."""
    for one in _with_inner(code):
        for instruction in dis.get_instructions(one):
            if instruction.opname in _GLOBAL:
                yield str(instruction.argval)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)
