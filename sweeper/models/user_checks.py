"""Whether a model of the user's own can be trained on a study's data, told before it starts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from sweeper.config import StudyConfig
from sweeper.config.model import MlpTable, PythonTable
from sweeper.config.search import ends
from sweeper.errors import Problem, StudyError
from sweeper.keywords import keywords_of
from sweeper.models.keys import fixed_key
from sweeper.models.untraceable import mend_of
from sweeper.models.user import evaluated, takes_key
from sweeper.trial import Scalar
from sweeper.user_code import RAISED, Function, LoadError, load_function, told

# what a function is given besides the keys of [model]
_GIVEN = ("in_size", "out_size", "key")


def check_model(config: StudyConfig, in_size: int, out_size: int) -> None:
    """Refuse a model of the user's own that cannot be trained on such data; it is not built.

    It is traced with the values that are written, then with the ends of each searched one.

    Raises:
        StudyError: there is no such function, it does not take what it is given, or what it
            builds is no model of the right sizes.
    """
    if "python" not in config.kinds:
        return
    table = _filled(config, {})
    try:
        function = load_function(table.function, config.base_dir)
    except LoadError as error:
        problem = config.problem("model.function", error.found, error.mend)
        raise StudyError(problem) from error.__cause__
    problems = [*_unfit_arguments(config, function, table)]
    if not problems:
        problems = [*_unfit_models(config, function, in_size, out_size)]
    if problems:
        raise StudyError(problems)


def _unfit_arguments(
    config: StudyConfig, function: Function, table: PythonTable
) -> Iterator[Problem]:
    """Keys of `[model]` that the function does not take, and those that it lacks."""
    named, is_open = keywords_of(function)
    own = [name for name in named if name not in _GIVEN]
    for name in _GIVEN:
        if name in table.arguments:
            found, mend = f"'{table.function}' is given '{name}' anyway", "give yours another name"
            yield config.problem(_key(config, name), found, mend)
        elif name not in named and not is_open:
            mend = f"write def {function.__name__}({', '.join([*_GIVEN, *own])})"
            yield config.problem("model.function", f"'{table.function}' takes no '{name}'", mend)
    for name in table.arguments:
        if name not in (*named, *_GIVEN) and not is_open:
            yield config.problem(_key(config, name), *_not_taken(config, table, name, own))
    for name in own:
        if name not in table.arguments and named[name].default is inspect.Parameter.empty:
            yield config.problem(f"model.{name}", *_not_given(config, table, name))


def _not_taken(
    config: StudyConfig, table: PythonTable, name: str, own: list[str]
) -> tuple[str, str]:
    others = [*MlpTable.model_fields] if "mlp" in config.kinds else []
    near = get_close_matches(name, [*own, *others], n=1)
    takes = f"it takes {', '.join(own)}" if own else "remove it"
    mend = f"did you mean 'model.{near[0]}'?" if near else takes
    return f"'{table.function}' takes no '{name}'", mend


def _not_given(config: StudyConfig, table: PythonTable, name: str) -> tuple[str, str]:
    if "mlp" in config.kinds and name in MlpTable.model_fields:
        return (
            f"'{table.function}' takes '{name}', which is the MLP's",
            "give it another name there",
        )
    return f"missing, and '{table.function}' takes it", f"write {name} = ..."


def _unfit_models(
    config: StudyConfig, function: Function, in_size: int, out_size: int
) -> Iterator[Problem]:
    """What is wrong with a model, first with the values that are written, then with others."""
    wrong = partial(_unfit_model, function, in_size, out_size, config.execution.precision)
    if found := wrong(_filled(config, {})):
        yield config.problem("model.function", *found)
        return
    for key, entry in config.search.items():
        if key != "model.kind" and config.splits(key, "python") and key.startswith("model."):
            for value in ends(entry):
                if found := wrong(_filled(config, {entry.column(key): value})):
                    where = f"with {key.partition('.')[2]} = {value!r}, {found[0]}"
                    yield config.problem(f"search.{key}", where, found[1])
                    break


def _unfit_model(
    function: Function, in_size: int, out_size: int, dtype: str, table: PythonTable
) -> tuple[str, str] | None:
    """What was found and how to mend it; None where such a model can be trained."""
    name = table.function
    sizes = {"in_size": in_size, "out_size": out_size}
    x = jax.ShapeDtypeStruct((in_size,), jax.dtypes.canonicalize_dtype(dtype))
    try:
        model = eqx.filter_eval_shape(lambda: function(**sizes, **table.arguments, key=fixed_key()))
    except RAISED as error:
        return f"'{name}' raised {told(error)}", mend_of(error, "mend the function")
    if not isinstance(model, eqx.Module):
        found = f"'{name}' gives {type(model).__name__}, which is no eqx.Module"
        return found, "return an eqx.Module"
    if not callable(model):
        return f"'{name}' gives a model that cannot be called", "write its __call__(self, x)"
    try:
        outputs = [eqx.filter_eval_shape(call, model, x) for call in _calls(model)]
    except RAISED as error:
        found = f"the model raised {told(error)} for one example of shape {x.shape}"
        return found, mend_of(error, "map one example to its outputs")
    for output in outputs:
        if getattr(output, "shape", None) != (out_size,):
            given = getattr(output, "shape", type(output).__name__)
            found = f"the model gives outputs of shape {given} for one example, not ({out_size},)"
            return found, "end it with out_size outputs"
    arrays = [leaf for leaf in jax.tree.leaves(model) if isinstance(leaf, jax.ShapeDtypeStruct)]
    if any(jnp.issubdtype(array.dtype, jnp.complexfloating) for array in arrays):
        return "the model has complex parameters", "keep real and imaginary parts apart"
    if not any(jnp.issubdtype(array.dtype, jnp.floating) for array in arrays):
        return "the model has no parameters to train", "give it arrays of floating-point numbers"
    return None


def _calls(model: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """How the model is called in evaluation, and in training."""
    yield evaluated
    if takes_key(model):
        yield lambda model, x: model(x, key=fixed_key())


def _filled(config: StudyConfig, params: Mapping[str, Scalar]) -> PythonTable:
    """`[model]` of a trial with `params` whose model is the user's own."""
    kind = config.search.get("model.kind")
    chosen = {} if kind is None else {kind.column("model.kind"): "python"}
    model = config.filled({**params, **chosen}).model
    assert model.kind == "python"
    return model


def _key(config: StudyConfig, name: str) -> str:
    key = f"model.{name}"
    return f"search.{key}" if key in config.search else key
