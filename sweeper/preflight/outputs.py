"""Warnings about user-defined models and functions that probably do not do what was meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, Literal
from jaxtyping import Array, Float

from sweeper.config import Settings, StudyConfig
from sweeper.config.alternating import AlternatingTable
from sweeper.config.optimizer import UserOptimizerTable
from sweeper.config.refusals import format_value
from sweeper.config.search import CategoricalSearch, ends, values_to_try
from sweeper.config.train import ON_LOGITS, SupervisedTable, column_of
from sweeper.config.user_code import load_function
from sweeper.config.user_errors import RAISED
from sweeper.data.dataset import Dataset
from sweeper.errors import listed
from sweeper.models.traces import Trace, inner_jaxprs, trace
from sweeper.models.user_network import KEY, UserNetwork, evaluated
from sweeper.preflight.user_functions import PARAMETER, optimizer_arguments
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import DataSpec, data_spec
from sweeper.programs.metrics import metric_of
from sweeper.programs.optimizers import given_the_loss

_ROWS = 16
_PAIRED_ROWS = 13  # few, but unlikely to be the size of another axis
_SCALES = (0.3, 1.0, 3.0, 10.0, 30.0)
# operations that every unbounded output needs
_BOUNDING = re.compile(r"\b(exp|exp2|logistic|tanh|erf|div|clamp|min|sin|cos)\b")
_CONVOLUTION = "conv_general_dilated"
_PRODUCTS = ("dot_general", _CONVOLUTION)
_CLOSE = 1e-3


def output_hints(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Warnings about outputs that do not fit the loss, once per user-defined model.

    Checks the values as written first, then each choice of a categorical setting of a model.
    """
    hinted = set[str]()
    for said, settings in _variants(config):
        for key, loss, network, x in _under_logits(config, data, settings):
            if key not in hinted and (hint := _output_hint(loss, network, x)):
                hinted.add(key)
                yield f"{key}.function: {said}{hint}"


def _variants(config: StudyConfig) -> Iterator[tuple[str, Settings]]:
    """Settings of trials with a user-defined model, and how each differs from the written ones."""
    kind = "parts" if config.kinds == ("parts",) else "python"
    chosen = config.params_of(kind)
    yield "", config.settings_of(chosen)
    for name, entry in config.search.items():
        if not isinstance(entry, CategoricalSearch) or not name.startswith("model."):
            continue
        if config.splits(name, kind):
            for value in entry.choices:
                said = f"with {name.rpartition('.')[2]} = {value!r}, "
                yield said, config.settings_of({**chosen, entry.column(name): value})


def _under_logits(
    config: StudyConfig, data: Dataset, settings: Settings
) -> Iterator[tuple[str, str, UserNetwork, Any]]:
    """Networks whose outputs may be probabilities although the loss takes logits.

    Each comes with its key, its loss and some inputs. Networks whose operations rule it out are
    left out.
    """
    train = settings.train
    if isinstance(train, SupervisedTable):
        losses = {"": train.loss}
    elif isinstance(train, AlternatingTable):
        losses = {loss.of: loss.kind for loss in train.by_loss.values()}
    else:
        return
    wanted = {name: loss for name, loss in losses.items() if loss in ON_LOGITS}
    networks = Programs(data_spec(config, data)).networks(settings) if wanted else {}
    for name, loss in wanted.items():
        network: Any = networks[name]
        if isinstance(network, UserNetwork) and _may_be_bounded(network):
            rows = np.random.default_rng(0).standard_normal((_ROWS, network.in_size))
            x = jnp.asarray(rows if name else data.x_train[:_ROWS], network.dtype)
            yield f"model.{name}" if name else "model", loss, network, x


def _may_be_bounded(network: UserNetwork) -> bool:
    return any(_BOUNDING.search(str(equation)) for equation in _last_equations(_called(network)))


def _called(network: UserNetwork) -> Jaxpr:
    """A call of the model with one example, without its training."""
    x = jax.ShapeDtypeStruct((network.in_size,), jnp.dtype(network.dtype))
    called = trace(lambda _key, model, x: evaluated(model, x), KEY, network.model(), x)
    return called.jaxpr.jaxpr


