"""User-defined models as one vector of parameters, and how they are called and traced."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.config.study import EDITION
from sweeper.config.user_code import load_function
from sweeper.config.user_errors import RAISED
from sweeper.models.decay import DEFAULT, Decay
from sweeper.models.keys import fixed_key, key_of
from sweeper.models.layer_loop import Workspace
from sweeper.models.mlp import AnyArray
from sweeper.models.network import Network, Traced, Vector, VectorLayout
from sweeper.models.stateful import (
    StateArrays,
    StatefulModel,
    arrays_of,
    as_model,
    signature_of,
    state_of,
    train_one,
    without_state,
)
from sweeper.models.traces import Trace, trace
from sweeper.trial import Scalar

KEY = jax.eval_shape(fixed_key)
"""A stand-in for a random key in calls that are only traced."""


def draws_parameters(built: Trace) -> bool:
    """Whether some parameter of a model depends on the key that its builder gets."""
    arrays = [a for a in jax.tree.leaves(built.result) if isinstance(a, jax.ShapeDtypeStruct)]
    drawn = zip(arrays, built.depends_on_key(), strict=True)
    return any(depends and jnp.issubdtype(array.dtype, jnp.floating) for array, depends in drawn)


def takes_key(model: Callable[..., Any]) -> bool:
    """Whether a model accepts a `key` for its draws in training."""
    return "key" in signature_of(model).parameters


def passes_key(model: Callable[..., Any], x: jax.ShapeDtypeStruct) -> bool:
    """Whether training passes `key`: `__call__` names it, or its `**kwargs` accept it."""
    kinds = [parameter.kind for parameter in signature_of(model).parameters.values()]
    if takes_key(model) or inspect.Parameter.VAR_KEYWORD not in kinds:
        return takes_key(model)
    try:
        trace(with_key, KEY, model, x)
    except RAISED:
        return False
    return True


def with_key(key: Any, model: Any, x: Any) -> Any:
    """The outputs for one example in training, for a model that gets a key."""
    return train_one(model, x, key=key)


def without_key(_key: Any, model: Any, x: Any) -> Any:
    """The outputs for one example in training, for a model that gets no key."""
    return train_one(model, x)


def differs_in_training(model: Any, x: jax.ShapeDtypeStruct) -> bool:
    """Whether a model that gets no key computes something else in training."""
    in_inference = eqx.nn.inference_mode(model)
    return not trace(without_key, KEY, model, x).is_like(trace(without_key, KEY, in_inference, x))


def evaluated(model: Any, x: Any) -> Any:
    """The outputs for one example outside of training: without a key, and as in inference."""
    return call_without_key(eqx.nn.inference_mode(model), x)


def call_without_key(model: Any, x: Any) -> Any:
    """The outputs for one example of a model that may take a key."""
    return model(x, key=None) if takes_key(model) else model(x)


Outputs = Callable[[list[Any], Any], Any]
"""Of a model's arrays, and of examples; compiled."""


def each_of(
    model: Any, shared: dict[Any, Outputs] | None = None
) -> Callable[[Float[AnyArray, "rows features"]], Any]:
    """A function for the outputs of each example, compiled once per number of examples.

    JAX only sees the model's arrays: its static fields may not be hashable. Models that are given
    the same dictionary as `shared` and are equal but for the values of their arrays share what is
    compiled.
    """
    leaves, structure = jax.tree.flatten(model)
    arrays = [leaf for leaf in leaves if eqx.is_array(leaf)]
    # 1 and 1.0 are equal, but not the same to a model
    others = tuple(None if eqx.is_array(leaf) else (type(leaf), leaf) for leaf in leaves)
    outputs = _outputs(structure, others)
    if shared is not None:
        with suppress(TypeError, ValueError):  # what cannot be hashed or compared is not shared
            outputs = shared.setdefault((structure, others), outputs)
    return lambda x: outputs(arrays, x)


def _outputs(structure: Any, others: tuple[tuple[type, Any] | None, ...]) -> Outputs:
    """The outputs of each example, of a model whose arrays are given; `others` are its leaves."""

    @jax.jit
    def outputs(arrays: list[Any], x: Any) -> Any:
        given = iter(arrays)
        leaves = [next(given) if other is None else other[1] for other in others]
        own = jax.tree.unflatten(structure, leaves)
        return jax.vmap(lambda x: evaluated(own, x))(x)

    return outputs


