"""`supervised`: one model, one loss, one optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from sweeper.config import Settings
from sweeper.models.mlp import MLP, initial
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.metrics import LOSSES, METRICS
from sweeper.programs.optimizers import decay_mask, optimizer_of
from sweeper.programs.program import Batch, Lane, Metrics, State
from sweeper.randomness import generator


@dataclass(frozen=True)
class Supervised:
    """Minimises the mean loss of a batch; see `Program`."""

    settings: Settings
    data: DataSpec

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.settings.train.metric_names

    @property
    def test_metrics(self) -> tuple[str, ...]:
        return self.settings.train.test_metric_names if self.data.has_test else ()

    def abstract(self) -> State:
        return self._abstract

    def init(self, number: int) -> State:
        rng = generator(self.data.seed, "weights", number, 0)
        model = initial(self._abstract_model, rng)
        blank = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self._abstract)
        return eqx.tree_at(lambda state: state.model, blank, eqx.filter(model, eqx.is_array_like))

    def begin(self, state: State, lane: Lane) -> State:
        optimizer = self._optimizer(lane.hparams).init(_trained(state.model))
        return eqx.tree_at(lambda state: state.optimizer, state, optimizer)

    def step(self, state: State, batch: Batch, lane: Lane) -> tuple[State, Metrics]:
        key = jax.random.fold_in(jax.random.wrap_key_data(jnp.asarray(lane.key)), state.step)
        keys = jax.random.split(key, len(batch.x))
        dropout = lane.hparams["model.dropout"]

        def loss(model: PyTree[Array]) -> Float[Array, ""]:
            apply = lambda x, key: self._whole(model)(x, key=key, dropout=dropout)  # noqa: E731
            return LOSSES[self.settings.train.loss](jax.vmap(apply)(batch.x, keys), batch.y)

        value, gradients = eqx.filter_value_and_grad(loss)(state.model)
        updates, optimizer = self._optimizer(lane.hparams).update(
            gradients, state.optimizer, _trained(state.model)
        )
        model = eqx.apply_updates(state.model, updates)
        return State(model, optimizer, state.step + 1), (value * self._loss_unit,)

    def evaluate(self, state: State, data: Batch, lane: Lane) -> Metrics:
        outputs = jax.vmap(self._whole(state.model))(data.x)
        loss = LOSSES[self.settings.train.loss](outputs, data.y) * self._loss_unit
        scores = (METRICS[name](outputs, data.y) for name in self.settings.train.metrics)
        return (loss, *scores)

    def _whole(self, arrays: PyTree[Array]) -> Any:
        """The model with the parts put back that are no arrays."""
        return eqx.combine(arrays, eqx.filter(self._abstract_model, _is_abstract, inverse=True))

    def _optimizer(self, hparams: Mapping[str, Any]) -> Any:
        return optimizer_of(self.settings)(hparams, self._decay_mask)

    @property
    def _loss_unit(self) -> float:
        """A squared error in scaled units times this is one in the data's own."""
        return self.data.y_scale**2 if self.settings.train.loss == "mse" else 1.0

    @cached_property
    def _abstract_model(self) -> MLP:
        model = self.settings.model
        return eqx.filter_eval_shape(
            MLP,
            self.data.in_size,
            self.data.out_size,
            depth=model.depth,
            width=model.width,
            activation=model.activation,
            layer_norm=model.layer_norm,
            has_dropout=self.settings.has_dropout,
            dtype=jnp.dtype(self.data.dtype),
            key=jax.random.key(0),
        )

    @cached_property
    def _decay_mask(self) -> PyTree[bool]:
        return decay_mask(self._abstract_model)

    @cached_property
    def _abstract(self) -> State:
        hparams = self.settings.traced()

        def fresh(model: PyTree[Array]) -> State:
            optimizer = self._optimizer(hparams).init(_trained(model))
            return State(model, optimizer, jnp.zeros((), jnp.int32))

        return eqx.filter_eval_shape(fresh, eqx.filter(self._abstract_model, _is_abstract))


def _trained(model: PyTree[Array]) -> PyTree[Array]:
    """The leaves that an optimizer moves."""
    return eqx.filter(model, eqx.is_inexact_array)


def _is_abstract(leaf: object) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)
