"""What all programs share: the states of a model's parts, updates, and evaluation in blocks."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, PyTree
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.models.mlp import LayersShape, Padding
from sweeper.models.part_networks import PartNetworks, traced_of
from sweeper.models.stateful import StatefulModel
from sweeper.programs.continued import Continuation
from sweeper.programs.data_spec import DataSpec, blank_of
from sweeper.programs.optax_state import lane_state, plain_optimizer, plain_state
from sweeper.programs.optimizers import optimizer_of
from sweeper.programs.program import (
    AnyArray,
    Epochs,
    Hparams,
    LaneParameters,
    OfUse,
    State,
    whole,
)
from sweeper.programs.schedules import hparams_of, schedule_steps
from sweeper.scheduler.cost import MEASURED_ROWS
from sweeper.trial import generator, words


@dataclass(frozen=True)
class OfParts(ABC):
    """A program whose state has a vector and an optimizer state for each part; see `Program`.

    `settings` are those of any trial of the class; differences are in each trial's lane. Trials
    have fresh weights unless there is a saved model to `start` from. Subclasses implement the
    training of the parts: `step` and `evaluate`.
    """

    settings: Settings
    data: DataSpec
    parts: PartNetworks
    start: Continuation | None = field(default=None, kw_only=True)

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.settings.train.metric_names

    @property
    def test_metrics(self) -> tuple[str, ...]:
        return self.settings.train.test_metric_names if self.data.has_test else ()

    @property
    def layout(self) -> Self:
        return self

    @property
    def saver(self) -> Self:
        return self

    @property
    def epochs(self) -> Epochs:
        return Epochs(self.settings, self.metrics)

    @property
    def phases(self) -> Mapping[str, Self]:
        return {}

    def abstract(self) -> State:
        return self._abstract

    def init(self, number: int, settings: Settings, replicate: int = 0) -> State:
        if self.start is None:
            return self.fresh(number, settings, replicate)
        return self.padded(self.start.state(number, settings, replicate), settings)

    def begin(self, state: State, lane: LaneParameters) -> State:
        begun = self.begun(state, lane)
        return begun if self.start is None else self.start.begun(begun, state)

    def fresh(self, number: int, settings: Settings, replicate: int) -> State:
        """The state of a trial with fresh weights before its first step, in NumPy arrays."""
        vectors: dict[str, NDArray[Any]] = {}
        states: dict[str, Any] = {}
        for part, network in self.parts.networks:
            purpose = f"weights {part}" if part else "weights"
            draws = partial(generator, self.data.seed, purpose, number, replicate)
            vectors[part] = network.initial(settings.of_part(part), draws())
            if network.state is not None:
                states[part] = network.initial_state(settings.of_part(part), draws())
        return replace(self._blank, model=vectors, untrained=states or self._blank.untrained)

    def lane(self, number: int, settings: Settings, replicate: int = 0) -> LaneParameters:
        key = words(self.data.seed, "dropout", number, replicate)[:2]
        traced = self.traced_in(settings)
        return LaneParameters.of(self._hparams(settings), traced, key, self.data.dtype)

    def traced_in(self, settings: Settings) -> dict[str, int]:
        """The part of the trial's structure that the compiled program gets at run time."""
        return self.parts.traced(settings)

    def begun(self, state: State, lane: LaneParameters) -> State:
        """`state` at step 0 with a fresh optimizer state, and what else training needs."""
        moments = {
            part: self.optimizer_in(part, lane, 0).init(vector)
            for part, vector in state.model.items()
        }
        return self.epochs.begin(state, moments, self.data.dtype)

    def exact_abstract(self, settings: Settings) -> State:
        def cut(padding: Padding, leaf: Any) -> Any:
            return jax.ShapeDtypeStruct((padding.own.n_parameters,), leaf.dtype)

        return self._resized(self._abstract, settings, cut, lambda padding: padding.padded)

    def exact(self, state: State, settings: Settings, of_use: OfUse = whole) -> State:
        return self._resized(of_use(state), settings, Padding.cut, lambda padding: padding.padded)

    def padded(self, state: State, settings: Settings) -> State:
        return self._resized(state, settings, Padding.pad, lambda padding: padding.own)

    def _resized(
        self,
        state: State,
        settings: Settings,
        resize: Callable[[Padding, Any], Any],
        shape_of: Callable[[Padding], LayersShape],
    ) -> State:
        """`state` with every vector of parameters of this shape resized."""
        networks = self.parts.networks
        paddings = {part: network.padding(settings.of_part(part)) for part, network in networks}

        def resized(path: tuple[Any, ...], leaf: Any) -> Any:
            names = (key.key for key in path if isinstance(key, jax.tree_util.DictKey))
            padding = next((paddings[name] for name in names if name in paddings), None)
            if padding is None or leaf.shape != (shape_of(padding).n_parameters,):
                return leaf
            return resize(padding, leaf)

        return jax.tree_util.tree_map_with_path(resized, state)

    def model(self, state: State) -> eqx.Module:
        if not self.parts.is_plain:
            return self.parts.model(state.model)
        model = self.parts.by_name[""].model(state.model[""])
        return model.with_state(state.untrained[""]) if isinstance(model, StatefulModel) else model

    def optimizer(self, settings: Settings) -> Any:
        return self.parts.joined(self._optimizers(settings))

    def opt_state(self, state: State, settings: Settings) -> PyTree[AnyArray]:
        optimizers = self._optimizers(settings)
        return self.parts.joined(
            {
                part: plain_state(
                    self.settings_of(part, settings),
                    optimizers[part],
                    network,
                    moments=state.optimizer[part],
                    step=state.step,
                )
                for part, network in self.parts.networks
            }
        )

    def with_model(self, state: State, model: Any) -> State:
        models = self.parts.by_part(model if self.parts.is_plain else model.parts)
        vectors = {
            part: network.vector.vector(jax.tree.leaves(models[part])).astype(self.data.dtype)
            for part, network in self.parts.networks
        }
        return replace(state, model=vectors)

    def with_opt_state(
        self, state: State, opt_state: PyTree[AnyArray], saved: Settings, settings: Settings
    ) -> State:
        given = self.parts.by_part(opt_state)
        moments = {
            part: lane_state(
                saved.of_part(part),
                settings.of_part(part),
                network,
                like=state.optimizer[part],
                opt_state=given[part],
            )
            for part, network in self.parts.networks
        }
        return replace(state, optimizer=moments)

    def settings_of(self, part: str, settings: Settings) -> Settings:
        """The settings of the optimizer of a part."""
        return settings.of_part(part)

    def apply_gradients(
        self,
        state: State,
        gradients: Mapping[str, Array],
        losses: Mapping[str, Array],
        lane: LaneParameters,
        phase: str = "",
    ) -> State:
        """`state` with the parts of `gradients` moved, each by its own optimizer and loss."""
        model, moments = {**state.model}, {**state.optimizer}
        for part, gradient in gradients.items():
            optimizer = self.optimizer_in(part, lane, state.step, phase)
            loss = {"value": losses[part], "grad": gradient}
            updates, moments[part] = optimizer.update(gradient, moments[part], model[part], **loss)
            model[part] = eqx.apply_updates(model[part], updates)
        return replace(state, model=model, optimizer=moments)

    def optimizer_in(
        self, part: str, lane: LaneParameters, step: Any, phase: str = ""
    ) -> optax.GradientTransformationExtraArgs:
        """The optimizer of a part in a step of a lane."""
        own = self.hparams_in(part, lane.hparams, phase)
        traced, settings = traced_of(part, lane.traced), self.settings_of(part, self.settings)
        return optimizer_of(settings, own, traced, self.parts.by_name[part], step)

    def hparams_in(self, part: str, hparams: Hparams, phase: str) -> dict[str, Any]:
        """The numbers for the optimizer of a part in a phase, from those of its lane."""
        return hparams_of(part, hparams, self.settings)

    def phase_of(self, part: str) -> str:
        """The phase whose numbers the plain optimizer of a part has; empty without phases."""
        return ""

    def _optimizers(self, settings: Settings) -> Mapping[str, optax.GradientTransformation]:
        """The plain Optax optimizer of each part, for the arrays of its model."""
        hparams = self._arrays_of(settings)
        return {
            part: plain_optimizer(
                self.settings_of(part, settings),
                self.hparams_in(part, hparams, self.phase_of(part)),
                network,
            )
            for part, network in self.parts.networks
        }

    def _hparams(self, settings: Settings) -> dict[str, float]:
        return settings.traced() | schedule_steps(settings, self.data)

    def _arrays_of(self, settings: Settings) -> dict[str, NDArray[Any]]:
        """The traced hyperparameters as in a lane: with Python floats, Optax would use float32."""
        dtype = self.data.dtype
        return {key: np.asarray(value, dtype) for key, value in self._hparams(settings).items()}

    @cached_property
    def _blank(self) -> State:
        return blank_of(self._abstract)

    @cached_property
    def _abstract(self) -> State:
        lane = self.lane(0, self.settings)

        def fresh(model: Mapping[str, Array], untrained: Any) -> State:
            step = jnp.zeros((), jnp.int32)
            return self.begun(State(model, None, step, untrained=untrained), lane)

        vectors = {
            name: jax.ShapeDtypeStruct((network.vector.n_parameters,), jnp.dtype(self.data.dtype))
            for name, network in self.parts.networks
        }
        states = {part: one.state for part, one in self.parts.networks if one.state is not None}
        return eqx.filter_eval_shape(fresh, vectors, states or None)


