"""Checks that user-defined functions can be compiled into a study's programs, and trained."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.extend.core import jaxpr_as_fun

from sweeper.config import StudyConfig
from sweeper.config.alternating import DATA, UNUSED_LR, AlternatingTable
from sweeper.config.coupled import GENERATOR, CoupledTable
from sweeper.config.kinds import is_function
from sweeper.config.model import PartsTable
from sweeper.config.optimizer import UserOptimizerTable
from sweeper.config.rules import sizes_of_parts
from sweeper.config.train import UserProgramTable
from sweeper.config.user_code import (
    LoadError,
    check_keywords,
    describe_object,
    imported_again,
    keywords_of,
    load_function,
)
from sweeper.config.user_errors import RAISED, describe_error, place_of
from sweeper.data.dataset import Dataset
from sweeper.errors import Problem, StudyError, listed
from sweeper.models.decay_masks import Marks
from sweeper.models.elsewhere import elsewhere
from sweeper.models.keys import fixed_key
from sweeper.models.traces import Trace, trace, unrepeatable
from sweeper.models.user_network import KEY, UserNetwork, hint_of
from sweeper.programs.build import Programs
from sweeper.programs.coupled import Coupled
from sweeper.programs.data_spec import data_spec
from sweeper.programs.optimizers import gets_mask, given_the_loss
from sweeper.programs.program import Batch
from sweeper.trial import Scalar

_ROWS = 4
PARAMETER = "weight"
_MASK = "mask"  # argument of user-defined optimizers: what decays
_NEEDED = re.compile(r"missing \d+ required keyword-only arguments?: .*")
_NO_SEARCH = "use one without a line search, such as optax.lbfgs(lr, linesearch=None)"
_OWN_PROGRAM = "call it in your own train.program"
_TARGETS = frozenset({"y_true", "true", "truth", "target", "targets", "label", "labels", "y"})
_OUTPUTS = frozenset(
    {"y_pred", "pred", "preds", "prediction", "predictions", "y_hat", "outputs", "logits"}
)
Wrong = tuple[str, str]
"""What is wrong with user code, and how to fix it."""


def raised(what: str, error: BaseException, fix: str, given: str = "") -> Wrong:
    """That user code raised an error, and `fix` or a better hint that follows from the error."""
    return f"{what} raised {describe_error(error)}{given}", hint_of(error, fix)


def check_functions(config: StudyConfig, out_size: int) -> None:
    """Refuse a user-defined loss, metric or optimizer that cannot be compiled.

    Each is traced with shapes only; nothing is computed.

    Raises:
        StudyError: the function does not exist, does not accept its arguments, or its result
        cannot be used.
    """
    problems = [*_unfit_measures(config, out_size), *_unfit_optimizers(config)]
    if problems:
        raise StudyError(problems)


def check_builder(
    name: str, function: Callable[..., Any], what: str, given: Collection[str]
) -> Wrong | None:
    """Refuse a model in place of the function that builds `what` with the `given` arguments.

    Functions that Equinox wraps are models in type only.
    """
    named, is_open = keywords_of(function)
    is_wrapped = is_open or hasattr(function, "__wrapped__")
    if not isinstance(function, eqx.Module) or is_wrapped or any(key in named for key in given):
        return None
    found = f"'{name}' is {describe_object(function)}, not a function that returns {what}"
    return found, "write the name of a function or a class"


def _unfit_measures(config: StudyConfig, out_size: int) -> Iterator[Problem]:
    """What is wrong with the losses and the metrics."""
    for name, setting, outputs, y in _measures(config, out_size):
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


def _measures(config: StudyConfig, out_size: int) -> Iterator[tuple[str, str, Any, Any]]:
    """User-defined losses and metrics, each with its setting and what it is called with."""
    train = config.train
    if isinstance(train, CoupledTable | UserProgramTable):
        return  # its functions have other arguments
    dtype = jax.dtypes.canonicalize_dtype(config.execution.precision)
    outputs = jax.ShapeDtypeStruct((_ROWS, out_size), dtype)
    is_numbers = train.target == "numbers"
    y = outputs if is_numbers else jax.ShapeDtypeStruct((_ROWS,), jnp.int32)
    if isinstance(train, AlternatingTable):
        assert isinstance(config.model, PartsTable)
        sizes = sizes_of_parts(config.model, train, 0, out_size)  # the outputs of parts
        for key, loss in train.by_loss.items():
            if is_function(loss.kind):
                of_part = jax.ShapeDtypeStruct((_ROWS, sizes[loss.of][1]), dtype)
                is_of_data = loss.against == DATA
                first, second = (outputs, y) if is_of_data else (of_part, of_part)
                yield loss.kind, f"losses.{key}.kind", first, second
    for name, setting in train.functions.items():
        if setting in ("loss", "metrics"):
            yield name, setting, outputs, y


def _unfit_measure(
    name: str, function: Callable[..., Any], outputs: Any, y: Any, *, is_loss: bool, edition: int
) -> Wrong | None:
    """What was found and how to fix it; None if nothing is wrong."""
    if edition > 3 and (swapped := _swapped(function)):
        found = f"'{name}' takes {swapped}, but is called with the outputs of the model first"
        return found, "swap its first two parameters"
    try:
        given = jax.eval_shape(function, outputs, y)
        shape, dtype = getattr(given, "shape", None), getattr(given, "dtype", None)
        if shape != () or dtype is None:
            found = f"'{name}' returns {_shown(given)} for outputs of shape {outputs.shape}"
            return found, "return one number, the mean over examples"
        if is_loss and not jnp.issubdtype(dtype, jnp.floating):
            found = f"'{name}' returns {dtype}, which has no gradient"
            return found, "return a floating-point number"
        if jnp.issubdtype(dtype, jnp.complexfloating):
            return f"'{name}' returns {dtype}, which has no order", "return a real number"
        if is_loss:
            jax.eval_shape(jax.grad(function), outputs, y)
        traced = trace(lambda _key, *given: function(*given), KEY, outputs, y)
        if edition > 1 and not traced.repeats():
            return unrepeatable(f"'{name}'", "let its result depend only on its arguments")
    except RAISED as error:
        shapes = f" for outputs of shape {outputs.shape} and y of shape {y.shape}"
        return raised(f"'{name}'", error, "fix the function", shapes)
    return None


def _swapped(function: Callable[..., Any]) -> str:
    """The first two parameters if they are called as in scikit-learn, targets first; else empty."""
    with suppress(TypeError, ValueError):  # some callables have no signature
        first, second, *_ = inspect.signature(function).parameters
        if first in _TARGETS and second in _OUTPUTS:
            return f"{first} before {second}"
    return ""


def _unfit_optimizers(config: StudyConfig) -> Iterator[Problem]:
    """What is wrong with user-defined optimizers."""
    for key, table in config.each("optimizer").items():
        if isinstance(table, UserOptimizerTable):
            yield from _unfit_optimizer(config, key, table)


def _unfit_optimizer(config: StudyConfig, key: str, table: UserOptimizerTable) -> Iterator[Problem]:
    """What is wrong with the user-defined optimizer in the table `key`."""
    try:
        function = load_function(table.name, config.base_dir)
    except LoadError as error:
        yield config.problem(f"{key}.name", error.found, error.hint)
        return
    arguments = optimizer_arguments(config, {}, key)
    if wrong := check_builder(table.name, function, "an optimizer", arguments):
        yield config.problem(f"{key}.name", *wrong)
        return
    unfit = [*_unfit_mask(config, key, table, function)]
    unfit += (rates := [*_unfit_rates(config, key, table, function)])
    apart = [_MASK, "lr"] if rates and table.lr == UNUSED_LR else [_MASK]
    unfit += check_keywords(config, key, table.name, function, arguments, apart)
    yield from unfit
    dtype = jax.dtypes.canonicalize_dtype(config.execution.precision)
    parameters = {PARAMETER: jax.ShapeDtypeStruct((3, 2), dtype)}
    by_sweeper = not isinstance(config.train, UserProgramTable)
    taken = table.name, function, arguments, parameters
    if not unfit and (wrong := _unfit_steps(*taken, by_sweeper=by_sweeper)):
        yield config.problem(f"{key}.name", *wrong)


def optimizer_arguments(
    config: StudyConfig, params: Mapping[str, Scalar], key: str = "optimizer"
) -> dict[str, Any]:
    """What a user-defined optimizer is called with in a trial, for a model of one array."""
    own = config.settings_of(params).of_part(key.partition(".")[2]).optimizer
    assert isinstance(own, UserOptimizerTable)
    given = {**own.arguments, **({} if own.lr is None else {"lr": own.lr})}
    function = load_function(own.name, config.base_dir)
    return {**given, _MASK: Marks({PARAMETER: True})} if gets_mask(own, function) else given


def _unfit_mask(
    config: StudyConfig, key: str, table: UserOptimizerTable, function: Callable[..., Any]
) -> Iterator[Problem]:
    """Problems with the decay mask: given twice, or not accepted."""
    named, is_open = keywords_of(function)
    if _MASK in table.arguments:
        found = f"'mask' is determined by [{key}.decay]"
        yield config.problem(f"{key}.mask", found, f"write [{key}.decay] instead")
    elif table.decay is not None and _MASK not in named and not is_open:
        found = f"'{table.name}' has no argument 'mask', which would say what decays"
        yield config.problem(f"{key}.decay", found, "add the argument, or remove the table")


def _unfit_rates(
    config: StudyConfig, key: str, table: UserOptimizerTable, function: Callable[..., Any]
) -> Iterator[Problem]:
    """Rates of phases that the function does not accept."""
    named, is_open = keywords_of(function)
    if "lr" in named or is_open or not isinstance(config.train, AlternatingTable):
        return
    part = key.partition(".")[2]
    for name, phase in config.train.by_phase.items():
        rate = f"train.phases.{name}.lr"
        entry = config.entry(rate)
        if (phase.lr is not None or entry is not None) and (not part or part in phase.trains):
            place = rate if entry is None else f"search.{rate}"
            found = f"'{table.name}', the optimizer in this phase, has no argument 'lr'"
            yield config.problem(place, found, "remove it, or add the argument")


def _unfit_steps(
    name: str,
    function: Callable[..., Any],
    given: Mapping[str, Any],
    parameters: Any,
    *,
    by_sweeper: bool,
) -> Wrong | None:
    """What was found and how to fix it; None if it moves `parameters` step by step.

    Unless updates are made `by_sweeper`, a user-defined program passes what they need.
    """
    traced = {key: value for key, value in given.items() if isinstance(value, float)}
    fixed = {key: value for key, value in given.items() if key not in traced}
    wrong: list[Wrong] = []

    def step(parameters: Any, numbers: Any) -> Any:
        optimizer = function(**fixed, **numbers)
        if not isinstance(optimizer, optax.GradientTransformation):
            found = f"returns {describe_object(optimizer)}, not an optax.GradientTransformation"
            wrong.append((f"'{name}' {found}", _instead_of(optimizer)))
            return parameters
        state = optimizer.init(parameters)
        loss = {"value": jnp.sum(parameters[PARAMETER]), "grad": parameters}
        updates, after = given_the_loss(optimizer).update(parameters, state, parameters, **loss)
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
        if needed := _NEEDED.search(str(error)):
            names = listed(re.findall(r"'(\w+)'", needed[0]))
            found = f"'{name}' needs {names} in an update, which gets only value and grad"
            return (found, f"{_NO_SEARCH}, or {_OWN_PROGRAM}") if by_sweeper else None
        # otherwise it failed in a library, after the function had returned
        own = f"let it work with any tree of arrays, value and grad, or {_OWN_PROGRAM}"
        return raised(f"'{name}'", error, "fix the function" if place_of(error) else own)
    if wrong:
        return wrong[0]
    shapes = [leaf.shape for leaf in jax.tree.leaves(moved)]
    if shapes != [(3, 2)]:
        found = f"'{name}' returns updates of shapes {shapes} for one parameter of shape (3, 2)"
        return found, "return one update per parameter"
    return None


def _instead_of(returned: Any) -> str:
    """A hint: what to return instead of `returned`, so that it is an optimizer."""
    if callable(getattr(returned, "gradient_transformation", None)):  # optax.MultiSteps
        return f"return {type(returned).__name__}(...).gradient_transformation()"
    if callable(returned):
        return "return what it gives when it is called, such as optax.sgd(lr)"
    return "return one, such as optax.sgd(lr)"


def _unfit_state(state: Any, after: Any) -> Wrong | None:
    """Why steps cannot pass on an optimizer's state: its tree or its types change."""
    leaves = jax.tree.leaves(state)
    if strange := [leaf for leaf in leaves if not eqx.is_array(leaf)]:
        found = f"keeps {type(strange[0]).__name__} in its state, which is not an array"
        return found, "start with an array, such as jnp.zeros((), jnp.int32)"
    if any(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves):
        found = "keeps a random key in its state, which cannot be saved"
        fix = "keep jax.random.key_data(key) instead (Optax's add_noise and noisy_sgd cannot)"
        return found, fix
    hint = "return a state with the same tree, shapes and types as the one before"
    if jax.tree.structure(state) != jax.tree.structure(after):
        return "returns a state with a different tree in its first step", hint
    for before, now in zip(leaves, jax.tree.leaves(after), strict=True):
        if (known := _type_of(before)) != (given := _type_of(now)):
            return f"changes {known} to {given} in its state", hint
    return None


