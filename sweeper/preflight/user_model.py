"""Checks that a user-defined model can be trained on a study's data, before it starts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sweeper.config import StudyConfig
from sweeper.config.alternating import AlternatingTable
from sweeper.config.coupled import CoupledTable
from sweeper.config.kinds import is_function
from sweeper.config.model import MixedTable, PartsTable, PythonTable
from sweeper.config.refusals import missing
from sweeper.config.rules import sizes_of_parts
from sweeper.config.search import SearchEntry, ends
from sweeper.config.table import Flaw
from sweeper.config.train import SupervisedTable
from sweeper.config.user_code import (
    Function,
    LoadError,
    describe_object,
    keywords_of,
    load_function,
    missing_argument,
)
from sweeper.config.user_errors import RAISED
from sweeper.errors import Problem, StudyError
from sweeper.models.adapters import (
    INSTEAD,
    NnxModel,
    UnadaptableError,
    unkept,
)
from sweeper.models.stateful import (
    StatefulModel,
    arrays_of,
    as_model,
    without_state,
)
from sweeper.models.traces import Trace, trace
from sweeper.models.user_network import (
    KEY,
    draws_parameters,
    evaluated,
    takes_key,
    with_key,
)
from sweeper.preflight.model_hints import hint_about_building, hint_about_call, meant_as_key
from sweeper.preflight.trace_checks import (
    fixed_arrays,
    fixed_draws,
    shared_arrays,
    unlike_in_training,
)
from sweeper.preflight.user_functions import Wrong, check_builder, raised
from sweeper.trial import Scalar

# arguments that the function gets besides the keys of [model]
_GIVEN = ("in_size", "out_size", "key")


def check_model(config: StudyConfig, in_size: int, out_size: int) -> tuple[str, ...]:
    """Refuse a user-defined model that cannot be trained on this data, and return warnings.

    Each is traced with the values as written, then with the ends of each searched one; nothing is
    computed. Problems that an older edition accepted are warnings in studies of that edition.

    Raises:
        StudyError: the function does not exist, does not accept its arguments, its result is not a
        model with the right sizes, or training differs from what the model says.
    """
    problems: list[Problem] = []
    warnings: list[str] = []
    for check in model_checks(config, in_size, out_size):
        problems += check.problems()
        warnings += [f"{check.key}.function: {warning}" for warning in check.warnings]
    if problems:
        raise StudyError(problems)
    return tuple(warnings)


def model_checks(config: StudyConfig, in_size: int, out_size: int) -> Iterator[ModelCheck]:
    """The checks of all functions of a study that build models."""
    if not isinstance(config.model, PartsTable):
        if "python" in config.kinds:
            yield ModelCheck(config, "model", in_size, out_size)
        return
    train = config.train
    assert isinstance(train, AlternatingTable | CoupledTable)
    is_called = isinstance(train, AlternatingTable) or not is_function(train.objective)
    sizes = sizes_of_parts(config.model, train, in_size, out_size)
    for name, part in config.model.parts.items():
        if isinstance(part, PythonTable):
            yield ModelCheck(config, f"model.{name}", *sizes[name], is_called)


@dataclass(slots=True)
class ModelCheck:
    """The check of the models that one function builds; `warnings` are complete at the end.

    `key` is the table that names the function, for `model` or one of its parts. `is_called` says
    whether a built-in program calls the model: then it gets one example, and in training a key.
    """

    config: StudyConfig
    key: str
    in_size: int
    out_size: int
    is_called: bool = True
    warnings: list[str] = field(default_factory=list[str])
    _has_fixed_start: bool = False  # some model that was built

    def problems(self) -> list[Problem]:
        """What is wrong with the function and with its models."""
        config, table = self.config, self.table_with({})
        try:
            function = load_function(table.function, config.base_dir)
        except LoadError as error:
            problem = config.problem(f"{self.key}.function", error.found, error.hint)
            raise StudyError(problem) from error.__cause__
        if wrong := check_builder(table.function, function, "a model", ["in_size"]):
            return [config.problem(f"{self.key}.function", *wrong)]
        if problems := [*_unfit_arguments(config, function, table, self.key)]:
            return problems
        for name in self._never_given(function):
            found, hint = _built_in(table, self.key, name)
            self._warn(f"{found}, so it always has its default", hint)
        return [*self._unfit_models(function)]

    def _never_given(self, function: Function) -> list[str]:
        """Its arguments that are called like a setting which only other kinds of models use."""
        model = self.config.model
        if not isinstance(model, MixedTable):
            return []
        drawn = {key.partition(".")[2] for key in (*self.config.search, *self.config.same_as)}
        of_others = MixedTable.model_fields.keys() - PythonTable.model_fields.keys()
        used = of_others & (drawn | model.model_fields_set)
        return [name for name in keywords_of(function)[0] if name in used]

    def _unfit_models(self, function: Function) -> Iterator[Problem]:
        """What is wrong with a model, first with the values as written, then with others."""
        config, key = self.config, self.key
        if found := self._unfit_model(function, {}):
            yield config.problem(f"{key}.function", *found)
            return
        for name, entry in self.splitting():
            for value in ends(entry):
                if found := self._unfit_model(function, {entry.column(name): value}):
                    setting = name.removeprefix(f"{key}.")
                    yield config.problem(
                        f"search.{name}", f"with {setting} = {value!r}, {found[0]}", found[1]
                    )
                    break
        table = self.table_with({})
        # the file of a trial names all settings, whether they have an effect or not
        if table.fixed_start and not self._has_fixed_start and config.trial is None:
            found = f"'{table.function}' returns other initial weights for every key"
            self._warn(f"fixed_start = true changes nothing: {found}", "remove it")

    def splitting(self) -> Iterator[tuple[str, SearchEntry]]:
        """The searched settings of the table that need different programs."""
        kind = "parts" if isinstance(self.config.model, PartsTable) else "python"
        for name, entry in self.config.search.items():
            if name.startswith(f"{self.key}.") and self.config.splits(name, kind):
                yield name, entry

    def _unfit_model(self, function: Function, params: Mapping[str, Scalar]) -> Wrong | None:
        """What was found and how to fix it; None if such a model can be trained."""
        table, given = self.table_with(params), self.given(params)
        dtype = jax.dtypes.canonicalize_dtype(self.config.execution.precision)
        x = jax.ShapeDtypeStruct((self.in_size,), dtype)
        try:
            built = trace(lambda key: as_model(function(**given, key=key)), KEY)
        except UnadaptableError as error:
            return f"'{table.function}' returns {error.found}", error.hint
        except RAISED as error:
            if type(error).__name__ == "NonEmptyStateError":  # it advises to keep the state
                found = f"'{table.function}' transforms layers whose state changes in training"
                return f"{found}, which is not kept", INSTEAD
            hint = hint_about_building(error) or "fix the function"
            return raised(f"'{table.function}'", error, hint)
        model = built.result
        wrong = check_result(table.function, model) or self._unfit_state(table.function, model)
        if wrong:
            return wrong
        if self.is_called and (wrong := _unfit_outputs(model, x, self.out_size)):
            return wrong
        if wrong := _unfit_arrays(model):
            return wrong
        for warning in (
            *shared_arrays(table.function, built),
            *fixed_arrays(table.function, built),
        ):
            self._warn(*warning)
        for warning in self._single_rows(model):
            self._warn(*warning)
        for warning in fixed_draws(model, x) if self.is_called else ():
            self._warn(*warning)
        for wrong in self._unlike_what_it_says(table, built, x):
            if self.config.edition > 1:
                return wrong
            self._warn(*wrong)
        return None

    def _unfit_state(self, name: str, model: Any) -> Wrong | None:
        """What is wrong with the state of a model, if it has one."""
        if not isinstance(model, StatefulModel):
            return None
        if isinstance(self.config.train, SupervisedTable):
            return check_state(name, model)
        layers = ", ".join(stateful_layers(model))
        return (
            f"'{name}' returns a model with state that changes in training ({layers}), which only "
            "the program 'supervised' supports",
            "use layers without eqx.nn.State: LayerNorm, GroupNorm or RMSNorm instead of "
            "BatchNorm, WeightNorm instead of SpectralNorm",
        )

    def _single_rows(self, model: Any) -> Iterator[Wrong]:
        """Batches of one row in which BatchNorm normalises each number by itself."""
        is_one = 1 in (self.config.drawn_values("train.batch_size") or ())
        if is_one and "eqx.nn.BatchNorm" in stateful_layers(model):
            found = "in a batch of one row, BatchNorm returns its bias for every row of a table"
            yield found, "use a train.batch_size of at least 2"

    def _unlike_what_it_says(
        self, table: PythonTable, built: Trace, x: jax.ShapeDtypeStruct
    ) -> Iterator[Wrong]:
        """Cases in which training silently differs from what the model says."""
        model = built.result
        if not built.repeats():
            yield (
                f"'{table.function}' builds a different model each time with the same key",
                "draw only with the given key: jax.random, not NumPy, random, a clock, a process "
                "id or a global variable",
            )
            return
        if self.is_called:
            yield from unlike_in_training(model, x)
        if draws_parameters(built):
            return
        self._has_fixed_start = True
        if not table.fixed_start:
            found = f"'{table.function}' returns the same initial weights for every key"
            hint = "draw them with the given key, or write fixed_start = true if that is intended"
            if self.config.study.replicates > 1:
                found += ", so replicates only differ in the order of the data"
                yield found, hint
            else:
                self._warn(f"{found}, so every trial starts from them", hint)

    def _warn(self, found: str, hint: str) -> None:
        if (warning := f"{found}; {hint}") not in self.warnings:
            self.warnings.append(warning)

    def given(self, params: Mapping[str, Scalar]) -> dict[str, Any]:
        """The arguments of the function besides the key, for a trial with `params`."""
        sizes = {"in_size": self.in_size, "out_size": self.out_size}
        return {**sizes, **self.table_with(params).arguments}

    def table_with(self, params: Mapping[str, Scalar]) -> PythonTable:
        """The table for a trial with `params` whose model the function builds."""
        model: Any = self.config.settings_of({**params, **self.config.params_of("python")}).model
        if isinstance(model, PartsTable):
            model = model.parts[self.key.removeprefix("model.")]
        assert isinstance(model, PythonTable)
        return model


def _unfit_arguments(
    config: StudyConfig, function: Function, table: PythonTable, holder: str
) -> Iterator[Problem]:
    """Keys of the table `holder` that the function does not accept, and missing ones."""
    named, is_open = keywords_of(function)
    meant = None if "key" in named else meant_as_key(named, table.arguments, is_open)
    own = [name for name in named if name not in (*_GIVEN, meant)]
    taken = [*named]
    if meant is not None:
        taken.append("key")
        found = f"'{table.function}' has an argument '{meant}' instead of 'key'"
        yield config.problem(f"{holder}.function", found, f"rename '{meant}' to 'key'")
    for name in _GIVEN:
        if name in table.arguments:
            found, hint = f"'{table.function}' always gets '{name}'", "give yours another name"
            yield config.problem(_key(config, holder, name), found, hint)
        elif name not in taken and not is_open:
            own_name = table.function.rpartition(":")[2]
            hint = f"write def {own_name}({', '.join([*_GIVEN, *own])})"
            found = f"'{table.function}' has no argument '{name}'"
            yield config.problem(f"{holder}.function", found, hint)
    for name in table.arguments:
        if name not in (*named, *_GIVEN) and not is_open:
            found, hint = _not_taken(config, table, holder, name, own)
            yield config.problem(_key(config, holder, name), found, hint)
    for name in own:
        if name not in table.arguments and named[name].default is inspect.Parameter.empty:
            yield config.source.problem(_not_given(config, table, holder, name))


def _not_taken(
    config: StudyConfig, table: PythonTable, holder: str, name: str, own: list[str]
) -> tuple[str, str]:
    near = get_close_matches(name, [*own, *type(config.each("model")[holder]).model_fields], n=1)
    takes = f"its arguments are {', '.join(own)}" if own else "remove it"
    hint = f"did you mean '{holder}.{near[0]}'?" if near else takes
    return f"'{table.function}' has no argument '{name}'", hint


def _not_given(config: StudyConfig, table: PythonTable, holder: str, name: str) -> Flaw:
    key = f"{holder}.{name}"
    if name in type(config.each("model")[holder]).model_fields:
        return Flaw(key, *_built_in(table, holder, name))
    if key in config.search:  # with `when`
        why = f"but '{table.function}' needs it in trials that do not draw it (when)"
        return missing(key, f"write {name} = ... in [{holder}]", why)
    return missing_argument(table.function, holder, name)


def _built_in(table: PythonTable, holder: str, name: str) -> Wrong:
    found = f"'{table.function}' takes '{name}', but does not get {holder}.{name}"
    return f"{found}, a built-in setting", "rename the argument"


def check_result(name: str, model: Any) -> Wrong | None:
    """What is wrong with the result of the function `name`, before it is called; else None."""
    if not isinstance(model, StatefulModel) and (layers := stateful_layers(model)):
        return (
            f"'{name}' returns a model with state that changes in training ({', '.join(layers)}), "
            "but not the state",
            _PAIR,
        )
    model = without_state(model)
    if isinstance(model, NnxModel):  # no float is traced here, so arrays are the function's own
        numbers = zip(model.places, model.numbers, strict=True)
        for error in (unkept(place) for place, one in numbers if not isinstance(one, float)):
            return f"'{name}' returns {error.found}", error.hint
    if not isinstance(model, eqx.Module):
        found = f"'{name}' returns {describe_object(model)}, not an eqx.Module"
        if isinstance(model, type):
            return found, f"make one of it: return {model.__name__}(...)"
        return found, "return an eqx.Module, or a model of Flax or Haiku"
    if not callable(model):
        return f"'{name}' returns a model that cannot be called", "add __call__(self, x)"
    return None


def check_state(name: str, model: StatefulModel) -> Wrong | None:
    """What is wrong with the state that the function `name` returned with its model; else None."""
    kinds = eqx.nn.State | eqx.nn.StateIndex
    nodes = jax.tree.leaves(model.model, is_leaf=lambda node: isinstance(node, kinds))
    if any(isinstance(node, eqx.nn.State) for node in nodes):
        found = f"'{name}' returns a model that holds an eqx.nn.State"
        return found, "pass the state to __call__(self, x, state) instead"
    names, indices = arrays_of(model.state), [one for one in nodes if _is_index(one)]
    if not indices or any(one.marker not in names or jax.tree.leaves(one) for one in indices):
        found = f"'{name}' returns a model and the state of another one, or of a part of it"
        return found, _PAIR
    if not all(isinstance(one.marker, str) for one in indices):
        found = f"'{name}' returns a state that was not made by eqx.nn.make_with_state"
        return found, _PAIR
    return None


_PAIR = "return eqx.nn.make_with_state(Net)(...), where Net is the class of the model"


def _is_index(node: Any) -> bool:
    return isinstance(node, eqx.nn.StateIndex)


def stateful_layers(model: Any) -> tuple[str, ...]:
    """The classes of layers in `model` that keep an `eqx.nn.State`, or that state itself."""
    known = eqx.nn.BatchNorm | eqx.nn.SpectralNorm | eqx.nn.State | eqx.nn.StateIndex
    nodes = jax.tree.leaves(model, is_leaf=lambda node: isinstance(node, known))
    named = [f"eqx.nn.{type(node).__name__}" for node in nodes if isinstance(node, known)]
    layers = [name for name in named if not name.startswith("eqx.nn.State")]
    return tuple(dict.fromkeys(layers or named))


def _unfit_outputs(model: Any, x: jax.ShapeDtypeStruct, out_size: int) -> Wrong | None:
    """What is wrong with its outputs in evaluation and, if it takes a key, in training."""
    try:
        outputs = [trace(lambda _key, model, x: evaluated(model, x), KEY, model, x).result]
        if takes_key(model):
            outputs.append(trace(with_key, KEY, model, x).result)
    except RAISED as error:
        fix = hint_about_call(model, error) or "fix the model, which gets one example at a time"
        return raised("the model", error, fix, f" for one example of shape {x.shape}")
    for output in outputs:
        if (shape := getattr(output, "shape", None)) is None:
            found = f"the model returns {describe_object(output)} for one example"
            return found, f"return an array of shape ({out_size},) only"
        if shape != (out_size,):
            found = f"the model returns outputs of shape {shape} for one example, not ({out_size},)"
            return found, "let its last layer have out_size outputs"
        if not jnp.issubdtype(output.dtype, jnp.floating):
            found = f"the model returns outputs of type {output.dtype}"
            return found, "return floating-point numbers"
    return None


def _unfit_arrays(model: Any) -> Wrong | None:
    kinds = jax.ShapeDtypeStruct | np.ndarray  # both are trained
    arrays = [leaf for leaf in jax.tree.leaves(model) if isinstance(leaf, kinds)]
    if any(jnp.issubdtype(array.dtype, jnp.complexfloating) for array in arrays):
        return "the model has complex parameters", "store real and imaginary parts separately"
    if any(jnp.issubdtype(array.dtype, jax.dtypes.prng_key) for array in arrays):
        found = "the model holds a random key, which cannot be saved"
        hint = "keep jax.random.key_data of a fixed key, or draw with the key that __call__ gets"
        return found, hint
    own = [leaf for leaf in jax.tree.leaves(without_state(model)) if isinstance(leaf, kinds)]
    if not any(jnp.issubdtype(array.dtype, jnp.floating) for array in own):
        return "the model has no parameters to train", "give it floating-point arrays"
    return None


def _key(config: StudyConfig, holder: str, name: str) -> str:
    key = f"{holder}.{name}"
    return f"search.{key}" if key in config.search else key
