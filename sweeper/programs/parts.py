"""Models of several parts, and the states of their optimizers, as Equinox and Optax have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import optax
from jaxtyping import PyTree

from sweeper.config import Settings
from sweeper.models.part_networks import PartNetworks
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.leaves import Leaves
from sweeper.programs.optax_state import lane_state, plain_optimizer, plain_state
from sweeper.programs.part_hparams import hparams_of, schedule_steps
from sweeper.programs.program import AnyArray, State

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
