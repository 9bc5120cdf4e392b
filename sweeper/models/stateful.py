"""User-defined models whose layers have a state, such as BatchNorm, and how they are called.

Equinox keeps the state outside of the model. `eqx.nn.make_with_state` returns both, and the model
maps an example and the state to outputs and the next state, which is the same for all examples.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from sweeper.config.user_code import describe_object
from sweeper.models.adapters import adapted
from sweeper.models.mlp import AnyArray

BATCH = "batch"
"""The axis over the examples of a batch, for layers that combine them."""

StateArrays = OrderedDict[str, Any]
"""The content of an `eqx.nn.State` in its order, by the names that `make_with_state` gives."""


class NotPairError(TypeError):
    """A model with state did not return its outputs and its next state."""


class StatefulModel(eqx.Module):
    """A model with its state. Calling it gives the outputs for one example, as in inference."""

    model: Any
    state: eqx.nn.State

    def __call__(self, x: Float[AnyArray, " features"], **named: Any) -> Any:
        """The outputs for one example; the state does not change."""
        return _called(eqx.nn.inference_mode(self.model), x, _copy(self.state), named)[0]

    def train(
        self, x: Float[AnyArray, "batch features"], keys: PRNGKeyArray | None = None
    ) -> tuple[Any, eqx.nn.State]:
        """The outputs for each example of a batch in training, and the next state.

        `keys`, one per example, are for models that draw.
        """

        def one(x: Any, state: Any, key: Any) -> Any:
            return _called(self.model, x, state, {} if key is None else {"key": key})

        return _over_batch(one, (0, None, 0))(x, self.state, keys)

    def train_one(self, x: Float[AnyArray, " features"], **named: Any) -> Any:
        """The outputs for the only example of a batch in training."""

        def one(x: Any, state: Any) -> Any:
            return _called(self.model, x, state, named)

        return jax.tree.map(lambda out: out[0], _over_batch(one, (0, None))(x[None], self.state)[0])

    def with_state(self, arrays: StateArrays) -> StatefulModel:
        """The model with another state."""
        return StatefulModel(self.model, state_of(arrays))


def as_model(built: Any) -> Any:
    """The model that a user's function returned, with its state if the function returned both.

    Models of Flax and Haiku become Equinox modules.

    Raises:
        UnadaptableError: it is such a model, but cannot be trained.
    """
    if not (isinstance(built, tuple) and len(built) == 2 and isinstance(built[1], eqx.nn.State)):
        return adapted(built)
    return StatefulModel(built[0], jax.tree.map(_with_own_type, built[1]))


def without_state(model: Any) -> Any:
    """The model alone, as the user wrote it."""
    return model.model if isinstance(model, StatefulModel) else model


def arrays_of(state: eqx.nn.State) -> StateArrays:
    """The content of a state."""
    values, names = state.tree_flatten()
    return OrderedDict(zip(cast(tuple[str, ...], names), values, strict=True))


def state_of(arrays: StateArrays) -> eqx.nn.State:
    """The state with this content."""
    return eqx.nn.State.tree_unflatten(tuple(arrays), tuple(arrays.values()))


def signature_of(model: Callable[..., Any]) -> inspect.Signature:
    """The signature of a model's call, without its state."""
    signature = inspect.signature(without_state(model))
    if not isinstance(model, StatefulModel):
        return signature
    parameters = [*signature.parameters.values()]
    return signature.replace(parameters=[*parameters[:1], *parameters[2:]])


def train_one(model: Any, x: Float[AnyArray, " features"], **named: Any) -> Any:
    """The outputs of any model for one example in training."""
    return model.train_one(x, **named) if isinstance(model, StatefulModel) else model(x, **named)


def _over_batch(one: Callable[..., Any], in_axes: tuple[int | None, ...]) -> Callable[..., Any]:
    return jax.vmap(one, in_axes=in_axes, out_axes=(0, None), axis_name=BATCH)


def _called(model: Any, x: Any, state: eqx.nn.State, named: Any) -> tuple[Array, eqx.nn.State]:
    """The outputs for one example and the next state.

    Raises:
        NotPairError: the model returns something else.
    """
    names, found = tuple(arrays_of(state)), model(x, state, **named)
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], eqx.nn.State)):
        raise NotPairError(f"__call__ returned {describe_object(found)}, not (outputs, state)")
    if tuple(arrays_of(found[1])) != names:
        raise NotPairError("__call__ returned the state of a part of the model")
    return found


def _copy(state: eqx.nn.State) -> eqx.nn.State:
    """The same state, since `State.set` makes the one that it changes unusable."""
    return jax.tree.map(lambda leaf: leaf, state)


def _with_own_type(leaf: Array) -> Array:
    """The array as after reading it from a file: not of the weak type of a Python number."""
    return leaf.astype(leaf.dtype) if jnp.issubdtype(leaf.dtype, jnp.number) else leaf
