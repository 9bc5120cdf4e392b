"""Whether user-defined functions can be compiled into a study's programs, checked before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sweeper.config import StudyConfig
from sweeper.config.coupled import CoupledTable
from sweeper.config.optimizer import UserOptimizerTable
from sweeper.config.user_code import RAISED, LoadError, describe_error, load_function, place_of
from sweeper.config.user_keywords import check_keywords, keywords_of
from sweeper.config.user_program import OwnProgramTable
from sweeper.errors import Problem, StudyError
from sweeper.models.decay_masks import Marks
from sweeper.models.traces import trace, unrepeatable
from sweeper.models.user_network import KEY, hint_of

_ROWS = 4
_PARAMETER = "weight"
_MASK = "mask"  # of an optimizer of the user's: what decays
_Wrong = tuple[str, str]


def check_functions(config: StudyConfig, out_size: int) -> None:
    """Refuse a loss, a metric or an optimizer of the user's own that cannot be compiled.

    Each is traced with shapes alone; nothing is computed.

    Raises:
        StudyError: there is no such function, it does not take what it is given, or gives what is
            of no use.
    """
    problems = [*_unfit_measures(config, out_size), *_unfit_optimizer(config)]
    if problems:
        raise StudyError(problems)


def _unfit_measures(config: StudyConfig, out_size: int) -> Iterator[Problem]:
    """What is wrong with the loss and the metrics."""
    dtype = jax.dtypes.canonicalize_dtype(config.execution.precision)
    outputs = jax.ShapeDtypeStruct((_ROWS, out_size), dtype)
    is_numbers = config.train.target == "numbers"
    y = outputs if is_numbers else jax.ShapeDtypeStruct((_ROWS,), jnp.int32)
    if isinstance(config.train, CoupledTable | OwnProgramTable):
        return  # what its functions are given is another thing
    for name, setting in config.train.functions.items():
        key = f"train.{setting}"
        try:
            function = load_function(name, config.base_dir)
        except LoadError as error:
            yield config.problem(key, error.found, error.hint)
            continue
        if wrong := _unfit_measure(
            name, function, outputs, y, is_loss=setting == "loss", edition=config.edition
        ):
            yield config.problem(key, *wrong)


def _unfit_measure(
    name: str, function: Callable[..., Any], outputs: Any, y: Any, *, is_loss: bool, edition: int
) -> _Wrong | None:
    """What was found and how to fix it; None where nothing is wrong."""
    try:
        given = jax.eval_shape(function, outputs, y)
        shape, dtype = getattr(given, "shape", None), getattr(given, "dtype", None)
        if shape != () or dtype is None:
            found = f"'{name}' gives {_shown(given)} for outputs of shape {outputs.shape}"
            return found, "return one number, the mean over examples"
        if is_loss and not jnp.issubdtype(dtype, jnp.floating):
            found = f"'{name}' gives {dtype}, which has no gradient"
            return found, "return a floating-point number"
        if jnp.issubdtype(dtype, jnp.complexfloating):
            return f"'{name}' gives {dtype}, which has no order", "return a real number"
        if is_loss:
            jax.eval_shape(jax.grad(function), outputs, y)
        traced = trace(lambda _key, *given: function(*given), KEY, outputs, y)
        if edition > 1 and not traced.repeats():
            return unrepeatable(f"'{name}'", "let its result depend on its arguments alone")
    except RAISED as error:
        shapes = f"outputs of shape {outputs.shape} and y of shape {y.shape}"
        return f"'{name}' raised {describe_error(error)} for {shapes}", hint_of(
            error, "fix the function"
        )
    return None


def _unfit_optimizer(config: StudyConfig) -> Iterator[Problem]:
    """What is wrong with the optimizer, where it is a function's."""
    table = config.optimizer
    if not isinstance(table, UserOptimizerTable):
        return
    try:
        function = load_function(table.name, config.base_dir)
    except LoadError as error:
        yield config.problem("optimizer.name", error.found, error.hint)
        return
    settings = config.filled({})
    own = settings.optimizer
    assert isinstance(own, UserOptimizerTable)
    arguments = {**own.arguments, **({} if own.lr is None else {"lr": own.lr})}
    if own.decay is not None:
        arguments[_MASK] = Marks({_PARAMETER: True})
    unfit = [*_unfit_mask(config, table.name, function)]
    unfit += check_keywords(config, "optimizer", table.name, function, arguments, [_MASK])
    yield from unfit
    dtype = jax.dtypes.canonicalize_dtype(config.execution.precision)
    parameters = {_PARAMETER: jax.ShapeDtypeStruct((3, 2), dtype)}
    if not unfit and (wrong := _unfit_steps(table.name, function, arguments, parameters)):
        yield config.problem("optimizer.name", *wrong)