def _type_of(leaf: Any) -> str:
    return f"{jnp.result_type(leaf)}{[*jnp.shape(leaf)]}"  # as in JAX's errors: float32[3, 2]


def _shown(given: Any) -> str:
    shape = getattr(given, "shape", None)
    return describe_object(given) if shape is None else f"an array of shape {shape}"


def check_coupled(config: StudyConfig, data: Dataset) -> None:
    """Refuse a generator with wrong outputs, and an objective that cannot be compiled.

    User-defined functions are traced with shapes only; nothing is computed.

    Raises:
        StudyError: a size does not fit, the function does not exist, or its result cannot be used.
    """
    train = config.train
    if not isinstance(train, CoupledTable):
        return
    problems = [*_unfit_generator(config, train, data.n_features)]
    if not problems and is_function(train.objective):
        problems = [*_unfit_objective(config, train, data)]
    if problems:
        raise StudyError(problems)


def _unfit_generator(config: StudyConfig, train: CoupledTable, features: int) -> Iterator[Problem]:
    """Generated rows must have the size of the data's rows."""
    assert isinstance(config.model, PartsTable)
    if train.generates and config.model.parts[GENERATOR].out_size not in (None, features):
        size = config.model.parts[GENERATOR].out_size
        found = f"{size} outputs, but the rows of the data have {features} features"
        hint = "remove it: the data determines the size"
        yield config.problem(f"model.{GENERATOR}.out_size", found, hint)


