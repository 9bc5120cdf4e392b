"""Finds definitions of a program that differ from their text: in code, values or attributes.

A function or class of a program may have been changed since its text ran: wrapped by a call, given
attributes or other methods, or bound to a value that has another name or content now.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cached_property, partial
from pathlib import PurePath
from types import CodeType, FunctionType, MappingProxyType, MethodType
from typing import Any, cast

from sweeper.config.main_source import SCALARS, attributes_of, captured_by

# other types whose values can be compared
_COMPARABLE = (bytearray, date, time, timedelta, Decimal, PurePath)


def different_names(
    names: Iterable[str], ours: Mapping[str, Any], theirs: Mapping[str, Any], modules: Sequence[str]
) -> set[str]:
    """The names that the text of a module, `theirs`, defines otherwise than a program, `ours`.

    `modules` are the names of both. Classes and functions of the two are the same if their code,
    defaults, captured values and attributes are. Other objects that cannot be compared, such as
    locks, count as the same.
    """
    pairs = {name: (ours[name], theirs[name]) for name in names}
    comparison = _Comparison(modules, pairs.values())
    return {name for name, pair in pairs.items() if not comparison.has_same_definition(*pair)}


class _Comparison:
    """Compares values of two modules; `named` are pairs that are compared on their own."""

    def __init__(self, modules: Sequence[str], named: Iterable[tuple[Any, Any]]) -> None:
        self._modules = modules
        # the values themselves keep their ids in use
        self._known = {(id(ours), id(theirs)): (ours, theirs) for ours, theirs in named}

    def is_same(self, ours: Any, theirs: Any) -> bool:
        """Whether two values within others are the same."""
        pair = id(ours), id(theirs)
        if pair in self._known:
            return True
        self._known[pair] = ours, theirs
        return self.has_same_definition(ours, theirs)

    def has_same_definition(self, ours: Any, theirs: Any) -> bool:
        """Whether two values are the same, also if they have names."""
        if ours is theirs:
            return True
        if isinstance(ours, type) and isinstance(theirs, type):
            return self._are_same_classes(ours, theirs)
        kinds = cast("tuple[type, type]", (type(ours), type(theirs)))
        return self.is_same(*kinds) and self._has_same_content(ours, theirs)

    def _has_same_content(self, ours: Any, theirs: Any) -> bool:
        """Whether two values of the same type have the same content."""
        if isinstance(ours, SCALARS):
            return repr(ours) == repr(theirs)
        if isinstance(ours, FunctionType):
            return self._are_same_functions(ours, theirs)
        if isinstance(ours, list | tuple | deque):
            return self._are_all_same([*cast("Sequence[Any]", ours)], [*theirs])
        if isinstance(ours, slice):
            both = cast("tuple[Any, Any]", (ours, theirs))
            return self._are_all_same(*([one.start, one.stop, one.step] for one in both))
        if isinstance(ours, set | frozenset):
            return _are_same_sets(cast("Set[Any]", ours), theirs)
        if isinstance(ours, dict | MappingProxyType):
            pairs = cast("Mapping[Any, Any]", ours)
            return self._are_all_same([*pairs.items()], [*theirs.items()])
        if hasattr(ours, "dtype") and hasattr(ours, "tobytes"):
            content = [(one.dtype, one.shape, one.tobytes()) for one in (ours, theirs)]
            return content[0] == content[1]
        if isinstance(ours, _COMPARABLE):
            return bool(ours == theirs)
        return self._are_all_same([*self._parts(ours)], [*self._parts(theirs)])

    def _are_all_same(self, ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
        return len(ours) == len(theirs) and all(map(self.is_same, ours, theirs))

    def _parts(self, value: Any) -> Iterator[Any]:
        """The parts of an object that say what it does."""
        if isinstance(value, property):
            yield from (value.fget, value.fset, value.fdel)
        elif isinstance(value, cached_property):
            yield cast("cached_property[Any]", value).func
        elif isinstance(value, staticmethod | classmethod | MethodType):
            yield cast("Any", value).__func__
        elif isinstance(value, partial):
            whole = cast("partial[Any]", value)
            yield from (whole.func, whole.args, whole.keywords)
        elif dataclasses.is_dataclass(value):
            yield from (getattr(value, one.name, None) for one in dataclasses.fields(value))
        elif type(value).__module__ in self._modules:
            yield getattr(value, "__dict__", None)
        elif callable(value):  # of `jax.jit`, for example
            yield getattr(value, "__wrapped__", None)

    def _are_same_functions(self, ours: FunctionType, theirs: FunctionType) -> bool:
        both, codes = (ours, theirs), (ours.__code__, theirs.__code__)
        given = [(one.__defaults__, one.__kwdefaults__, attributes_of(one)) for one in both]
        if all(code.co_filename.startswith("<") for code in codes):  # as generated by dataclasses
            wrapped = [getattr(one, "__wrapped__", None) for one in both]
            return self.is_same(*(given if wrapped == [None, None] else wrapped))
        captured = captured_by(ours), captured_by(theirs)
        return _are_same_codes(*codes) and self.is_same(*given) and self.is_same(*captured)

    def _are_same_classes(self, ours: type, theirs: type) -> bool:
        if not {ours.__module__, theirs.__module__} <= {*self._modules}:
            return (ours.__module__, ours.__qualname__) == (theirs.__module__, theirs.__qualname__)
        if ours.__qualname__ != theirs.__qualname__:
            return False
        bases = self._are_all_same(ours.__bases__, theirs.__bases__)
        return bases and self.is_same(*(dict(_members(one)) for one in (ours, theirs)))


def _are_same_sets(ours: Set[Any], theirs: Set[Any]) -> bool:
    """Whether two sets have equal elements; those that only equal themselves are counted."""
    scalars = [{repr(one) for one in each if isinstance(one, SCALARS)} for each in (ours, theirs)]
    differing = [one for one in ours ^ theirs if not isinstance(one, SCALARS)]
    equal_themselves = all(type(one).__eq__ is object.__eq__ for one in differing)
    return len(ours) == len(theirs) and scalars[0] == scalars[1] and equal_themselves


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """The attributes of a class, and its methods, also those with a name such as `__call__`."""
    for name in sorted(vars(kind)):
        method = getattr(kind, name, None)  # equinox stores methods as objects of its own
        if isinstance(method, FunctionType):
            yield name, method
        elif not name.startswith("__"):
            yield name, vars(kind)[name]


def _are_same_codes(ours: CodeType, theirs: CodeType) -> bool:
    if ours is theirs:
        return True
    forms = [
        (one.co_code, one.co_names, one.co_varnames, one.co_freevars, one.co_cellvars)
        for one in (ours, theirs)
    ]
    constants = [*_constants(ours)], [*_constants(theirs)]
    return forms[0] == forms[1] and _are_same_constants(*constants)


def _constants(code: CodeType) -> Iterable[Any]:
    """The constants of a code, without the line of a class, which Python 3.13 records."""
    is_class = "__firstlineno__" in code.co_names
    return (
        None if is_class and constant == code.co_firstlineno else constant
        for constant in code.co_consts
    )


def _are_same_constants(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    return len(ours) == len(theirs) and all(
        _are_same_codes(one, other)
        if isinstance(one, CodeType) and isinstance(other, CodeType)
        else repr(one) == repr(other)
        for one, other in zip(ours, theirs, strict=True)
    )
