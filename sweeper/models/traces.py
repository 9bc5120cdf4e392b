"""Traces of user-defined functions: whether they repeat, and which results depend on a key.

A trace needs no device and takes milliseconds; nothing is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var

from sweeper.models.elsewhere import elsewhere

_ADDRESS = re.compile(r"0x[0-9a-f]+")
# primitives that run an inner jaxpr once, with their own inputs and outputs
_CALLS = ("jit", "pjit", "closed_call", "core_call", "checkpoint", "custom_jvp_call")


@dataclass(frozen=True, slots=True)
class Trace:
    """A traced call: its jaxpr, and its result with shapes in place of arrays."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    jaxpr: ClosedJaxpr
    result: Any

    def repeats(self) -> bool:
        """Whether the call, traced again, is the same program with the same numbers in it.

        The second trace sees another process id, host and day. If it raises, as it may after
        leaving a traced value in a global variable, it is not the same.
        """
        try:
            with elsewhere():
                again = trace(self.function, *self.arguments)
        except Exception:
            return False
        return self.equals(again)

    def equals(self, other: Trace, equal: Callable[[Any, Any], bool] | None = None) -> bool:
        """Whether `other` is the same program with the same, or `equal`, constants in it."""
        return (
            self.is_like(other)
            and text_of_structure(self.result) == text_of_structure(other.result)
            and all(map(equal or is_same, _numbers_in(self), _numbers_in(other)))
        )

    def is_like(self, other: Trace) -> bool:
        """Whether `other` computes the same, up to the values of constants."""
        return _text(self.jaxpr) == _text(other.jaxpr)

    def uses_key(self) -> bool:
        """Whether any array of the result depends on the first argument."""
        return any(self.depends_on_key())

    def depends_on_key(self) -> list[bool]:
        """For each array of the result, whether it depends on the first argument."""
        n_others = len(self.jaxpr.jaxpr.invars) - 1
        return depending(self.jaxpr.jaxpr, [True, *[False] * n_others])


def trace(function: Callable[..., Any], key: Any, *others: Any) -> Trace:
    """The trace of `function(key, *others)`; shapes may stand for arrays in the arguments.

    Functions that the user compiled are traced too, even if JAX has traced them before.
    """
    leaves, structure = jax.tree.flatten((key, *others))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array | _Shape)]
    result: list[Any] = []

    def arrays_of(arrays: Sequence[Any]) -> list[Any]:
        given = dict(zip(places, arrays, strict=True))
        arguments = [given.get(i, leaf) for i, leaf in enumerate(leaves)]
        result[:] = jax.tree.flatten(function(*jax.tree.unflatten(structure, arguments)))
        return [leaf for leaf in result[0] if isinstance(leaf, jax.Array)]

    with set_xla_metadata(trace=str(next(_numbers))):  # part of the key of JAX's trace cache
        made = jax.make_jaxpr(arrays_of, return_shape=True)
        jaxpr, shapes = made([leaves[place] for place in places])
    rest = iter(shapes)
    shaped = [next(rest) if isinstance(leaf, jax.Array) else leaf for leaf in result[0]]
    return Trace(function, (key, *others), jaxpr, jax.tree.unflatten(result[1], shaped))


def unrepeatable(what: str, hint: str) -> tuple[str, str]:
    """The problem of a call whose result does not repeat, and how to fix it."""
    found = f"{what} gives different results each time it is called with the same arguments"
    others = "NumPy's or Python's random numbers, a clock, a process id or a global variable"
    return found, f"{hint}, not on {others}"


_Shape = jax.ShapeDtypeStruct


_numbers = count()


def text_of_structure(tree: Any) -> str:
    """The structure of a PyTree with its static fields, as text."""
    return _text(jax.tree.structure(tree))


def _text(shown: Any) -> str:
    return _ADDRESS.sub("", str(shown))


def _numbers_in(trace: Trace) -> list[Any]:
    """The constants of a trace, and everything in its result except traced arrays."""
    static = [leaf for leaf in jax.tree.leaves(trace.result) if not isinstance(leaf, _Shape)]
    return [*_constants(trace.jaxpr), *static]


def _constants(jaxpr: ClosedJaxpr) -> Iterator[Any]:
    yield from jaxpr.consts
    for equation in jaxpr.jaxpr.eqns:
        for inner in inner_jaxprs(equation):
            yield from _constants(inner)


def inner_jaxprs(equation: Any) -> Iterator[ClosedJaxpr]:
    """The jaxprs inside an equation, such as the body of a loop."""
    for leaf in jax.tree.leaves(equation.params, is_leaf=lambda one: isinstance(one, _JAXPRS)):
        if isinstance(leaf, _JAXPRS):
            yield leaf if isinstance(leaf, ClosedJaxpr) else ClosedJaxpr(leaf, ())


_JAXPRS = (ClosedJaxpr, Jaxpr)


def is_same(one: Any, other: Any) -> bool:
    """Whether two constants are equal; of functions and other objects only the type is compared."""
    if one is other:
        return True
    if isinstance(other, jax.core.Tracer):
        return False  # the previous trace left it in a global variable
    if isinstance(one, jax.Array) and jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    if isinstance(one, jax.Array | np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        is_float = one.dtype.kind in "fc"
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=is_float)
    if isinstance(one, bool | int | float | complex | str | np.generic):
        return type(one) is type(other) and (one == other or one != one)
    return type(one) is type(other)


def depending(
    jaxpr: Jaxpr,
    inputs: Sequence[bool],
    see: Callable[[Any, Sequence[bool]], None] | None = None,
) -> list[bool]:
    """For each output of `jaxpr`, whether it depends on one of the marked `inputs`.

    `see` is called with each equation, also of inner jaxprs, and which of its operands depend.
    """
    marked: set[Var] = {var for var, is_in in zip(jaxpr.invars, inputs, strict=True) if is_in}

    def is_marked(atom: Any) -> bool:
        return not isinstance(atom, Literal) and atom in marked

    for equation in jaxpr.eqns:
        given = [is_marked(atom) for atom in equation.invars]
        outputs = [any(given) and not _is_times_zero(equation)] * len(equation.outvars)
        if see is not None:
            see(equation, given)
        for inner in (one.jaxpr for one in inner_jaxprs(equation)):
            is_call = equation.primitive.name in _CALLS and len(given) == len(inner.invars)
            if is_call or see is not None:
                its = given if len(given) == len(inner.invars) else [any(given)] * len(inner.invars)
                found = depending(inner, its, see)
                outputs = found if is_call else outputs
        marked |= {var for var, is_in in zip(equation.outvars, outputs, strict=True) if is_in}
    return [is_marked(atom) for atom in jaxpr.outvars]


def _is_times_zero(equation: Any) -> bool:
    literals = (atom.val for atom in equation.invars if isinstance(atom, Literal))
    return equation.primitive.name == "mul" and any(np.all(value == 0) for value in literals)
