"""Checks that a user-defined program can train a study's models on its data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from sweeper.config import Settings, StudyConfig
from sweeper.config.model import MixedTable
from sweeper.config.search import ends
from sweeper.config.train import WITHOUT_DROPOUT, WITHOUT_MEMBERS, UserProgramTable
from sweeper.config.user_code import LoadError, check_keywords, describe_object, load_class
from sweeper.config.user_errors import RAISED, place_of
from sweeper.data.dataset import Dataset
from sweeper.errors import Problem, StudyError
from sweeper.models.traces import Trace, trace, unrepeatable
from sweeper.models.user_network import hint_of
from sweeper.preflight.user_functions import Wrong, abstract_batch, programs_to_trace, raised
from sweeper.programs.build import Programs
from sweeper.programs.program import LaneParameters, State
from sweeper.programs.user_program import UserDefined, UserProgram, taken_of_data
from sweeper.trial import Scalar

# the methods of a program, with their arguments in order
METHODS: Mapping[str, tuple[str, ...]] = {
    name: tuple(inspect.signature(getattr(UserProgram, name)).parameters)
    for name in ("init", "step", "evaluate")
}


def check_program(config: StudyConfig, data: Dataset) -> None:
    """Refuse a user-defined program that cannot be compiled; it is traced with shapes only.

    It is traced with the values as written, then with the ends of each searched one.

    Raises:
        StudyError: it cannot train a searched kind of model, the class does not exist, does not
        accept its keys, lacks a method, or the result of a method cannot be used.
    """
    train = config.train
    if not isinstance(train, UserProgramTable):
        return
    if problems := [*_unfit_kinds(config)]:
        raise StudyError(problems)
    try:
        program = load_class(train.program, config.base_dir)
    except LoadError as error:
        raise StudyError(config.problem("train.program", error.found, error.hint)) from error
    keys, data_arguments = train.arguments, taken_of_data(program)
    problems = [*check_keywords(config, "train", train.program, program, keys, data_arguments)]
    if not problems and (wrong := _unfit_class(train.program, program)):
        problems = [config.problem("train.program", *wrong)]
    if not problems:
        problems = [*_unfit_trials(config, data)]
    if problems:
        raise StudyError(problems)


def scores_of(config: StudyConfig, data: Dataset) -> tuple[str, ...]:
    """The names of the metrics that the program's `evaluate` returns; empty if it raises."""
    settings = config.settings_of({})
    program = programs_to_trace(config, data).exact(settings)
    assert isinstance(program, UserDefined)
    lane, batch = program.lane(0, settings), abstract_batch(config.train.batch_size, data)
    try:
        state = program.abstract()
        given = eqx.filter_eval_shape(program.evaluated_by_user, state, batch, lane)
    except RAISED:
        return ()  # `check_program` reports it
    return tuple(name for name in given if name != "loss") if isinstance(given, Mapping) else ()


def _unfit_kinds(config: StudyConfig) -> Iterator[Problem]:
    """Searched kinds of models that the program would train in another way than `supervised`.

    Studies of earlier editions train them.
    """
    model = config.model
    if config.edition < 6 or not isinstance(model, MixedTable):
        return
    if "tabm" in config.kinds:
        found = f"some trials are a TabM: {WITHOUT_MEMBERS}"
        hint = 'remove "tabm", or write train.program = "supervised"'
        yield config.problem("search.model.kind", found, hint)
    if config.padded_kinds and model.dropout > 0:
        yield config.problem("model.dropout", WITHOUT_DROPOUT, "remove it")


def _unfit_class(name: str, program: Callable[..., Any]) -> Wrong | None:
    """What is wrong with its methods, as far as known before they are called."""
    if not inspect.isclass(program):
        return (
            f"'{name}' is {describe_object(program)}, not a class",
            f"write a class with {', '.join(METHODS)}",
        )
    for method, given in METHODS.items():
        hint = f"write def {method}({', '.join(given)})"
        function = getattr(program, method, None)
        if not callable(function):
            return f"'{name}' has no {method}", hint
        try:
            inspect.signature(function).bind(*given)
        except TypeError:
            found = f"'{name}.{method}' cannot be called with {', '.join(given[1:])}"
            return found, hint
    return None


def _unfit_trials(config: StudyConfig, data: Dataset) -> Iterator[Problem]:
    programs = programs_to_trace(config, data)

    def wrong(params: Mapping[str, Scalar]) -> Wrong | None:
        return _unfit_trial(programs, config.settings_of(params), data)

    if found := wrong({}):
        yield config.problem("train.program", *found)
        return
    for key, entry in config.search.items():
        if not key.startswith("train.") or not config.structural[key]:
            continue
        for value in ends(entry):
            if found := wrong({entry.column(key): value}):
                where = f"with {key.partition('.')[2]} = {value!r}, {found[0]}"
                yield config.problem(f"search.{key}", where, found[1])
                break


