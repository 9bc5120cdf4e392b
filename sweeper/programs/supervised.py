"""`supervised`: one model, one loss, one optimizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PyTree

from sweeper.config import Settings
from sweeper.models.keys import key_of
from sweeper.models.layer_loop import Activations, Workspace
from sweeper.models.network import Network
from sweeper.programs.base import Tabled, begun, in_blocks, stepped
from sweeper.programs.data_spec import blank_of
from sweeper.programs.losses import HUBER_DELTA, LABEL_SMOOTHING, Criterion, criterion_of
from sweeper.programs.metrics import Metric, metric_of
from sweeper.programs.optax_state import Leaves, lane_state, plain_optimizer, plain_state
from sweeper.programs.optimizers import optimizer_of
from sweeper.programs.program import (
    AnyArray,
    Batch,
    Hparams,
    LaneParameters,
    Metrics,
    OfUse,
    State,
    measured,
    whole,
)
from sweeper.programs.schedules import schedule_steps
from sweeper.programs.updates import updated
from sweeper.trial import generator, words


@dataclass(frozen=True)
class Supervised(Tabled):
    """Minimises the mean loss of a batch; see `Program`."""

    network: Network

    def abstract(self) -> State:
        return self._abstract

    def init(self, number: int, settings: Settings, replicate: int = 0) -> State:
        rng = generator(self.data.seed, "weights", number, replicate)
        return replace(self._blank, model=self.network.initial(settings, rng))

    def lane(self, number: int, settings: Settings, replicate: int = 0) -> LaneParameters:
        key = words(self.data.seed, "dropout", number, replicate)[:2]
        return LaneParameters.of(
            self._hparams(settings), self.network.traced(settings), key, self.data.dtype
        )

    def exact_abstract(self, settings: Settings) -> State:
        size = (self.network.own_parameters(settings),)
        return self._over_parameters(
            lambda leaf: jax.ShapeDtypeStruct(size, leaf.dtype), self._abstract
        )

    def exact(self, state: State, settings: Settings, of_use: OfUse = whole) -> State:
        return self._over_parameters(lambda leaf: self.network.own(leaf, settings), of_use(state))

    def padded(self, state: State, settings: Settings) -> State:
        own = (self.network.own_parameters(settings),)

        def spread(leaf: Any) -> Any:
            return self.network.padded_from(leaf, settings) if leaf.shape == own else leaf

        return jax.tree.map(spread, state)

    def model(self, state: State) -> eqx.Module:
        return self.network.model(state.model)

    def optimizer(self, settings: Settings) -> optax.GradientTransformation:
        # arrays, as a lane has them: with numbers of Python Optax computes some in float32
        hparams = self._hparams(settings).items()
        arrays = {key: np.asarray(value, self.data.dtype) for key, value in hparams}
        return plain_optimizer(settings, arrays, self.network)

    def opt_state(self, state: State, settings: Settings) -> PyTree[AnyArray]:
        optimizer = self.optimizer(settings)
        return plain_state(settings, optimizer, self.network, state.optimizer, state.step)

    def with_model(self, state: State, model: PyTree[AnyArray]) -> State:
        vector = Leaves(self.network).vector(jax.tree.leaves(model))
        return replace(state, model=vector.astype(self.data.dtype))

    def with_opt_state(
        self, state: State, opt_state: PyTree[AnyArray], saved: Settings, settings: Settings
    ) -> State:
        moments = lane_state(saved, settings, self.network, state.optimizer, opt_state)
        return replace(state, optimizer=moments)

    def begin(self, state: State, lane: LaneParameters) -> State:
        moments = self._optimizer(lane, 0).init(state.model)
        return begun(self.settings, state, moments, self.data.dtype)

    def roomy(self, state: State) -> State:
        # else it would be cleared at each step
        return replace(state, room=self.network.room(self.settings.train.batch_size))

    def step(
        self, state: State, batch: Batch, lane: LaneParameters, epoch: Int[Array, ""]
    ) -> tuple[State, Metrics]:
        keys = None
        if self.network.needs_keys:
            key = jax.random.fold_in(key_of(lane.key), state.step)
            keys = jax.random.split(key, len(batch.x))

        def loss(parameters: Array) -> tuple[Float[Array, ""], tuple[Array, Activations | None]]:
            dropout = lane.hparams.get("model.dropout", 0.0)
            outputs, given = self.network.outputs_over(
                state.room, parameters, batch.x, lane.traced, keys, dropout
            )
            hparams = _some(lane, LABEL_SMOOTHING, HUBER_DELTA)
            return self._criterion.minimised(outputs, batch.y, hparams), (outputs, given)

        (value, (outputs, given)), gradients = jax.value_and_grad(loss, has_aux=True)(state.model)
        hparams = _some(lane, LABEL_SMOOTHING, HUBER_DELTA)
        told = self._criterion.told(value, outputs, batch.y, hparams)
        made = self.settings, lane, self.network, state.step
        model, moments = updated(*made, gradients, state.optimizer, state.model, after=told)
        room = None if given is None else Workspace(gradients, given)
        return replace(stepped(state, model, moments, lane), room=room), (told,)

    def evaluate(self, state: State, data: Batch, lane: LaneParameters) -> Metrics:
        outputs = in_blocks(lambda x: self.network.outputs(measured(state), x, lane.traced), data.x)
        # labels are smoothed in training alone: losses of trials that differ in it are compared
        hparams = _some(lane, HUBER_DELTA)
        value = self._criterion.minimised(outputs, data.y, hparams)
        loss = self._criterion.told(value, outputs, data.y, hparams)
        return (loss, *(metric(outputs, data.y) for metric in self._metrics))

    def _optimizer(self, lane: LaneParameters, step: Any) -> Any:
        return optimizer_of(self.settings, lane.hparams, lane.traced, self.network, step)

    def _hparams(self, settings: Settings) -> dict[str, float]:
        return settings.traced() | schedule_steps(settings, self.data)

    def _over_parameters(self, function: Callable[[Any], Any], state: State) -> State:
        """`state` with `function` of every leaf that has one number a parameter."""
        shape = (self.network.n_parameters,)
        return jax.tree.map(lambda leaf: function(leaf) if leaf.shape == shape else leaf, state)

    @cached_property
    def _criterion(self) -> Criterion:
        return criterion_of(self.settings.train.loss, self.settings, self.data)

    @cached_property
    def _metrics(self) -> tuple[Metric, ...]:
        names = self.settings.train.metrics
        return tuple(metric_of(name, self.settings, self.data) for name in names)

    @cached_property
    def _blank(self) -> State:
        return blank_of(self.abstract())

    @cached_property
    def _abstract(self) -> State:
        numbers, told = self._hparams(self.settings), self.network.traced(self.settings)
        lane = LaneParameters.of(numbers, told, np.zeros(2, np.uint32), self.data.dtype)

        def fresh(model: Array) -> State:
            return self.begin(State(model, None, jnp.zeros((), jnp.int32)), lane)  # type: ignore[arg-type]

        vector = jax.ShapeDtypeStruct((self.network.n_parameters,), jnp.dtype(self.data.dtype))
        return eqx.filter_eval_shape(fresh, vector)


def _some(lane: LaneParameters, *keys: str) -> Hparams:
    """Those of the hyperparameters `keys` that are compiled in."""
    return {key: lane.hparams[key] for key in keys if key in lane.names}