def _unfit_objective(config: StudyConfig, train: CoupledTable, data: Dataset) -> Iterator[Problem]:
    try:
        function = load_function(train.objective, config.base_dir)
    except LoadError as error:
        yield config.problem("train.objective", error.found, error.hint)
        return
    if wrong := _unfit_function(config, train, data, function):
        yield config.problem("train.objective", *wrong)


def _unfit_function(
    config: StudyConfig, train: CoupledTable, data: Dataset, function: Callable[..., Any]
) -> Wrong | None:
    """What was found and how to fix it; None if every model has its loss."""
    name, batch = train.objective, abstract_batch(_ROWS, data)
    program = programs_to_trace(config, data).exact(config.settings_of({}))
    assert isinstance(program, Coupled)
    vectors = program.abstract().model
    given: list[Any] = []

    def losses(vectors: Any, batch: Batch) -> Any:
        found = function(program.parts.model(vectors).parts, batch, fixed_key())
        given[:] = [found]
        return found

    def total(vectors: Any, batch: Batch) -> Any:
        return sum(losses(vectors, batch).values())

    try:
        jax.eval_shape(losses, vectors, batch)
        if wrong := _unfit_losses(name, given[0], train.models):
            return wrong
        jax.eval_shape(jax.grad(total), vectors, batch)
    except RAISED as error:
        shapes = f" for a batch whose x has shape {batch.x.shape} and y {batch.y.shape}"
        return raised(f"'{name}'", error, "fix the function", shapes)
    return None


