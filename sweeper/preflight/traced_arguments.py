"""Which floats of user-defined models programs get at run time, and why others are compiled in.

A float is traced if the function, its model and its gradient can be traced with an array in its
place, and are then the same as with a Python float: the same parameters, static fields and
operations. Where a float takes another branch, as 0 does in `eqx.nn.Dropout`, the numbers must be
the same instead. All of this is tried with values that trials may draw, not with the one in the
file.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from traceback import walk_tb
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr
from jaxtyping import Array

from sweeper.config import StudyConfig
from sweeper.config.coupled import CoupledTable
from sweeper.config.kinds import is_function
from sweeper.config.refusals import format_value
from sweeper.config.search import FloatSearch, IntSearch, ends
from sweeper.config.train import UserProgramTable
from sweeper.config.user_code import load_function
from sweeper.config.user_errors import RAISED, describe_error, place_of
from sweeper.errors import counted
from sweeper.models.keys import fixed_key
from sweeper.models.stateful import as_model, without_state
from sweeper.models.traces import Trace, depending, inner_jaxprs, is_same, text_of_structure, trace
from sweeper.models.user_network import (
    KEY,
    UNTRACEABLE,
    differs_in_training,
    evaluated,
    hint_of,
    passes_key,
    with_key,
    without_key,
)
from sweeper.preflight.user_model import ModelCheck, model_checks
from sweeper.study.limits import n_proposals
from sweeper.trial import Scalar

_FEW_VALUES = "search few values, with choices or step"
_OF_JNP = "compute with it by jnp only"
_ROWS = 8
_SPECIAL = 0.0, 1.0  # libraries leave out operations for these
_INSIDE = 0.382  # where in a range its ordinary value is: not a round number


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a float is compiled in, and what to change for it to be traced."""

    why: str
    fix: str


def decide_traced_arguments(
    config: StudyConfig, in_size: int, out_size: int, measure_compile: Callable[[], float]
) -> tuple[StudyConfig, tuple[str, ...]]:
    """The study with its `traced_arguments`, and warnings about continuous settings.

    If its records or its file name them, these are kept. `measure_compile` is called if there is a
    warning: how many seconds each program takes at least, in a study that compiles several at a
    time.
    """
    if config.traced_arguments is not None:
        return config, ()
    traced, obstacles = _find_traceable(config, in_size, out_size)
    config = config.with_traced_arguments(traced)
    return config, tuple(_continuous(config, obstacles, measure_compile))


def _continuous(
    config: StudyConfig, obstacles: Mapping[str, Obstacle], measure_compile: Callable[[], float]
) -> Iterator[str]:
    """Warnings about settings with a program for each of their infinitely many values."""
    n_trials, measure = n_proposals(config), cache(measure_compile)
    for key, entry in config.search.items():
        if not config.structural[key] or entry.count() is not None or n_trials == 1:
            continue
        linked = [link for link, source in config.same_as.items() if source == key]
        found = next((obstacles[one] for one in (key, *linked) if one in obstacles), None)
        why = "" if found is None else f": {found.why}"
        least = f"{n_trials * measure():.0f} s"
        fix = _FEW_VALUES if found is None else f"{found.fix}, or {_FEW_VALUES}"
        yield (
            f"search.{key} is continuous, but its value is compiled in{why}; so "
            f"{counted(n_trials, 'trial')} compile {n_trials} programs, which takes at least "
            f"{least}; {fix}"
        )


def _find_traceable(
    config: StudyConfig, in_size: int, out_size: int
) -> tuple[list[str], dict[str, Obstacle]]:
    """The arguments that can be traced together, and why others cannot."""
    traced: list[str] = []
    obstacles: dict[str, Obstacle] = {}
    for check in model_checks(config, in_size, out_size):
        keys = [key for key in config.searched_arguments if key.rpartition(".")[0] == check.key]
        found = {key: _obstacle_in_study(check, key) for key in keys}
        able = [key for key in keys if found[key] is None]
        if _obstacle(check, able) is not None:
            found |= {key: _obstacle(check, [key]) for key in able}
            able = [key for key in able if found[key] is None]
            found |= dict.fromkeys(able, _obstacle(check, able))
        traced += [key for key in able if found[key] is None]
        obstacles |= {key: one for key, one in found.items() if one is not None}
    return traced, obstacles