def end_step(state: State, lane: LaneParameters) -> State:
    """`state` after a step whose update it has."""
    average = state.average
    if average is not None:
        decay = lane.hparams["train.ema"]
        average = jax.tree.map(
            lambda old, new: decay * old + (1 - decay) * new, average, state.model
        )
    return replace(state, step=state.step + 1, average=average)


Outputs = TypeVar("Outputs")


def in_blocks(
    outputs: Callable[[Float[Array, "block features"]], Outputs],
    x: Float[AnyArray, "rows features"],
) -> Outputs:
    """The `outputs` of all rows, computed block by block.

    All rows at once would take memory in proportion to their number, more than the caches of a
    processor hold. Rows must not depend on others in their block.
    """
    x = jnp.asarray(x)
    if len(x) <= MEASURED_ROWS:
        return outputs(x)
    of_block = jax.eval_shape(outputs, x[:MEASURED_ROWS])
    blank: Any = jax.tree.map(lambda one: jnp.zeros((len(x), *one.shape[1:]), one.dtype), of_block)

    def block(index: Array, found: Any) -> Any:
        # the last block overlaps the previous one, to have the same length
        start = jnp.minimum(index * MEASURED_ROWS, len(x) - MEASURED_ROWS)
        own = outputs(lax.dynamic_slice_in_dim(x, start, MEASURED_ROWS))
        return jax.tree.map(
            lambda every, part: lax.dynamic_update_slice_in_dim(every, part, start, 0), found, own
        )

    return lax.fori_loop(0, -(-len(x) // MEASURED_ROWS), block, blank)