def _unfit_losses(name: str, given: Any, models: tuple[str, ...]) -> Wrong | None:
    losses = ", ".join(f'"{model}": ...' for model in models)
    hint = f"return {{{losses}}}"
    if not isinstance(given, Mapping):
        return f"'{name}' returns {type(given).__name__}, not the loss of each model by name", hint
    if {*given} != {*models}:
        names = ", ".join(map(str, given)) or "none"
        return f"'{name}' returns losses of {names}, but the models are {', '.join(models)}", hint
    for model in models:
        loss = given[model]
        shape, dtype = getattr(loss, "shape", None), getattr(loss, "dtype", None)
        if shape != () or dtype is None or not jnp.issubdtype(dtype, jnp.floating):
            what = type(loss).__name__ if shape is None else f"{dtype} of shape {shape}"
            found = f"'{name}' returns {what} as the loss of {model}"
            return found, "return one floating-point number per model, the mean over examples"
    return None


def check_training(config: StudyConfig, data: Dataset) -> None:
    """Refuse user-defined functions whose step cannot be compiled, or is not always the same.

    Traces the trial with the values as written; nothing is computed.

    Raises:
        StudyError: with what the step raised, or the function whose module gives a different
        program when it is imported again.
    """
    key = next((key for key in config.functions.values() if key.startswith("model.")), "train")
    try:
        traced = _traced_training(config, data)
    except RAISED as error:
        fix = "build it from operations whose gradient JAX can compute"
        wrong = raised("a training step of the model", error, fix)
        raise StudyError(config.problem(key, *wrong)) from error
    for module, key in _modules(config).items():
        again = _traced_again(config, data, module)
        if again is not None and not again.equals(traced):
            found = (
                f"the module '{module}' gives different results each time it is imported, so "
                "worker processes, resumed studies and predictions would differ"
            )
            fix = "draw with the key that is passed, or with a fixed seed: np.random.default_rng(0)"
            raise StudyError(config.problem(key, found, fix))