def _obstacle_in_study(check: ModelCheck, key: str) -> Obstacle | None:
    """Why the study does not allow an argument to be traced, whatever the model is."""
    train, name = check.config.train, key.rpartition(".")[2]
    if isinstance(train, UserProgramTable):
        return Obstacle(f"'{train.program}' would train it as an array of the model", _FEW_VALUES)
    if isinstance(train, CoupledTable) and is_function(train.objective):
        return Obstacle(f"'{train.objective}' would get it as an array of a model", _FEW_VALUES)
    arguments = check.table_with({}).arguments
    if name not in arguments:
        why = f"some trials do not draw it, and [{check.key}] does not have it"
        return Obstacle(why, f"write {name} = ... in [{check.key}]")
    if not isinstance(arguments[name], float):
        why = f"[{check.key}] has {name} = {format_value(arguments[name])}, which is not a float"
        return Obstacle(why, f"write it with a decimal point in [{check.key}]")
    return None


def _obstacle(check: ModelCheck, keys: Sequence[str]) -> Obstacle | None:
    """Why these arguments of a function cannot all be traced; None if they can.

    Tried with values inside of their ranges, then with the special values of each, then with the
    ends of each other searched setting.
    """
    if not keys:
        return None
    tried = {key: _tried_values(check, key) for key in keys}
    inside = {key.rpartition(".")[2]: values[0] for key, values in tried.items()}
    special = [
        inside | {key.rpartition(".")[2]: value}
        for key, values in tried.items()
        for value in values[1:]
    ]
    others = [(name, entry) for name, entry in check.splitting() if name not in keys]
    drawn = [{entry.column(name): value} for name, entry in others for value in ends(entry)]
    found = (
        _obstacle_with(check, inside, params, () if params else special) for params in ({}, *drawn)
    )
    return next((one for one in found if one is not None), None)


