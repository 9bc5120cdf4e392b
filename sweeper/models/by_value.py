"""Functions of `__main__`, as bytes for a process whose `__main__` is another program.

A worker cannot import a notebook or script without running it again. So it gets the functions
themselves, with everything in `__main__` that they refer to; it imports other modules.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from inspect import get_annotations
from pathlib import Path
from typing import Any

import cloudpickle
import equinox as eqx
import jax

from sweeper.config import StudyConfig
from sweeper.config.user_code import first_on_path, load_function
from sweeper.config.user_errors import RAISED, describe_error
from sweeper.config.user_source import MAIN
from sweeper.errors import StudyError

_FIX = (
    "move it, with what it uses, to a file next to the study file, or write execution.workers = 0 "
    "to train in this process alone"
)
_OPTIONS = ("default", "default_factory", "init", "repr", "hash", "compare", "kw_only")


def by_value(config: StudyConfig) -> bytes | None:
    """The functions of `__main__` that training calls, pickled by value; None if there are none.

    Raises:
        StudyError: one of them refers to something that cannot be pickled.
    """
    named = {
        name.partition(":")[2]: key
        for name, key in config.functions.items()
        if name.startswith(f"{MAIN}:") and not key.startswith(("data.", "study."))
    }
    if not named:
        return None
    functions = {name: load_function(f"{MAIN}:{name}", config.base_dir) for name in named}
    problems = [
        config.problem(named[name], f"'{MAIN}:{name}' cannot be sent to workers: {found}", _FIX)
        for name, function in functions.items()
        if (found := _obstacle(function)) is not None
    ]
    if problems:
        raise StudyError(problems)
    return _dumps(functions)


def restore(pickled: bytes, base_dir: Path) -> None:
    """Put functions that `by_value` pickled into the `__main__` of this process.

    Modules that they refer to are imported from `base_dir` first.
    """
    with first_on_path(base_dir):
        vars(sys.modules[MAIN]).update(pickle.loads(pickled))


def _obstacle(function: Callable[..., Any]) -> str | None:
    """Why a function cannot be pickled; None if it can."""
    try:
        _dumps(function)
    except RAISED as error:
        return describe_error(error)
    return None


def _dumps(value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


class _Pickler(cloudpickle.Pickler):
    """cloudpickle, with support for Equinox modules and functions with custom derivatives.

    cloudpickle makes an empty class first and fills it later. Equinox reads the fields of a class
    when it is made, so they must exist from the start.
    """

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is jax.custom_vjp:  # its __new__ needs an argument
            return object.__new__, (jax.custom_vjp,), vars(obj)
        reduced = super().reducer_override(obj)
        if not (isinstance(obj, type) and isinstance(reduced, tuple)):
            return reduced
        if not issubclass(obj, eqx.Module):
            _refuse_registered(obj)
            return reduced
        make, given, *state = reduced
        own = [one for one in fields(obj) if one.name in get_annotations(obj)]
        options = {one.name: _options(one) for one in own}
        # an __init__ that the dataclass has made is made again
        has_init = "__init__" in vars(obj) and not vars(obj)["__dataclass_params__"].init
        return (_module_class, (make, given, options, has_init), *state)


def _options(one: Field[Any]) -> dict[str, Any]:
    given = {name: getattr(one, name) for name in _OPTIONS}
    given = {name: value for name, value in given.items() if value is not MISSING}
    return {**given, "metadata": dict(one.metadata)}


def _module_class(
    make: Callable[..., type],
    given: Sequence[Any],
    options: Mapping[str, Mapping[str, Any]],
    has_init: bool,
) -> type:
    """A class of Equinox with these fields, which cloudpickle then fills."""
    kind, name, bases, namespace, *tracking = given
    made = {one: field(**its) for one, its in options.items()}
    filled = {**namespace, **made, "__annotations__": dict.fromkeys(options, Any)}
    if has_init:
        filled["__init__"] = _unfilled
    return make(kind, name, bases, filled, *tracking)


def _unfilled(self: Any) -> None:
    """Replace the `__init__` of a class until the class is filled."""


def _refuse_registered(kind: type) -> None:
    """Refuse classes registered as PyTrees in JAX: in a worker they would not be registered.

    Raises:
        PicklingError: it names the class.
    """
    try:
        bare = object.__new__(kind)
    except TypeError:  # of another layout, such as a named tuple, which JAX supports directly
        return
    try:
        is_leaf = jax.tree.structure(bare) == jax.tree.structure(0)
    except RAISED:
        is_leaf = False  # it was flattened, but has no attributes yet
    if not is_leaf:
        found = f"the class {kind.__name__} is a PyTree of JAX but not an eqx.Module"
        raise pickle.PicklingError(found)