def _last_equations(jaxpr: Jaxpr) -> Iterator[Any]:
    """The operations that compute the outputs from the last products with weights."""
    made_by = {var: equation for equation in jaxpr.eqns for var in equation.outvars}
    waiting = list[Any](jaxpr.outvars)
    while waiting:
        var = waiting.pop()
        equation = None if isinstance(var, Literal) else made_by.pop(var, None)
        if equation is not None and equation.primitive.name not in _PRODUCTS:
            yield equation
            waiting += equation.invars


def undefined_measures(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """User-defined losses and metrics that are not finite on the validation rows.

    They are computed for several kinds of outputs; those finite for any of them are fine.
    """
    if not isinstance(config.train, SupervisedTable | AlternatingTable):
        return
    settings, spec = config.settings_of({}), data_spec(config, data)
    y = jnp.asarray(data.y_val if len(data.y_val) else data.y_train)
    for name, setting in config.train.functions.items():
        if setting == "loss":
            measure: Any = jax.value_and_grad(load_function(name, config.base_dir))
        elif setting == "metrics":
            measure = metric_of(name, settings, spec)
        else:
            continue
        measured = jax.jit(measure)
        if setting == "loss" and not any(
            jnp.any(measured(outputs, y)[1] != 0) for outputs in _kinds_of_outputs(y, spec)
        ):
            yield (
                f"train.loss: the gradient of '{name}' is 0 on the validation rows for all "
                "outputs that were tried, so nothing is learnt"
            )
        if not any(_is_finite(measured(outputs, y)) for outputs in _kinds_of_outputs(y, spec)):
            what = " or its gradient" if setting == "loss" else ""
            is_judged = setting == "loss" or f"val_{column_of(name)}" in config.study.objectives
            then = "every trial would count as diverged" if is_judged else "results would lack it"
            yield (
                f"train.{setting}: '{name}'{what} is not finite on the validation rows for "
                f"all outputs that were tried, so {then}"
            )


def _is_finite(measured: Any) -> bool:
    return all(bool(jnp.isfinite(part).all()) for part in jax.tree.leaves(measured))


def _kinds_of_outputs(y: Array, spec: DataSpec) -> Iterator[Array]:
    """Arbitrary numbers, positive ones, large ones, probabilities, and the targets themselves."""
    rng = np.random.default_rng(0)
    outputs = jnp.asarray(rng.standard_normal((len(y), spec.out_size)), spec.dtype)
    yield outputs
    yield jnp.abs(outputs)
    yield 1 + jnp.abs(outputs)
    yield jax.nn.sigmoid(outputs)
    yield jax.nn.softmax(outputs)
    yield y if y.ndim == 2 else jax.nn.one_hot(y, spec.out_size, dtype=spec.dtype)


def _output_hint(loss: str, network: UserNetwork, x: Array) -> str | None:
    """A warning if outputs are probabilities for all weights; computed on a few rows.

    Weights are drawn at several scales: outputs of a linear last layer exceed any bounds.
    """
    rng = np.random.default_rng(0)
    drawn = [scale * rng.standard_normal(network.vector.n_parameters) for scale in _SCALES]
    weights = jnp.asarray(np.stack(drawn), network.dtype)
    state = network.fixed_state
    found = jax.jit(jax.vmap(lambda own: network.evaluate_with(own, x, {}, state)))(weights)
    kind = _kind_of(np.asarray(found))
    if kind is None:
        return None
    if kind == "log-probabilities":
        return (
            f"the model returns log-probabilities, but {loss} takes logits; the loss is the same, "
            "so the last log_softmax can be removed"
        )
    return (
        f"the model returns probabilities, but {loss} takes logits, so it learns less; "
        "remove the final softmax or sigmoid"
    )


def _kind_of(outputs: Float[Array | np.ndarray, "draws rows out"]) -> str | None:
    outputs = outputs[np.isfinite(outputs).all(axis=(1, 2))]
    if len(outputs) < 2 or np.ptp(outputs) == 0:
        return None
    if outputs.min() >= 0 and outputs.max() <= 1:
        return "probabilities"
    sums = np.exp(np.minimum(outputs, 1)).sum(axis=-1)
    is_log = outputs.shape[-1] > 1 and outputs.max() <= 0 and np.abs(sums - 1).max() < _CLOSE
    return "log-probabilities" if is_log else None


_SHAPE = (3, 2)


def idle_optimizer(config: StudyConfig) -> Iterator[str]:
    """Searched settings that user-defined optimizers ignore, and updates without gradients."""
    for key, table in config.each("optimizer").items():
        if isinstance(table, UserOptimizerTable):
            yield from _idle_in(config, key, table)


def _idle_in(config: StudyConfig, table_key: str, table: UserOptimizerTable) -> Iterator[str]:
    """The same for the optimizer in one table."""

    def steps(params: dict[str, Any]) -> Trace | None:
        return _steps(function, optimizer_arguments(config, params, table_key))

    function = load_function(table.name, config.base_dir)
    stepped = steps({})
    if stepped is not None and not stepped.uses_key():
        yield (
            f"{table_key}.name: the updates of '{table.name}' do not depend on the "
            "gradients, so nothing is learnt"
        )
    keys = [f"{table_key}.{name}" for name in ("lr", *table.arguments)]
    arguments = {key: entry for key, entry in config.search.items() if key in keys}
    for key, entry in arguments.items():
        if entry.when or key in config.same_as.values():
            continue
        values, column = ends(entry), entry.column(key)
        others = {one: other for one, other in arguments.items() if one != key}
        traces = (
            [steps({**given, column: value}) for value in values] for given in values_to_try(others)
        )
        if len(set(values)) > 1 and all(map(_are_alike, traces)):
            yield (
                f"search.{key} changes nothing: '{table.name}' returns the same updates "
                f"for {listed([format_value(value) for value in values])}; "
                "use the argument, or remove the entry"
            )


def _are_alike(traces: Sequence[Trace | None]) -> bool:
    """Whether all are the same program; False if some could not be traced."""
    first, *others = traces
    return first is not None and all(one is not None and first.equals(one) for one in others)


def _steps(function: Callable[..., Any], given: Mapping[str, Any]) -> Trace | None:
    """Two steps of the optimizer with these arguments; None if they cannot be traced."""
    array = jax.ShapeDtypeStruct(_SHAPE, jnp.float32)

    def steps(gradients: Any, parameters: Any) -> Any:
        optimizer = given_the_loss(function(**given))
        loss = {"value": jnp.sum(gradients[PARAMETER]), "grad": gradients}
        state = optimizer.init(parameters)
        first, state = optimizer.update(gradients, state, parameters, **loss)
        return first, optimizer.update(gradients, state, parameters, **loss)[0]

    try:
        return trace(steps, {PARAMETER: array}, {PARAMETER: array})
    except RAISED:
        return None


def paired_rows(config: StudyConfig, out_size: int) -> Iterator[str]:
    """User-defined losses and metrics that accidentally pair each row with every other.

    Arrays of shape (rows,) and (rows, 1) broadcast to (rows, rows) without an error.
    """
    if not isinstance(config.train, SupervisedTable):
        return
    rows = _PAIRED_ROWS if out_size != _PAIRED_ROWS else _PAIRED_ROWS + 2
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
    for equation in _equations(jaxpr):
        yield from (getattr(var.aval, "shape", ()) for var in equation.outvars)


def _equations(jaxpr: Jaxpr) -> Iterator[Any]:
    """The operations of a jaxpr and of those inside it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in inner_jaxprs(equation):
            yield from _equations(inner.jaxpr)


def slow_convolutions(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """User-defined models that convolve on a CPU, where XLA is slow at it inside a loop."""
    if not config.has_user_models or jax.default_backend() != "cpu":
        return
    settings = config.settings_of(config.params_of("python"))
    networks = Programs(data_spec(config, data)).networks(settings)
    for name, network in networks.items():
        if isinstance(network, UserNetwork) and _convolves(network):
            yield (
                f"model{name and f'.{name}'}.function: on a CPU, XLA takes several times as long "
                "for a convolution inside a compiled loop as outside of one; multiply shifted "
                "images with the weights instead, as in the study that `sweeper guide "
                "models-and-programs` names, or train on a GPU"
            )


def _convolves(network: UserNetwork) -> bool:
    return any(one.primitive.name == _CONVOLUTION for one in _equations(_called(network)))
