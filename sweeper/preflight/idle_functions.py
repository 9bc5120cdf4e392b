"""Warnings about user-defined losses, metrics and optimizers that hardly do what is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr

from sweeper.config import StudyConfig
from sweeper.config.optimizer import UserOptimizerTable
from sweeper.config.refusals import format_value
from sweeper.config.search import ends
from sweeper.config.train import SupervisedTable
from sweeper.config.user_code import RAISED, load_function
from sweeper.errors import listed
from sweeper.models.decay_masks import Marks
from sweeper.models.trace_checks import inner_jaxprs
from sweeper.models.traces import Trace, trace
from sweeper.models.user_network import KEY

# few, but unlikely to be the size of another axis
_ROWS = 13
_SHAPE = (3, 2)


def idle_optimizer(config: StudyConfig) -> Iterator[str]:
    """Searched settings that a user-defined optimizer ignores, and updates without gradients."""
    if not isinstance(config.optimizer, UserOptimizerTable):
        return
    function = load_function(config.optimizer.name, config.base_dir)
    stepped = _steps(config, function, {})
    if stepped is not None and not stepped.uses_key():
        yield (
            f"optimizer.name: the updates of '{config.optimizer.name}' do not depend on the "
            "gradients, so nothing is learnt"
        )
    for key, entry in config.search.items():
        name = key.removeprefix("optimizer.")
        is_argument = name == "lr" or name in config.optimizer.arguments
        if name == key or not is_argument or entry.when or key in config.same_as.values():
            continue
        values = ends(entry)
        traces = [_steps(config, function, {entry.column(key): value}) for value in values]
        if len(set(values)) > 1 and _are_alike(traces):
            yield (
                f"search.{key} changes nothing: '{config.optimizer.name}' returns the same updates "
                f"for {listed([format_value(value) for value in values])}; "
                "use the argument, or remove the entry"
            )


def _are_alike(traces: Sequence[Trace | None]) -> bool:
    """Whether all are the same program; False if some could not be traced."""
    first, *others = traces
    return first is not None and all(one is not None and first.equals(one) for one in others)


def _steps(
    config: StudyConfig, function: Callable[..., Any], params: dict[str, Any]
) -> Trace | None:
    """Two steps of the optimizer in a trial with `params`; None if they cannot be traced."""
    own = config.filled(params).optimizer
    assert isinstance(own, UserOptimizerTable)
    given = {**own.arguments, **({} if own.lr is None else {"lr": own.lr})}
    if own.decay is not None:
        given["mask"] = Marks({"weight": True})
    array = jax.ShapeDtypeStruct(_SHAPE, jnp.float32)

    def steps(gradients: Any, parameters: Any) -> Any:
        optimizer = function(**given)
        state = optimizer.init(parameters)
        first, state = optimizer.update(gradients, state, parameters)
        return first, optimizer.update(gradients, state, parameters)[0]

    try:
        return trace(steps, {"weight": array}, {"weight": array})
    except RAISED:
        return None


def paired_rows(config: StudyConfig, out_size: int) -> Iterator[str]:
    """User-defined losses and metrics that accidentally pair each row with every other.

    Arrays of shape (rows,) and (rows, 1) broadcast to (rows, rows) without an error.
    """
    if not isinstance(config.train, SupervisedTable):
        return
    rows = _ROWS if out_size != _ROWS else _ROWS + 2
    outputs = jax.ShapeDtypeStruct((rows, out_size), jnp.float32)
    is_numbers = config.train.target == "numbers"
    y = outputs if is_numbers else jax.ShapeDtypeStruct((rows,), jnp.int32)
    for name, setting in config.train.functions.items():
        function = load_function(name, config.base_dir)
        if _promotes(function, outputs, y) and _pairs(function, outputs, y):
            shape = f"(rows, {out_size})"
            yield (
                f"train.{setting}: '{name}' pairs each row with every other: outputs have shape "
                f"{shape}, y has {shape if is_numbers else '(rows,)'}, and some array in it has "
                "(rows, rows); give both operands the same shape"
            )


def _promotes(function: Callable[..., Any], outputs: Any, y: Any) -> bool:
    """Whether some operation implicitly adds an axis to one of its operands."""
    try:
        with jax.numpy_rank_promotion("raise"):
            jax.eval_shape(function, outputs, y)
    except ValueError as error:
        return "rank_promotion" in str(error)
    except RAISED:
        return False
    return False


def _pairs(function: Callable[..., Any], outputs: Any, y: Any) -> bool:
    """Whether some array has two axes of rows."""
    traced = trace(lambda _key, *given: function(*given), KEY, outputs, y)
    return any(shape.count(y.shape[0]) > 1 for shape in _shapes(traced.jaxpr.jaxpr))


def _shapes(jaxpr: Jaxpr) -> Iterator[tuple[int, ...]]:
    for equation in jaxpr.eqns:
        yield from (getattr(var.aval, "shape", ()) for var in equation.outvars)
        for inner in inner_jaxprs(equation):
            yield from _shapes(inner)
