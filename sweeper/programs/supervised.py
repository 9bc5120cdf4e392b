"""`supervised`: one model, one loss, one optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sweeper.config import Settings
from sweeper.models.network import Network
from sweeper.programs.criterion import Criterion
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.metrics import METRICS
from sweeper.programs.optimizers import optimizer_of
from sweeper.programs.program import Batch, Lane, Metrics, State
from sweeper.randomness import generator, words


@dataclass(frozen=True)
class Supervised:
    """Minimises the mean loss of a batch; see `Program`.

    `settings` are those of any trial of the class; what they differ in is in each trial's lane.
    """

    settings: Settings
    data: DataSpec
    network: Network

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.settings.train.metric_names

    @property
    def test_metrics(self) -> tuple[str, ...]:
        return self.settings.train.test_metric_names if self.data.has_test else ()

    def abstract(self) -> State:
        return self._abstract

    def init(self, number: int, settings: Settings, replicate: int = 0) -> State:
        rng = generator(self.data.seed, "weights", number, replicate)
        blank = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self._abstract)
        return State(self.network.initial(settings, rng), blank.optimizer, blank.step)

    def lane(self, number: int, settings: Settings, replicate: int = 0) -> Lane:
        key = words(self.data.seed, "dropout", number, replicate)[:2]
        return Lane.of(settings.traced(), self.network.traced(settings), key, self.data.dtype)

    def exact_abstract(self, settings: Settings) -> State:
        size = (self.network.own_parameters(settings),)
        return self._over_parameters(
            lambda leaf: jax.ShapeDtypeStruct(size, leaf.dtype), self._abstract
        )

    def exact(self, state: State, settings: Settings) -> State:
        return self._over_parameters(lambda leaf: self.network.own(leaf, settings), state)

    def padded(self, state: State, settings: Settings) -> State:
        own = (self.network.own_parameters(settings),)

        def spread(leaf: Any) -> Any:
            return self.network.padded_from(leaf, settings) if leaf.shape == own else leaf

        return jax.tree.map(spread, state)

    def model(self, state: State) -> eqx.Module:
        return self.network.model(state.model)

    def begin(self, state: State, lane: Lane) -> State:
        return State(state.model, self._optimizer(lane.hparams).init(state.model), state.step)

    def step(self, state: State, batch: Batch, lane: Lane) -> tuple[State, Metrics]:
        keys = None
        if self.network.needs_keys:
            key = jax.random.fold_in(jax.random.wrap_key_data(jnp.asarray(lane.key)), state.step)
            keys = jax.random.split(key, len(batch.x))

        def loss(parameters: Array) -> tuple[Float[Array, ""], Array]:
            dropout = lane.hparams.get("model.dropout", 0.0)
            outputs = self.network.outputs(parameters, batch.x, lane.traced, keys, dropout)
            return self._criterion.minimised(outputs, batch.y), outputs

        (value, outputs), gradients = jax.value_and_grad(loss, has_aux=True)(state.model)
        optimizer = self._optimizer(lane.hparams)
        updates, moments = optimizer.update(gradients, state.optimizer, state.model)
        model = eqx.apply_updates(state.model, updates)
        told = self._criterion.told(value, outputs, batch.y)
        return State(model, moments, state.step + 1), (told,)

    def evaluate(self, state: State, data: Batch, lane: Lane) -> Metrics:
        outputs = self.network.outputs(state.model, data.x, lane.traced)
        value = self._criterion.minimised(outputs, data.y)
        loss = self._criterion.told(value, outputs, data.y)
        scores = (METRICS[name](outputs, data.y) for name in self.settings.train.metrics)
        return (loss, *scores)

    def _optimizer(self, hparams: Mapping[str, Any]) -> Any:
        network = self.network
        return optimizer_of(self.settings, hparams, network.n_parameters, network.n_decayed)

    def _over_parameters(self, function: Callable[[Any], Any], state: State) -> State:
        """`state` with `function` of every leaf that has one number a parameter."""
        shape = (self.network.n_parameters,)
        return jax.tree.map(lambda leaf: function(leaf) if leaf.shape == shape else leaf, state)

    @property
    def _criterion(self) -> Criterion:
        return Criterion(self.settings.train.loss, self.data.y_scale, self.data.class_weights)

    @cached_property
    def _abstract(self) -> State:
        hparams = self.settings.traced()

        def fresh(model: Array) -> State:
            return State(model, self._optimizer(hparams).init(model), jnp.zeros((), jnp.int32))

        vector = jax.ShapeDtypeStruct((self.network.n_parameters,), jnp.dtype(self.data.dtype))
        return eqx.filter_eval_shape(fresh, vector)