def _tried_values(check: ModelCheck, key: str) -> list[float]:
    """An ordinary value of an argument, then those at which code may take another branch."""
    entry = check.config.searched_arguments[key]
    assert not isinstance(entry, IntSearch)
    values: Sequence[Any] = entry.values() or ()
    if not values and isinstance(entry, FloatSearch):
        values = (entry.low + _INSIDE * (entry.high - entry.low),)
    ordinary = [value for value in values if value not in _SPECIAL] or values
    inside: Any = ordinary[len(ordinary) // 2]
    special: list[Any] = [*ends(entry), *(one for one in _SPECIAL if entry.has(one) is not None)]
    if entry.when:
        special.append(check.table_with({}).arguments[key.rpartition(".")[2]])
    tried: list[Any] = [*dict.fromkeys([inside, *special])]
    return tried


def _obstacle_with(
    check: ModelCheck,
    inside: Mapping[str, float],
    params: Mapping[str, Scalar],
    special: Sequence[Mapping[str, float]],
) -> Obstacle | None:
    table = check.table_with(params)
    function = load_function(table.function, check.config.base_dir)
    given = {"in_size": check.in_size, "out_size": check.out_size, **table.arguments, **inside}
    dtype = jax.dtypes.canonicalize_dtype(check.config.execution.precision)
    arrays = {name: jax.ShapeDtypeStruct((), dtype) for name in inside}
    x = jax.ShapeDtypeStruct((check.in_size,), dtype)
    try:
        use = _use(function, given, x)
        before = trace(use.outputs, KEY, {}, x)
        with warnings.catch_warnings(action="ignore"):  # of Equinox, about static arrays
            after = trace(use.outputs, KEY, arrays, x)
            trace(use.gradient, KEY, arrays, x)
    except RAISED as error:
        return _raised(table.function, error)
    if use.static:
        return Obstacle(
            f"it is in the static field {use.static[0]}", "make it a field of the model"
        )
    if found := _difference(before, after, len(inside)) or _other_operations(before, after):
        return found
    found = (_obstacle_at(values, use, after, x) for values in special)
    return next((one for one in found if one is not None), None)


def _obstacle_at(
    values: Mapping[str, float], use: _Use, after: Trace, x: jax.ShapeDtypeStruct
) -> Obstacle | None:
    """What differs at these values between Python floats and arrays; None if it is the same.

    Code that takes another branch for a float, such as that of `eqx.nn.Dropout` for 0, is run.
    """
    try:
        own = _use(use.function, {**use.given, **values}, x)
        before = trace(own.outputs, KEY, {}, x)
        if found := _difference(before, after, len(values)):
            return found
        found = _other_operations(before, after)
        is_like = own.is_called_like(use)
        if found is None and is_like:
            return None
        if is_like and _computes_same(own, use, values, x):
            return None
    except RAISED as error:
        return _raised("the model", error)
    at = ", ".join(f"{name} = {format_value(value)}" for name, value in values.items())
    return Obstacle(f"with {at}, the model computes something else with an array", _OF_JNP)


def _computes_same(
    own: _Use, use: _Use, values: Mapping[str, float], x: jax.ShapeDtypeStruct
) -> bool:
    """Whether random rows give the same outputs and gradients with floats and with arrays."""
    keys = jax.random.split(fixed_key(), _ROWS)
    rows = jax.random.normal(keys[0], (_ROWS, *x.shape), x.dtype)
    arrays = {name: jnp.asarray(value, x.dtype) for name, value in values.items()}
    pair = (
        jax.tree.leaves(own.numbers(keys, {}, rows)),
        jax.tree.leaves(use.numbers(keys, arrays, rows)),
    )
    near = 16 * float(jnp.finfo(x.dtype).eps)
    return all(
        np.allclose(was, now, rtol=near, atol=near, equal_nan=True)
        for was, now in zip(*pair, strict=True)
    )


def _use(function: Callable[..., Any], given: Mapping[str, Any], x: jax.ShapeDtypeStruct) -> _Use:
    """How classes use the models of a function with these arguments."""
    plain = trace(lambda key: as_model(function(**given, key=key)), KEY).result
    is_keyed = passes_key(plain, x)
    call = with_key if is_keyed else without_key
    differs = not is_keyed and differs_in_training(plain, x)
    # those of a state, which come after those of the model, are not trained
    places = [
        at for at, leaf in enumerate(jax.tree.leaves(without_state(plain))) if _is_float(leaf)
    ]
    return _Use(function, given, call, differs, tuple(places))


@dataclass(frozen=True)
class _Use:
    """What a class does with a function: it builds a model, calls it, and takes its gradient.

    `parameters` are the places of its parameters among its leaves. `draws_without_key` says whether
    a model that gets no key computes something else in training. `static` collects the names of
    static fields that depend on traced values.
    """

    function: Callable[..., Any]
    given: Mapping[str, Any]
    call: Callable[..., Any]
    draws_without_key: bool
    parameters: tuple[int, ...]
    static: list[str] = dataclasses.field(default_factory=list[str])

    def outputs(self, key: Any, values: Mapping[str, Any], x: Any) -> Any:
        """The model, and its outputs in evaluation and in training."""
        model = self._model(key, values)
        return model, evaluated(model, x), self.call(key, model, x)

    def gradient(self, key: Any, values: Mapping[str, Any], x: Any) -> Any:
        """The gradient of the sum of its outputs in training."""
        leaves, structure = jax.tree.flatten(self._model(key, values))

        def total(parameters: list[Any]) -> Array:
            own = dict(zip(self.parameters, parameters, strict=True))
            full = [own.get(at, leaf) for at, leaf in enumerate(leaves)]
            return jnp.sum(self.call(key, jax.tree.unflatten(structure, full), x))

        return jax.grad(total)([leaves[at] for at in self.parameters])

    def numbers(self, keys: Any, values: Mapping[str, Any], rows: Any) -> Any:
        """The outputs and the gradient for each row, with fresh weights for each key."""

        def of_row(key: Any, values: Mapping[str, Any], x: Any) -> Any:
            return self.outputs(key, values, x)[1:], self.gradient(key, values, x)

        return jax.jit(jax.vmap(of_row, (0, None, 0)))(keys, values, rows)

    def is_called_like(self, other: _Use) -> bool:
        """Whether training calls the two models in the same way."""
        mine = self.call, self.draws_without_key, self.parameters
        return mine == (other.call, other.draws_without_key, other.parameters)

    def _model(self, key: Any, values: Mapping[str, Any]) -> Any:
        model = as_model(self.function(**{**self.given, **values}, key=key))
        self.static.extend(_static_tracers(model))
        return model


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct) and jnp.issubdtype(leaf.dtype, jnp.floating)


