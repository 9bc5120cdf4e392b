"""`supervised`: one model, one loss, one optimizer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from sweeper.models.keys import key_of
from sweeper.models.layer_loop import Activations, Workspace
from sweeper.models.network import Network
from sweeper.programs.losses import HUBER_DELTA, LABEL_SMOOTHING, Criterion, criterion_of
from sweeper.programs.metrics import Metric, metric_of
from sweeper.programs.parts import OfParts, end_step, in_blocks
from sweeper.programs.program import (
    Batch,
    Epochs,
    Hparams,
    LaneParameters,
    Metrics,
    State,
    measured_parameters,
)
from sweeper.programs.updates import apply_update


@dataclass(frozen=True)
class Supervised(OfParts):
    """Minimises the mean loss of a batch; see `Program`."""

    @property
    def network(self) -> Network:
        """The only part of the model."""
        return self.parts.by_name[""]

    @property
    def epochs(self) -> Epochs:
        # made once an epoch, because each step would clear it
        workspace = partial(self.network.workspace, self.settings.train.batch_size)
        return replace(super().epochs, workspace=workspace)

    def step(
        self, state: State, batch: Batch, lane: LaneParameters, epoch: Int[Array, ""]
    ) -> tuple[State, Metrics]:
        hparams = _optional_hparams(lane, LABEL_SMOOTHING, HUBER_DELTA)
        keys = None
        if self.network.needs_keys:
            key = jax.random.fold_in(key_of(lane.key), state.step)
            keys = jax.random.split(key, len(batch.x))

        def loss(parameters: Array) -> tuple[Float[Array, ""], Any]:
            outputs, given, untrained = self._fitted(parameters, state, batch, lane, keys)
            return self._minimised(outputs, batch, hparams), (outputs, given, untrained)

        (value, (outputs, given, untrained)), gradients = jax.value_and_grad(loss, has_aux=True)(
            state.model[""]
        )
        reported = self._reported(value, outputs, batch, hparams)
        model, moments = apply_update(
            self.settings,
            lane,
            self.network,
            state.step,
            gradients=gradients,
            moments=state.optimizer[""],
            parameters=state.model[""],
            value=value,
            after=reported,
        )
        workspace = None if given is None else Workspace(gradients, given)
        moved = replace(
            state,
            model={"": model},
            optimizer={"": moments},
            workspace=workspace,
            untrained=untrained,
        )
        return end_step(moved, lane), (reported,)

    def _fitted(
        self,
        parameters: Array,
        state: State,
        batch: Batch,
        lane: LaneParameters,
        keys: PRNGKeyArray | None,
    ) -> tuple[Array, Activations | None, PyTree[Array]]:
        """The outputs to fit to the targets, the activations, and the next untrained arrays."""
        if self.network.state is not None:
            assert state.untrained is not None
            outputs, after = self.network.train_with(
                parameters, batch.x, lane.traced, state.untrained[""], keys
            )
            return outputs, None, {"": after}
        dropout = lane.hparams.get("model.dropout", 0.0)
        fitted = self.network.fitted(
            parameters, batch.x, lane.traced, keys, dropout, state.workspace
        )
        return *fitted, state.untrained

    def evaluate(self, state: State, data: Batch, lane: LaneParameters) -> Metrics:
        model, given = measured_parameters(state)[""], lane.traced
        untrained = None if self.network.state is None else state.untrained[""]
        outputs = in_blocks(
            lambda x: self.network.evaluate_with(model, x, given, untrained), data.x
        )
        # labels are only smoothed in training, so that losses of trials are comparable
        hparams = _optional_hparams(lane, HUBER_DELTA)
        value = self._criterion.minimised(outputs, data.y, hparams, data.weights)
        loss = self._criterion.reported(value, outputs, data.y, hparams, data.weights)
        return (loss, *(metric(outputs, data.y, data.weights) for metric in self._metrics))

    def _minimised(self, fitted: Array, batch: Batch, hparams: Hparams) -> Float[Array, ""]:
        """The loss that training minimises: that of an ensemble is the mean over its members."""

        def of_member(own: Array) -> Array:
            return self._criterion.minimised(own, batch.y, hparams, batch.weights)

        return (
            jnp.mean(jax.vmap(of_member)(fitted)) if self.network.is_ensemble else of_member(fitted)
        )

    def _reported(
        self, minimised: Float[Array, ""], fitted: Array, batch: Batch, hparams: Hparams
    ) -> Float[Array, ""]:
        """The same in the units of the data."""
        if not self.network.is_ensemble:
            return self._criterion.reported(minimised, fitted, batch.y, hparams, batch.weights)

        def of_member(own: Array) -> Array:
            loss = self._criterion.minimised(own, batch.y, hparams, batch.weights)
            return self._criterion.reported(loss, own, batch.y, hparams, batch.weights)

        return jnp.mean(jax.vmap(of_member)(fitted))

    @cached_property
    def _criterion(self) -> Criterion:
        return criterion_of(self.settings.train.loss, self.settings, self.data)

    @cached_property
    def _metrics(self) -> tuple[Metric, ...]:
        names = self.settings.train.metrics
        return tuple(metric_of(name, self.settings, self.data) for name in names)


def _optional_hparams(lane: LaneParameters, *keys: str) -> Hparams:
    """Those of the traced hyperparameters `keys` that the lane has: others are not used."""
    return {key: lane.hparams[key] for key in keys if key in lane.names}
