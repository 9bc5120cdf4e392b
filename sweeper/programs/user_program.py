"""`module:Class`: a user-defined program, which updates the model in any way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from sweeper.config import Settings
from sweeper.config.train import UserProgramTable
from sweeper.config.user_code import keywords_of, load_class
from sweeper.models.keys import key_like, key_of
from sweeper.models.network import Network
from sweeper.programs.optax_state import parameters_of, plain_optimizer
from sweeper.programs.parts import OfParts, end_step
from sweeper.programs.program import (
    AnyArray,
    Batch,
    LaneParameters,
    Metrics,
    State,
    measured_parameters,
)
from sweeper.trial import words

_OF_INIT, _OF_STEPS = slice(0, 2), slice(2, 4)  # the two keys in a lane's words


class UserProgram(Protocol):
    """The interface of a class that a study names as its `train.program`.

    An instance is created with the keys of `[train]` that are not settings, by name; floats among
    them are traced, as arrays without dimensions. Arguments named `in_size`, `out_size`, `y_mean`
    and `y_scale` are passed too, unless they are such keys: `y * y_scale + y_mean`, with one number
    per target, is in the data's own units. `optimizer` is that of `[optimizer]` with the numbers of
    the trial, for the arrays of the model, `eqx.filter(model, eqx.is_inexact_array)`. The methods
    are compiled: they must not print, read a clock, or branch on traced values.
    """

    def init(
        self, model: Any, optimizer: optax.GradientTransformation, key: PRNGKeyArray
    ) -> tuple[Any, PyTree]:
        """The model and its training state before the first step.

        `model` is that of `[model]` with fresh weights. The state is any PyTree of arrays, such as
        `optimizer.init(eqx.filter(model, eqx.is_inexact_array))`, and anything else that steps
        need.
        """
        ...

    def step(
        self,
        model: Any,
        opt_state: PyTree,
        batch: Batch,
        optimizer: optax.GradientTransformation,
        key: PRNGKeyArray,
    ) -> tuple[Any, PyTree, Float[Array, ""]]:
        """Both after one update, and the loss, whose mean over the epoch is reported.

        `batch.x` is shaped (rows, features), `batch.y` (rows,) for classes, else (rows, targets);
        features are scaled as in `[data]`, and so are targets that are numbers: to mean 0 and
        deviation 1, unless `data.target_scale` is "none". `key` is different in each step.
        """
        ...

    def evaluate(self, model: Any, data: Batch) -> dict[str, Float[Array, ""]]:
        """The loss of `data`, called "loss", and each of `train.metrics`, by name."""
        ...


_OF_DATA = ("in_size", "out_size", "y_mean", "y_scale")


def taken_of_data(program: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments of a user's class that come from the data."""
    named, _ = keywords_of(program)
    return tuple(name for name in _OF_DATA if name in named)