def measure_compile(config: StudyConfig, data: Dataset) -> float:
    """The seconds to compile fresh weights, one step and its evaluation, as any program has."""
    traced = _traced_training(config, data).jaxpr
    shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in traced.in_avals]
    lowered = jax.jit(jaxpr_as_fun(traced)).lower(*shapes)
    began = time.monotonic()
    lowered.compile()
    return time.monotonic() - began


def _modules(config: StudyConfig) -> Mapping[str, str]:
    """The modules that programs are compiled from, each with a key that names a function."""
    found: dict[str, str] = {}
    for name, key in config.functions.items():
        if not key.startswith(("data.", "study.")):
            found.setdefault(name.partition(":")[0], key)
    return found


def _traced_again(config: StudyConfig, data: Dataset, module: str) -> Trace | None:
    """The training step with `module` imported a second time; None if that is not possible."""
    with elsewhere(), imported_again(module, config.base_dir), suppress(*RAISED):
        return _traced_training(config, data)
    return None


def _traced_training(config: StudyConfig, data: Dataset) -> Trace:
    """Fresh weights, one step and its evaluation."""
    settings, programs = config.settings_of(_traced_params(config)), programs_to_trace(config, data)
    program = programs.exact(settings)
    networks = programs.networks(settings).values()
    state, lane = program.layout.abstract(), program.layout.lane(0, settings)
    batch = abstract_batch(settings.train.batch_size, data)

    def trained(key: Any, state: Any, batch: Batch) -> object:
        fresh = [one.built(key) for one in networks if isinstance(one, UserNetwork)]
        begun = program.epochs.enter(program.begin(state, lane))
        moved, measured = program.step(begun, batch, lane, jnp.zeros((), jnp.int32))
        return fresh, moved, measured, program.evaluate(moved, batch, lane)

    return trace(trained, KEY, state, batch)


def _traced_params(config: StudyConfig) -> dict[str, Scalar]:
    """Drawn parameters to build a program with, because the values as written need not fit.

    They are those of trials with a user-defined model, if there are any. Settings of bins have
    values that trials draw, since only these bins are fitted.
    """
    found = config.params_of("python" if config.has_user_models else config.kinds[0])
    for key in ("model.numbers", "model.n_bins", "model.bins"):
        if (entry := config.entry(key)) is not None and (values := config.drawn_values(key)):
            found[entry.column(config.same_as.get(key, key))] = values[0]
    return found


def programs_to_trace(config: StudyConfig, data: Dataset) -> Programs:
    """The programs of a study in a precision that JAX has now."""
    dtype = str(jax.dtypes.canonicalize_dtype(config.execution.precision))
    return Programs(replace(data_spec(config, data), dtype=dtype))


def abstract_batch(rows: int, data: Dataset) -> Batch:
    """The shapes of a batch with this many rows."""
    whole = Batch(data.x_train, data.y_train, weights=data.weights("train"))
    return jax.tree.map(
        lambda part: jax.ShapeDtypeStruct(
            (rows, *part.shape[1:]), jax.dtypes.canonicalize_dtype(part.dtype)
        ),
        whole,
    )
