"""`coupled`: models that feed each other, each with its own loss and its own optimizer.

With `debug_gradients`, each step checks that no loss changes a model that it must not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from sweeper.config import Settings
from sweeper.config.coupled import CRITIC, GENERATOR, CoupledTable, feeds
from sweeper.config.kinds import is_function
from sweeper.config.model import PartsTable, upstream
from sweeper.config.settings import CLIP
from sweeper.config.user_code import load_function
from sweeper.models.keys import key_of
from sweeper.programs.generator_critic import (
    OBJECTIVES,
    Game,
    Losses,
    Measure,
    measure_of,
    noise_of,
)
from sweeper.programs.parts import OfParts, end_step
from sweeper.programs.program import Batch, LaneParameters, Metrics, State, measured_parameters
from sweeper.trial import words


def without_leaks(
    settings: Settings,
    losses_of: Callable[[Any], Losses],
    before: State,
    after: State,
    is_due: Bool[Array, ""],
) -> State:
    """The state `after` a step; a runtime error if the step changed what it must not change.

    No loss may have a gradient to a model that feeds its own, whose output counts as constant. In a
    step in which only the critic `is_due`, the others stay unchanged bit by bit, and so do their
    optimizer states.
    """
    train, model = settings.train, settings.model
    assert isinstance(train, CoupledTable) and isinstance(model, PartsTable)
    written = {name: part.input for name, part in model.parts.items()}
    inputs = {name: feeds(name, train, written) for name in train.models}
    for name in train.models:
        gradients = jax.grad(lambda models, name=name: losses_of(models)[name])(before.model)
        for source in sorted(upstream(name, inputs) - {name}):
            message = (
                f"the loss of {name} has a gradient to {source}, which feeds it: "
                "pass its output through jax.lax.stop_gradient"
            )
            after = eqx.error_if(after, jnp.any(gradients[source] != 0), message)
    if CRITIC in train.models:
        for name in train.models:
            if name != CRITIC:
                strayed = ~is_due & _differ(_of(before, name), _of(after, name))
                after = eqx.error_if(after, strayed, f"{name} changed although it was not due")
    return after


def _of(state: State, name: str) -> PyTree[Array]:
    """A model and its optimizer state."""
    return state.model[name], state.optimizer[name]


def _differ(one: PyTree[Array], other: PyTree[Array]) -> Bool[Array, ""]:
    """Whether any of their numbers differ."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return jnp.any(jnp.stack([~jnp.array_equal(a, b, equal_nan=True) for a, b in pairs]))


Models = Mapping[str, Any]

_OF_LANE, _OF_STUDY = slice(0, 2), slice(2, 4)  # the two keys in a lane's words