def _unfit_mask(config: StudyConfig, name: str, function: Callable[..., Any]) -> Iterator[Problem]:
    """The mask of what decays, where it would be given twice or to nobody, or is missing."""
    table = config.optimizer
    assert isinstance(table, UserOptimizerTable)
    named, is_open = keywords_of(function)
    if _MASK in table.arguments:
        found = "'mask' is what [optimizer.decay] says"
        yield config.problem("optimizer.mask", found, "write [optimizer.decay] instead")
    elif table.decay is not None and _MASK not in named and not is_open:
        found = f"'{name}' takes no 'mask', by which it would be told what decays"
        yield config.problem("optimizer.decay", found, "let it take one, or remove the table")
    elif table.decay is None and _MASK in named and named[_MASK].default is Parameter.empty:
        found = f"'{name}' takes 'mask', and nothing says what decays"
        yield config.problem("optimizer.decay", found, "write [optimizer.decay]")


def _unfit_steps(
    name: str, function: Callable[..., Any], given: Mapping[str, Any], parameters: Any
) -> _Wrong | None:
    """What was found and how to fix it; None where it moves `parameters` step by step."""
    traced = {key: value for key, value in given.items() if isinstance(value, float)}
    fixed = {key: value for key, value in given.items() if key not in traced}
    wrong: list[_Wrong] = []

    def step(parameters: Any, numbers: Any) -> Any:
        optimizer = function(**fixed, **numbers)
        if not isinstance(optimizer, optax.GradientTransformation):
            found = f"gives {type(optimizer).__name__}, which is no optax.GradientTransformation"
            wrong.append((f"'{name}' {found}", "return one, such as optax.sgd(lr)"))
            return parameters
        state = optimizer.init(parameters)
        updates, after = optimizer.update(parameters, state, parameters)
        if unfit := _unfit_state(state, after):
            wrong.append((f"'{name}' {unfit[0]}", unfit[1]))
        return updates

    try:
        moved = jax.eval_shape(step, parameters, traced)
    except jax.errors.TracerBoolConversionError as error:
        what = f"{type(error).__name__}: floats are traced{place_of(error)}"
        return (
            f"'{name}' raised {what}",
            "choose between them with jnp.where, or write integers",
        )
    except RAISED as error:
        return f"'{name}' raised {describe_error(error)}", hint_of(error, "fix the function")
    if wrong:
        return wrong[0]
    shapes = [leaf.shape for leaf in jax.tree.leaves(moved)]
    if shapes != [(3, 2)]:
        found = f"'{name}' gives updates of shapes {shapes} for one parameter of shape (3, 2)"
        return found, "give one update a parameter"
    return None


def _unfit_state(state: Any, after: Any) -> _Wrong | None:
    """What hinders steps from handing an optimizer's state on: it keeps its tree and its types."""
    leaves = jax.tree.leaves(state)
    if strange := [leaf for leaf in leaves if not eqx.is_array(leaf)]:
        found = f"keeps {type(strange[0]).__name__} in its state, which is no array"
        return found, "begin with an array, such as jnp.zeros((), jnp.int32)"
    if any(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves):
        found = "keeps a random key in its state, which cannot be saved"
        fix = "keep jax.random.key_data(key) instead (Optax's add_noise and noisy_sgd cannot)"
        return found, fix
    hint = "give a state of the same tree, shapes and types as the one before"
    if jax.tree.structure(state) != jax.tree.structure(after):
        return "gives a state of another tree with its first step", hint
    for before, now in zip(leaves, jax.tree.leaves(after), strict=True):
        if (known := _type_of(before)) != (given := _type_of(now)):
            return f"makes {given} of {known} in its state", hint
    return None


def _type_of(leaf: Any) -> str:
    return f"{jnp.result_type(leaf)}{[*jnp.shape(leaf)]}"  # as JAX's errors write it: float32[3, 2]


def _shown(given: Any) -> str:
    shape = getattr(given, "shape", None)
    return type(given).__name__ if shape is None else f"an array of shape {shape}"
