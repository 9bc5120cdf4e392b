"""Programs that train a model of several parts: how states are made, cut, padded and saved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from sweeper.config import Settings
from sweeper.models.part_networks import PartNetworks
from sweeper.programs.base import Tabled
from sweeper.programs.data_spec import DataSpec, blank_of
from sweeper.programs.optax_state import Leaves, lane_state, plain_optimizer, plain_state
from sweeper.programs.program import AnyArray, LaneParameters, OfUse, State, whole
from sweeper.programs.schedules import hparams_of, schedule_steps
from sweeper.trial import generator

SettingsOf = Callable[[str, Settings], Settings]
"""The settings of the optimizer of a part."""
Optimizers = Mapping[str, optax.GradientTransformation]


def optimizers_of(
    parts: PartNetworks, data: DataSpec, settings: Settings, settings_of: SettingsOf
) -> dict[str, optax.GradientTransformation]:
    """The optimizer of each part, over the arrays of its model."""
    numbers = settings.traced() | schedule_steps(settings, data)
    hparams = {key: np.asarray(value, data.dtype) for key, value in numbers.items()}
    return {
        part: plain_optimizer(
            settings_of(part, settings), hparams_of(part, hparams, settings), network
        )
        for part, network in parts.networks
    }


def opt_states(
    parts: PartNetworks,
    state: State,
    optimizers: Optimizers,
    settings: Settings,
    settings_of: SettingsOf,
) -> dict[str, PyTree[AnyArray]]:
    """What the states of `optimizers` are in `state`."""
    return {
        part: plain_state(
            settings_of(part, settings),
            optimizer,
            parts.by_name[part],
            state.optimizer[part],
            state.step,
        )
        for part, optimizer in optimizers.items()
    }


def with_model(parts: PartNetworks, state: State, model: Any, dtype: str) -> State:
    """`state` with the arrays of this model as its parameters."""
    vectors = {
        part: Leaves(network).vector(jax.tree.leaves(model.parts[part])).astype(dtype)
        for part, network in parts.networks
    }
    return replace(state, model=vectors)


def with_opt_states(
    parts: PartNetworks,
    state: State,
    opt_state: PyTree[AnyArray],
    saved: Settings,
    settings: Settings,
) -> State:
    """`state` with what `opt_states` gave for a trial of `saved`."""
    moments = {
        part: lane_state(
            saved.of_part(part),
            settings.of_part(part),
            network,
            state.optimizer[part],
            opt_state[part],
        )
        for part, network in parts.networks
    }
    return replace(state, optimizer=moments)


def shapes(
    parts: PartNetworks,
    begin: Callable[[State, LaneParameters], State],
    lane: LaneParameters,
    dtype: str,
) -> State:
    """Shapes and dtypes of the state that `begin` makes of the vectors of all parts."""

    def begun(model: Any) -> State:
        return begin(State(model, None, jnp.zeros((), jnp.int32)), lane)  # type: ignore[arg-type]

    vectors = {
        name: jax.ShapeDtypeStruct((network.n_parameters,), jnp.dtype(dtype))
        for name, network in parts.networks
    }
    return eqx.filter_eval_shape(begun, vectors)


def fresh(
    parts: PartNetworks,
    abstract: State,
    settings: Settings,
    seed: int,
    number: int,
    replicate: int,
) -> State:
    """The state of a trial before its first step, the weights of each part drawn by themselves."""

    def generator_of(part: str) -> np.random.Generator:
        return generator(seed, f"weights {part}", number, replicate)

    return replace(blank_of(abstract), model=parts.initial(settings, generator_of))


def exact_shapes(parts: PartNetworks, abstract: State, settings: Settings) -> State:
    """Shapes and dtypes of a trial's own state, without padding."""

    def own(network: Any, part: str, leaf: Any) -> Any:
        if leaf.shape != (network.n_parameters,):
            return leaf
        size = network.own_parameters(settings.of_part(part))
        return jax.ShapeDtypeStruct((size,), leaf.dtype)

    return parts.over_parameters(own, abstract)


def exact_state(parts: PartNetworks, state: State, settings: Settings) -> State:
    """A trial's own part of its lane's `state`."""

    def own(network: Any, part: str, leaf: Any) -> Any:
        is_vector = leaf.shape == (network.n_parameters,)
        return network.own(leaf, settings.of_part(part)) if is_vector else leaf

    return parts.over_parameters(own, state)


def padded_state(parts: PartNetworks, state: State, settings: Settings) -> State:
    """The lane's state whose own part is `state`."""

    def spread(network: Any, part: str, leaf: Any) -> Any:
        its = settings.of_part(part)
        is_vector = leaf.shape == (network.own_parameters(its),)
        return network.padded_from(leaf, its) if is_vector else leaf

    return parts.over_parameters(spread, state)


@dataclass(frozen=True)
class OfParts(Tabled):
    """A program whose state has a vector and an optimizer state for each part; see `Program`.

    What trains the parts is left to the programs themselves: `lane`, `begin`, `step`, `evaluate`.
    """

    parts: PartNetworks

    @abstractmethod
    def lane(self, number: int, settings: Settings, replicate: int = 0) -> LaneParameters: ...

    @abstractmethod
    def begin(self, state: State, lane: LaneParameters) -> State: ...

    def abstract(self) -> State:
        return self._abstract

    def init(self, number: int, settings: Settings, replicate: int = 0) -> State:
        return fresh(self.parts, self._abstract, settings, self.data.seed, number, replicate)

    def exact_abstract(self, settings: Settings) -> State:
        return exact_shapes(self.parts, self._abstract, settings)

    def exact(self, state: State, settings: Settings, of_use: OfUse = whole) -> State:
        return exact_state(self.parts, of_use(state), settings)

    def padded(self, state: State, settings: Settings) -> State:
        return padded_state(self.parts, state, settings)

    def model(self, state: State) -> eqx.Module:
        assert isinstance(state.model, Mapping)
        return self.parts.model(state.model)

    def optimizer(self, settings: Settings) -> dict[str, optax.GradientTransformation]:
        return optimizers_of(self.parts, self.data, settings, self.settings_of)

    def opt_state(self, state: State, settings: Settings) -> PyTree[AnyArray]:
        optimizers = self.optimizer(settings)
        return opt_states(self.parts, state, optimizers, settings, self.settings_of)

    def with_model(self, state: State, model: PyTree[AnyArray]) -> State:
        return with_model(self.parts, state, model, self.data.dtype)

    def with_opt_state(
        self, state: State, opt_state: PyTree[AnyArray], saved: Settings, settings: Settings
    ) -> State:
        return with_opt_states(self.parts, state, opt_state, saved, settings)

    def settings_of(self, part: str, settings: Settings) -> Settings:
        """Those of the optimizer of a part."""
        return settings.of_part(part)

    @cached_property
    def _abstract(self) -> State:
        return shapes(self.parts, self.begin, self.lane(0, self.settings), self.data.dtype)