def _static_tracers(module: Any) -> Iterator[str]:
    """The static fields of a module, and of those in it, that hold a traced value."""
    if not isinstance(module, eqx.Module):
        return
    for field in dataclasses.fields(module):
        value = getattr(module, field.name, None)
        if field.metadata.get("static"):
            if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)):
                yield f"{type(module).__name__}.{field.name}"
        else:
            for inner in jax.tree.leaves(value, is_leaf=lambda one: isinstance(one, eqx.Module)):
                yield from _static_tracers(inner)


def _raised(name: str, error: BaseException) -> Obstacle:
    if isinstance(error, UNTRACEABLE):
        modules = [frame.f_globals.get("__name__") for frame, _ in walk_tb(error.__traceback__)]
        if "flax.linen.stochastic" in modules:
            why = f"Dropout of Flax Linen branches on its rate{place_of(error)}"
            return Obstacle(why, "write the model in Flax NNX or Haiku, which get it at run time")
        return Obstacle(f"Python code needs its value{place_of(error)}", hint_of(error, _OF_JNP))
    return Obstacle(f"with an array, '{name}' raised {describe_error(error)}", _OF_JNP)


def _difference(before: Trace, after: Trace, n_values: int) -> Obstacle | None:
    """Where the model differs if it gets arrays for Python floats; None if it is the same."""
    (model, *_), (traced, *_) = before.result, after.result
    if text_of_structure(model) != text_of_structure(traced):
        return Obstacle("the structure of the model depends on it", _OF_JNP)
    marks = [False, *[True] * n_values, False]
    depends = iter(depending(after.jaxpr.jaxpr, marks))
    for was, now in zip(jax.tree.leaves(model), jax.tree.leaves(traced), strict=True):
        is_own = next(depends) if isinstance(now, jax.ShapeDtypeStruct) else False
        if isinstance(was, float) and _is_float(now) and now.shape == ():
            continue  # a number of the model, which is not trained
        if not _is_like(was, now) or (is_own and not _is_float(was)):
            return Obstacle("an array of the model that is not trained depends on it", _OF_JNP)
    return None


def _other_operations(before: Trace, after: Trace) -> Obstacle | None:
    if _operations(before.jaxpr.jaxpr) == _operations(after.jaxpr.jaxpr):
        return None
    return Obstacle("the model computes something else with an array", _OF_JNP)


def _is_like(was: Any, now: Any) -> bool:
    if isinstance(was, jax.ShapeDtypeStruct) and isinstance(now, jax.ShapeDtypeStruct):
        return (was.shape, was.dtype) == (now.shape, now.dtype)
    return is_same(was, now)


def _operations(jaxpr: Jaxpr) -> Counter[tuple[Any, ...]]:
    """How often each operation occurs, by its results; those of single numbers do not count."""
    found: Counter[tuple[Any, ...]] = Counter()
    for equation in jaxpr.eqns:
        inner = [*inner_jaxprs(equation)]
        shapes: list[Any] = [var.aval for var in equation.outvars]
        results = tuple((one.shape, str(one.dtype)) for one in shapes)
        if not inner and any(shape for shape, _ in results):
            found[equation.primitive.name, results] += 1
        for one in inner:
            found += _operations(one.jaxpr)
    return found