@dataclass(frozen=True)
class UserNetwork(Network):
    """What `function` builds with `arguments`.

    Its parameters are the arrays of floating-point numbers, in the precision of the study. Other
    arrays are the same for every trial: those that the function builds with `fixed_key`. Under
    edition 1 a model whose `__call__` does not name `key` trains as in inference.

    `at_run_time` names floats among the arguments that a program gets for each lane; their values
    in `arguments` only serve to tell parameters from numbers, which are never trained. The function
    runs again wherever the model is used, so that such a number may be anywhere in it.

    If the function returns a model and its `eqx.nn.State`, the floats in the state have the
    precision of the study too.
    """

    function: str
    base_dir: Path
    arguments: tuple[tuple[str, Scalar], ...]
    in_size: int
    out_size: int
    dtype: str
    decay: Decay = DEFAULT
    edition: int = EDITION
    at_run_time: tuple[str, ...] = ()

    @property
    def vector(self) -> VectorLayout:
        return self._vector

    @cached_property
    def _vector(self) -> VectorLayout:
        return VectorLayout.by_decay(self._abstract[0], self.dtype, self.decay)

    @property
    def has_fixed_start(self) -> bool:
        """Whether the initial parameters are the same for every key."""
        return not draws_parameters(trace(lambda key: self.built(key)[0], KEY))

    @property
    def needs_keys(self) -> bool:
        if self._passes_key or self.state is not None:
            return self._passes_key
        return self.edition > 1 and self._differs_in_training

    @property
    def state(self) -> StateArrays | None:
        return self._abstract[2]

    def initial(self, settings: Settings, rng: np.random.Generator) -> NDArray[Any]:
        return np.asarray(self._initial(*self._start(settings, rng)))

    def initial_state(self, settings: Settings, rng: np.random.Generator) -> PyTree:
        if self.state is None:
            return None
        return jax.tree.map(np.asarray, self._initial_state(*self._start(settings, rng)))

    @property
    def fixed_state(self) -> PyTree:
        """The state before training of a model with fixed weights; None if it has none."""
        return None if self.state is None else self._initial_state(fixed_key(), {})

    def _start(
        self, settings: Settings, rng: np.random.Generator
    ) -> tuple[PRNGKeyArray, Mapping[str, Any]]:
        """The key of a trial's fresh model, and its values of arguments."""
        words = rng.integers(0, 2**32, 2, np.uint32)
        own: Any = settings.model
        values = {name: np.asarray(own.arguments[name], self.dtype) for name in self.at_run_time}
        return key_of(words), values

    def outputs(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        workspace: Workspace | None = None,
    ) -> tuple[Float[Array, "batch out"], None]:
        model: Any = self.model(parameters, traced)
        if keys is None:
            return jax.vmap(lambda x: evaluated(model, x))(x).astype(self.dtype), None
        call = with_key if self._passes_key else without_key
        return jax.vmap(lambda x, key: call(key, model, x))(x, keys).astype(self.dtype), None

    def evaluate_with(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        state: PyTree,
    ) -> Float[Array, "batch out"]:
        if state is None:
            return self.outputs(parameters, x, traced)[0]
        model: Any = self.model(parameters, traced).with_state(state)
        return jax.vmap(lambda x: evaluated(model, x))(x).astype(self.dtype)

    def train_with(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        state: PyTree,
        keys: PRNGKeyArray | None = None,
    ) -> tuple[Float[Array, "batch out"], PyTree]:
        model: Any = self.model(parameters, traced).with_state(state)
        outputs, after = model.train(x, keys)
        return outputs.astype(self.dtype), arrays_of(after)

    def model(self, parameters: Vector | None = None, traced: Traced | None = None) -> Any:
        """The model in Equinox; it contains the shapes of its state, if it has one."""
        own = self._own(parameters, traced)
        return own if self.state is None else StatefulModel(own, state_of(self.state))

    def _own(self, parameters: Vector | None, traced: Traced | None) -> Any:
        """The same without its state."""
        if parameters is None:
            return eqx.combine(*self._abstract[:2])
        if not self.at_run_time:
            return eqx.combine(self.vector.tree(parameters), self._rest)
        assert traced is not None, "only programs have such models"
        values = {name: traced[f"model.{name}"] for name in self.at_run_time}
        fresh = without_state(self._fresh(fixed_key(), values))
        trees = self.vector.tree(parameters), eqx.filter(self._rest, eqx.is_array), fresh
        found = (
            next((leaf for leaf in several if leaf is not None), None)
            for several in zip(*map(_places, trees), strict=True)
        )
        return jax.tree.unflatten(jax.tree.structure(fresh, is_leaf=_is_none), found)

    def built(self, key: PRNGKeyArray) -> tuple[PyTree, PyTree, StateArrays | None]:
        """The parameters of a fresh model, the rest of it, and its state."""
        fresh = self._fresh(key, {})
        parts = eqx.partition(without_state(fresh), _is_parameter)
        return *parts, arrays_of(fresh.state) if isinstance(fresh, StatefulModel) else None

    def _fresh(self, key: PRNGKeyArray, values: Mapping[str, Any]) -> Any:
        """A fresh model with other `values` of some arguments, and its state."""
        function = load_function(self.function, self.base_dir)
        sizes = {"in_size": self.in_size, "out_size": self.out_size}
        return as_model(function(**sizes, **{**dict(self.arguments), **values}, key=key))

    @cached_property
    def _passes_key(self) -> bool:
        model: Any = self.model()
        return takes_key(model) if self.edition == 1 else passes_key(model, self._example)

    @cached_property
    def _differs_in_training(self) -> bool:
        return differs_in_training(self.model(), self._example)

    @property
    def _example(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((self.in_size,), jnp.dtype(self.dtype))

    @cached_property
    def _abstract(self) -> tuple[PyTree, PyTree, StateArrays | None]:
        parameters, rest, state = eqx.filter_eval_shape(lambda: self.built(fixed_key()))
        dtype = jnp.dtype(self.dtype)

        def in_precision(leaf: Any) -> jax.ShapeDtypeStruct:
            is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
            return jax.ShapeDtypeStruct(leaf.shape, dtype if is_float else leaf.dtype)

        return jax.tree.map(in_precision, parameters), rest, jax.tree.map(in_precision, state)

    @cached_property
    def _rest(self) -> PyTree:
        """Everything in the model except its parameters."""
        rest = self._abstract[1]
        if not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(rest)):
            return rest
        with jax.ensure_compile_time_eval():  # a program may be in tracing when this is called
            return eqx.filter_jit(lambda: self.built(fixed_key())[1])()

    @cached_property
    def _initial(
        self,
    ) -> Callable[[PRNGKeyArray, Mapping[str, Any]], Float[Array, " parameters"]]:
        """The vector of a fresh model; compiled, because building it op by op takes seconds."""

        def initial(key: PRNGKeyArray, values: Mapping[str, Any]) -> Float[Array, " parameters"]:
            fresh = without_state(self._fresh(key, values))
            pairs = zip(*map(_places, (self.vector.shapes(), fresh)), strict=True)
            leaves = [leaf for shape, leaf in pairs if shape is not None]
            raveled = [jnp.ravel(leaves[at]).astype(self.dtype) for at in self.vector.order]
            return jnp.concatenate([*raveled, jnp.zeros(0, self.dtype)])

        return jax.jit(initial)

    @cached_property
    def _initial_state(self) -> Callable[[PRNGKeyArray, Mapping[str, Any]], StateArrays]:
        """The state of a fresh model that has one, compiled."""

        def initial(key: PRNGKeyArray, values: Mapping[str, Any]) -> StateArrays:
            state = arrays_of(self._fresh(key, values).state)
            return jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), state, self.state)

        return jax.jit(initial)


def _places(tree: PyTree) -> list[Any]:
    """The leaves of a model, or of a part of it in which the others are None."""
    return jax.tree.leaves(tree, is_leaf=_is_none)


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _is_parameter(leaf: Any) -> bool:
    return eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating)


# errors of JAX for traced values
UNTRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
_HINTS: dict[type[BaseException], str] = {
    jax.errors.TracerBoolConversionError: "choose with jnp.where or jax.lax.cond",
    jax.errors.TracerArrayConversionError: "use jnp instead of np",
}
_OTHERS = "do not convert traced values to Python numbers: no float(), int() or range() of them"


def hint_of(error: BaseException, otherwise: str) -> str:
    """What to write instead of the code that raised `error`."""
    return _HINTS.get(type(error), _OTHERS) if isinstance(error, UNTRACEABLE) else otherwise