def _unfit_trial(programs: Programs, settings: Settings, data: Dataset) -> Wrong | None:
    """What was found and how to fix it; None if such a trial can be trained."""
    program = programs.exact(settings)
    assert isinstance(program, UserDefined) and isinstance(settings.train, UserProgramTable)
    name, lane = settings.train.program, program.lane(0, settings)
    batch, method = abstract_batch(settings.train.batch_size, data), "init"
    try:
        start = _traced(program.begun_by_user, lane, _blank(program))
        if found := _unfit_start(name, start.result, program):
            return found
        state, method = program.abstract(), "step"
        moved = _traced(program.stepped_by_user, lane, state, batch)
        if found := _unfit_step(name, start.result, moved.result, program):
            return found
        method = "evaluate"
        given = _traced(program.evaluated_by_user, lane, state, batch)
        if found := _unfit_scores(name, given.result, settings.train.metrics):
            return found
        for method, called in zip(METHODS, (start, moved, given), strict=True):
            if settings.edition > 1 and not called.repeats():
                hint = "let its result depend only on its arguments"
                return unrepeatable(f"'{name}.{method}'", hint)
        return None
    except jax.errors.TracerBoolConversionError as error:
        what = f"{type(error).__name__}: Python code cannot see traced values{place_of(error)}"
        hint = hint_of(error, "") + ", or write the key as an integer"
        return f"'{name}.{method}' raised {what}", hint
    except RAISED as error:
        shapes = f" for x of shape {batch.x.shape} and y of shape {batch.y.shape}"
        return raised(f"'{name}.{method}'", error, "fix it", shapes)


def _traced(method: Callable[..., Any], lane: LaneParameters, *given: Any) -> Trace:
    """The trace of a method whose last argument is the lane."""
    shapes = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), lane)
    return trace(lambda lane, *given: method(*given, lane), shapes, *given)


def _blank(program: UserDefined) -> Any:
    arrays = jax.tree.leaves(program.network.vector.shapes())
    model = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in arrays)
    return State({"": model}, None, jax.ShapeDtypeStruct((), jnp.int32))  # type: ignore[arg-type]


def _unfit_start(name: str, start: Any, program: UserDefined) -> Wrong | None:
    if not isinstance(start, tuple) or len(start) != 2:
        found = f"'{name}.init' returns {_shown(start)}"
        return found, "return model, opt_state"
    like = eqx.filter(program.network.vector.shapes(), _is_shape), program.model_constants
    if differs := _difference(_by_path(*like), _by_path(eqx.filter(start[0], _is_kept))):
        found = f"'{name}.init' returns a model whose {differs}"
        return found, "return the model it gets, with other numbers if necessary"
    return None


def _unfit_step(name: str, start: Any, moved: Any, program: UserDefined) -> Wrong | None:
    if not isinstance(moved, tuple) or len(moved) != 3:
        return f"'{name}.step' returns {_shown(moved)}", "return model, opt_state, loss"
    model, opt_state, loss = moved
    given = eqx.filter(start[0], _is_float), program.model_constants
    state = eqx.filter(start[1], _is_shape), program.state_constants
    pairs = (
        ("a model", _by_path(*given), _by_path(eqx.filter(model, _is_kept))),
        ("an opt_state", _by_path(*state), _by_path(opt_state)),
    )
    for what, before, after in pairs:
        if differs := _difference(before, after):
            found = f"'{name}.step' returns {what}"
            hint = "keep shapes and types from step to step; start counters with jnp.array(0)"
            return f"{found} whose {differs}", hint
    shape, dtype = getattr(loss, "shape", None), getattr(loss, "dtype", None)
    if shape != () or dtype is None or not jnp.issubdtype(dtype, jnp.floating):
        found = f"'{name}.step' returns {_shown(loss)} as its loss"
        return found, "return one floating-point number, the mean over examples"
    return None


def _unfit_scores(name: str, given: Any, metrics: tuple[str, ...]) -> Wrong | None:
    wanted = ("loss", *metrics)
    shape = ", ".join(f'"{metric}": ...' for metric in wanted)
    if not isinstance(given, Mapping):
        return f"'{name}.evaluate' returns {_shown(given)}", f"return {{{shape}}}"
    names = ", ".join(map(str, given)) or "nothing"
    if missing := [metric for metric in wanted if metric not in given]:
        found = f"'{name}.evaluate' returns {names}, but not {', '.join(missing)}"
        return found, f"return {{{shape}}}"
    if more := [str(metric) for metric in given if metric not in wanted]:
        found = f"'{name}.evaluate' returns {names}"
        listed = ", ".join(f'"{metric}"' for metric in (*metrics, *more))
        return found, f"write train.metrics = [{listed}]"
    for metric, value in given.items():
        if getattr(value, "shape", ()) != () or isinstance(value, str):
            found = f"'{name}.evaluate' returns {_shown(value)} as {metric}"
            return found, "return one number"
    return None


def _by_path(*trees: PyTree) -> dict[str, Any]:
    """The leaves of all trees, which share none, by path."""
    pairs = (pair for tree in trees for pair in jax.tree_util.tree_flatten_with_path(tree)[0])
    return {jax.tree_util.keystr(path) or "it": leaf for path, leaf in pairs}


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """Where two trees differ, with shapes in place of arrays; None if they are equal."""
    for path in (*old, *new):
        if path not in old:
            return f"{path} was not there before"
        if path not in new:
            return f"{path} is missing"
        was, now = old[path], new[path]
        if not _is_same(was, now):
            return f"{path} is {_leaf(now)}, but was {_leaf(was)}"
    return None


def _is_same(was: Any, now: Any) -> bool:
    if _is_shape(was) and _is_shape(now):
        return (was.shape, was.dtype) == (now.shape, now.dtype)
    return was is now or (type(was) is type(now) and bool(was == now))


def _leaf(leaf: Any) -> str:
    return _shown(leaf) if _is_shape(leaf) else repr(leaf)


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _is_float(leaf: Any) -> bool:
    return _is_shape(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating)


def _is_kept(leaf: Any) -> bool:
    """Whether a lane keeps this leaf of its model: all but integers."""
    return _is_float(leaf) or not _is_shape(leaf)


def _shown(given: Any) -> str:
    if isinstance(given, tuple):
        return f"{len(given)} values"
    shape = getattr(given, "shape", None)
    return type(given).__name__ if shape is None else f"{given.dtype} of shape {shape}"