@dataclass(frozen=True)
class Coupled(OfParts):
    """Each model is updated only by the gradient of its own loss; see `Program`.

    With a built-in objective, a step updates the critic, using generated rows without gradients,
    and then, once every `critic_steps`, the generator, using the updated critic. Both see the same
    generated rows: the generator runs forward once per step, and its gradient is pulled back
    through that run. A user-defined objective returns all losses of a step at once, from one run of
    the models; then each model is updated by its own loss.

    Every loss is reported for the step's batch, before any update.

    Whether models other than the critic are updated is a branch on the step. In a `map` loop, one
    lane at a time takes it, so that a step without them costs nothing. Under `vmap`, every step
    computes both ways and selects one: about the cost of `critic_steps` = 1.
    """

    def lane(self, number: int, settings: Settings, replicate: int = 0) -> LaneParameters:
        own = words(self.data.seed, "latent", number, replicate)[:2]
        shared = words(self.data.seed, "latent of evaluation")[:2]
        lane = super().lane(number, settings, replicate)
        return replace(lane, key=np.concatenate([own, shared]))

    def step(
        self, state: State, batch: Batch, lane: LaneParameters, epoch: Int[Array, ""]
    ) -> tuple[State, Metrics]:
        key = jax.random.fold_in(key_of(lane.key[_OF_LANE]), state.step)
        period = jnp.asarray(lane.hparams["train.critic_steps"]).astype(jnp.int32)
        is_due = (state.step + 1) % period == 0
        game = self._game(batch, lane, key, in_training=True)
        if game is None:
            moved, losses = self._by_function(state, batch, lane, key, is_due)
        else:
            moved, losses = self._by_objective(game, state, lane, is_due)
        if self._train.debug_gradients:
            losses_of = partial(self._losses, batch=batch, lane=lane, key=key)
            losses_of = losses_of if game is None else game.losses
            moved = without_leaks(self.settings, losses_of, state, moved, is_due)
        return moved, tuple(losses[name] for name in self._train.models)

    def evaluate(self, state: State, data: Batch, lane: LaneParameters) -> Metrics:
        models = measured_parameters(state)
        key = key_of(lane.key[_OF_STUDY])
        game = self._game(data, lane, key, in_training=False)
        losses = self._losses(models, data, lane, key) if game is None else game.losses(models)
        model_losses = tuple(losses[name] for name in self._train.models)
        if not self._measures:
            return model_losses
        noise = noise_of(key, len(data.x), self._latent_size, jnp.asarray(data.x).dtype)
        made = self.parts.output(GENERATOR, models[GENERATOR], noise, lane.traced)
        rows = [self._in_own_units(x, data) for x in (made, jnp.asarray(data.x))]
        return (*model_losses, *(measure(*rows) for measure in self._measures))

    def _by_objective(
        self, game: Game, state: State, lane: LaneParameters, is_due: Bool[Array, ""]
    ) -> tuple[State, Losses]:
        models = state.model

        def critic_loss(critic: Any, rows: Array) -> tuple[Float[Array, ""], Losses]:
            losses = game.critic_and_generator_losses(critic, rows)
            return losses[CRITIC], losses

        rows, pulled_back = jax.vjp(game.generated, models[GENERATOR])
        given = lax.stop_gradient(rows)
        gradient, losses = jax.grad(critic_loss, has_aux=True)(models[CRITIC], given)
        state = self.apply_gradients(state, {CRITIC: gradient}, losses, lane)
        critic = state.model[CRITIC]
        if game.objective.clipped:
            bound = jnp.asarray(lane.hparams.get("train.clip", CLIP))
            critic = jnp.clip(critic, -bound, bound)
            state = replace(state, model={**state.model, CRITIC: critic})

        def move(state: State) -> State:
            loss, slopes = jax.value_and_grad(game.generator_loss)(rows, critic)
            (gradient,) = pulled_back(slopes)
            return self.apply_gradients(state, {GENERATOR: gradient}, {GENERATOR: loss}, lane)

        state = lax.cond(is_due, move, lambda state: state, state)
        return end_step(state, lane), losses

    def _by_function(
        self,
        state: State,
        batch: Batch,
        lane: LaneParameters,
        key: PRNGKeyArray,
        is_due: Bool[Array, ""],
    ) -> tuple[State, Losses]:
        names, models = self._train.models, dict(state.model)

        def loss_of(name: str, own: Array) -> Float[Array, ""]:
            return self._losses({**models, name: own}, batch, lane, key)[name]

        # one run of the models per loss, which XLA merges into one: in a single function, a loss
        # that is NaN would reach all models through gradients that are 0 times it
        runs = {name: jax.vjp(partial(loss_of, name), models[name]) for name in names}
        losses = {name: loss for name, (loss, _) in runs.items()}

        def move(state: State, *moving: str) -> State:
            gradients = {name: runs[name][1](jnp.ones_like(losses[name]))[0] for name in moving}
            return self.apply_gradients(state, gradients, losses, lane)

        others = [name for name in names if name != CRITIC]
        if CRITIC not in names:
            state = move(state, *others)
        else:
            state = move(state, CRITIC)
            state = lax.cond(is_due, lambda s: move(s, *others), lambda s: s, state)
        return end_step(state, lane), losses

    def _losses(
        self, models: Models, batch: Batch, lane: LaneParameters, key: PRNGKeyArray
    ) -> Losses:
        """The result of the user's function."""
        given = self._function(self.parts.called(models, lane.traced), batch, key)
        return {name: jnp.asarray(given[name]) for name in self._train.models}

    def _game(
        self, batch: Batch, lane: LaneParameters, key: PRNGKeyArray, *, in_training: bool
    ) -> Game | None:
        """A game over a batch; None if the objective is user-defined."""
        objective = OBJECTIVES.get(self._train.objective)
        if objective is None:
            return None
        real = jnp.asarray(batch.x)
        return Game(objective, self.parts, self._latent_size, real, lane, key, in_training)

    def _in_own_units(self, x: Float[Array, "rows features"], data: Batch) -> Array:
        if data.scale is not None and data.shift is not None:
            x = (x - data.shift) / data.scale
        scale, mean = (jnp.asarray(by, x.dtype) for by in (self.data.x_scale, self.data.x_mean))
        return x * scale + mean

    @property
    def _latent_size(self) -> int:
        size = self.settings.model.parts[GENERATOR].in_size  # type: ignore[union-attr]
        assert size is not None, "checked in the study file"
        return size

    @property
    def _train(self) -> CoupledTable:
        assert isinstance(self.settings.train, CoupledTable)
        return self.settings.train

    @cached_property
    def _function(self) -> Callable[..., Mapping[str, Any]]:
        assert is_function(self._train.objective)
        return load_function(self._train.objective, self.settings.base_dir)

    @cached_property
    def _measures(self) -> Sequence[Measure]:
        return [measure_of(name, self.data) for name in self._train.metrics]