@dataclass(frozen=True)
class UserDefined(OfParts):
    """Trains with a user-defined class; see `Program` and, for the class, `UserProgram`.

    The state of a lane contains the arrays of the model one by one, as the user's functions take
    and return them; nothing is padded, since a program may use them in any way.
    """

    @property
    def network(self) -> Network:
        """The only part of the model."""
        return self.parts.by_name[""]

    def fresh(self, number: int, settings: Settings, replicate: int) -> State:
        fresh = super().fresh(number, settings, replicate)
        return replace(fresh, model={"": (*self.network.vector.leaves(fresh.model[""]),)})

    def lane(self, number: int, settings: Settings, replicate: int = 0) -> LaneParameters:
        key = words(self.data.seed, "program", number, replicate)
        return LaneParameters.of(self._hparams(settings), {}, key, self.data.dtype)

    def model(self, state: State) -> Any:
        structure = jax.tree.structure(self.network.vector.shapes())
        return eqx.combine(jax.tree.unflatten(structure, state.model[""]), self._rest)

    def opt_state(self, state: State, settings: Settings) -> PyTree[AnyArray]:
        return state.optimizer

    def with_model(self, state: State, model: PyTree[AnyArray]) -> State:
        arrays = (np.asarray(leaf, self.data.dtype) for leaf in jax.tree.leaves(model))
        return replace(state, model={"": (*arrays,)})

    def with_opt_state(
        self, state: State, opt_state: PyTree[AnyArray], saved: Settings, settings: Settings
    ) -> State:
        return replace(state, optimizer=opt_state)

    def begun(self, state: State, lane: LaneParameters) -> State:
        model, opt_state = self.begun_by_user(state, lane)
        arrays = (*map(jnp.asarray, jax.tree.leaves(parameters_of(model))),)
        state = replace(state, model={"": arrays})
        return self.epochs.begin(state, _arrays(opt_state), self.data.dtype)

    def step(
        self, state: State, batch: Batch, lane: LaneParameters, epoch: Int[Array, ""]
    ) -> tuple[State, Metrics]:
        model, opt_state, loss = self.stepped_by_user(state, batch, lane)
        arrays = (*jax.tree.leaves(parameters_of(model)),)
        moved = replace(state, model={"": arrays}, optimizer=_arrays(opt_state))
        return end_step(moved, lane), (loss,)

    def evaluate(self, state: State, data: Batch, lane: LaneParameters) -> Metrics:
        given = self.evaluated_by_user(state, data, lane)
        dtype = data.x.dtype
        return tuple(jnp.asarray(given[name], dtype) for name in ("loss", *self._train.metrics))

    def begun_by_user(self, state: State, lane: LaneParameters) -> Any:
        """The result of the user's `init`."""
        model = self.model(state)
        return self._program(lane).init(model, self._optimizer(lane), key_of(lane.key[_OF_INIT]))

    def stepped_by_user(self, state: State, batch: Batch, lane: LaneParameters) -> Any:
        """The result of the user's `step`."""
        key = jax.random.fold_in(key_of(lane.key[_OF_STEPS]), state.step)
        begun = self._begun
        opt_state = eqx.combine(_with_keys(state.optimizer, begun.arrays), begun.constants)
        model, optimizer = self.model(state), self._optimizer(lane)
        return self._program(lane).step(model, opt_state, batch, optimizer, key)

    def evaluated_by_user(self, state: State, data: Batch, lane: LaneParameters) -> Any:
        """The result of the user's `evaluate`."""
        model = self.model(replace(state, model=measured_parameters(state)))
        return self._program(lane).evaluate(model, data)

    @property
    def model_constants(self) -> PyTree:
        """The parts of the model that are not arrays, which are the same in each step."""
        return eqx.filter(self._rest, eqx.is_array, inverse=True)

    @property
    def state_constants(self) -> PyTree:
        """The parts of the user's state that are not arrays, which are the same in each step."""
        return self._begun.constants

    def _program(self, lane: LaneParameters) -> UserProgram:
        """The user's program with the numbers of a lane."""
        hparams, arguments = lane.hparams, self._train.arguments
        lane_arguments = {key: hparams.get(f"train.{key}", own) for key, own in arguments.items()}
        return self._class(**{**self._of_data, **lane_arguments})

    def _optimizer(self, lane: LaneParameters) -> optax.GradientTransformation:
        return plain_optimizer(self.settings, lane.hparams, self.network)

    @property
    def _train(self) -> UserProgramTable:
        assert isinstance(self.settings.train, UserProgramTable)
        return self.settings.train

    @cached_property
    def _class(self) -> Callable[..., UserProgram]:
        return load_class(self._train.program, self.settings.base_dir)

    @cached_property
    def _of_data(self) -> Mapping[str, Any]:
        """The arguments of the class that come from the data."""
        data = self.data
        units = {
            name: np.asarray(getattr(data, name), data.dtype) for name in ("y_mean", "y_scale")
        }
        known = {"in_size": data.in_size, "out_size": data.out_size, **units}
        return {name: known[name] for name in taken_of_data(self._class)}

    @cached_property
    def _rest(self) -> PyTree:
        """The parts of the model that are not parameters."""
        blank = np.zeros(self.network.vector.n_parameters, self.data.dtype)
        with jax.ensure_compile_time_eval():  # this is called while a program is traced
            return eqx.filter(self.network.model(blank), eqx.is_inexact_array, inverse=True)

    @cached_property
    def _abstract(self) -> State:
        return self._begun.state

    @cached_property
    def _begun(self) -> _Begun:
        lane = self.lane(0, self.settings)

        def fresh(arrays: PyTree) -> tuple[State, PyTree, PyTree]:
            state = State({"": arrays}, None, jnp.zeros((), jnp.int32))  # type: ignore[arg-type]
            _, opt_state = self.begun_by_user(state, lane)
            return self.begun(state, lane), *eqx.partition(opt_state, eqx.is_array)

        arrays = (*jax.tree.leaves(self.network.vector.shapes()),)
        return _Begun(*eqx.filter_eval_shape(fresh, arrays))


class _Begun(NamedTuple):
    """Shapes and dtypes of a lane's state, and of its user-defined part before the first step.

    `constants` are parts of it that are not arrays, such as functions.
    """

    state: State
    arrays: PyTree
    constants: PyTree


def _arrays(opt_state: PyTree) -> PyTree[Array]:
    """Its arrays with fixed types, and keys as words, which can be written to disk."""

    def plain(leaf: Array) -> Array:
        if _is_key(leaf):
            return jax.random.key_data(leaf)
        return jax.lax.convert_element_type(leaf, leaf.dtype)  # without weak types

    return jax.tree.map(plain, eqx.filter(opt_state, eqx.is_array))


def _with_keys(arrays: PyTree[Array], like: PyTree) -> PyTree[Array]:
    """The result of `_arrays`, with keys restored as in `like`."""
    return jax.tree.map(
        lambda was, leaf: key_like(was, leaf) if _is_key(was) else leaf, like, arrays
    )


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
