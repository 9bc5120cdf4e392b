"""`alternating`: phases that train some parts of a model and leave the others unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, Int

from sweeper.config import Settings
from sweeper.config.alternating import DATA, AlternatingTable
from sweeper.config.optimizer import OptimizersTable
from sweeper.config.settings import USE_OPTIMIZER_LR
from sweeper.models.keys import key_of
from sweeper.programs.losses import Criterion, criterion_of
from sweeper.programs.metrics import Metric, metric_of
from sweeper.programs.parts import OfParts, end_step, in_blocks
from sweeper.programs.program import (
    AnyArray,
    Batch,
    Epochs,
    Hparams,
    LaneParameters,
    Metrics,
    State,
    measured_parameters,
)
from sweeper.programs.schedules import hparams_of


@dataclass(frozen=True)
class Alternating(OfParts):
    """Minimises the loss of the epoch's phase over the parts that the phase trains; see `Program`.

    Every part has its own optimizer state, so that a phase does not touch those of frozen parts, as
    in `optax.multi_transform`. If parts share an optimizer, the norm of gradients is clipped over
    all parts that a phase trains.

    The epoch determines the phase: first the warm-up, then cycles. In a `map` loop, the lengths of
    phases may differ between lanes at no cost: a lane takes one branch, and `traced` names the
    lengths that it gets. Under `vmap`, a branch that differs between lanes is computed for all of
    them. Lanes are therefore always in the same epoch there (`has_clock`), and lengths split
    trials: a searched length costs one program per value.

    `phase` is the only one compiled in, if there is one program per phase. Parallel lanes may then
    be in different epochs: those in another phase wait for their own program.
    """

    traced: frozenset[str] = frozenset()
    phase: str | None = None

    def traced_in(self, settings: Settings) -> dict[str, int]:
        assert isinstance(settings.train, AlternatingTable)
        lengths = {k: v for k, v in settings.train.lengths.items() if k in self.traced}
        return self.parts.traced(settings) | lengths

    def step(
        self, state: State, batch: Batch, lane: LaneParameters, epoch: Int[Array, ""]
    ) -> tuple[State, Metrics]:
        if self.phase is not None:
            return self._step_in(self.phase, state, batch, lane)
        branches = [partial(self._step_in, name) for name in self._train.by_phase]
        return lax.switch(self._phase_at(epoch, lane), branches, state, batch, lane)

    def evaluate(self, state: State, data: Batch, lane: LaneParameters) -> Metrics:
        models = measured_parameters(state)
        outputs = in_blocks(lambda x: self.parts.outputs(models, x, lane.traced), data.x)
        losses = self._losses(outputs, data.y)
        judged = self._train.by_loss[self._train.of_data or ""].of
        return (*losses, *(metric(outputs[judged], data.y) for metric in self._metrics))

    @property
    def epochs(self) -> Epochs:
        return replace(super().epochs, has_clock=self.phase is None)

    @property
    def phases(self) -> Mapping[str, Alternating]:
        if self._train.switching == "cond":
            return {}
        return {name: replace(self, phase=name) for name in self._train.by_phase}

    def _step_in(
        self, name: str, state: State, batch: Batch, lane: LaneParameters
    ) -> tuple[State, Metrics]:
        """One update in the phase `name`; every loss is measured, not only the minimised one."""
        phase = self._train.by_phase[name]
        trained = {part: state.model[part] for part in phase.trains}
        key = None
        if self.parts.needs_keys:
            key = jax.random.fold_in(key_of(lane.key), state.step)

        def loss(trained: Any) -> tuple[Float[Array, ""], Metrics]:
            vectors = {**state.model, **trained}
            outputs = self.parts.outputs(vectors, batch.x, lane.traced, key, lane.hparams)
            value = self._minimised(phase.loss, outputs, batch.y)
            return value, self._losses(outputs, batch.y)

        (value, losses), gradients = jax.value_and_grad(loss, has_aux=True)(trained)
        gradients = self._clipped(gradients, lane.hparams)
        ordered = {part: gradients[part] for part in phase.trains}
        own = jax.tree.map(lambda _: value, ordered)
        return end_step(self.apply_gradients(state, ordered, own, lane, name), lane), losses

    def _losses(self, outputs: Mapping[str, Array], y: AnyArray) -> Metrics:
        """Every loss as reported, in the data's own units if its parts have them."""
        losses: list[Float[Array, ""]] = []
        for name, criterion in self._criteria.items():
            of, against = self._compared(name, outputs, y)
            losses.append(criterion.reported(criterion.minimised(of, against, {}), of, against, {}))
        return tuple(losses)

    def _minimised(self, name: str, outputs: Mapping[str, Array], y: AnyArray) -> Array:
        return self._criteria[name].minimised(*self._compared(name, outputs, y), {})

    def _compared(
        self, name: str, outputs: Mapping[str, Array], y: AnyArray
    ) -> tuple[Array, AnyArray]:
        """What a loss compares: a part's output with its fixed target."""
        loss = self._train.by_loss[name]
        if loss.against == DATA:
            return outputs[loss.of], y
        return outputs[loss.of], lax.stop_gradient(outputs[loss.against])

    def _phase_at(self, epoch: Int[Array, ""], lane: LaneParameters) -> Int[Array, ""]:
        """The index of an epoch's phase; `AlternatingTable.phase_at` is the same for one trial."""
        train, names = self._train, list(self._train.by_phase)

        def length(key: str) -> Int[Array, ""]:
            return jnp.asarray(lane.traced.get(key, train.lengths[key]))

        lengths = [length(f"phases.{name}.epochs") for name in train.cycle]
        warmup = train.warmup
        before = epoch if warmup is None else epoch - length("warmup.epochs")
        ends = jnp.cumsum(jnp.stack(lengths))
        place = jnp.sum(before % ends[-1] >= ends)
        index = jnp.asarray([names.index(name) for name in train.cycle])[place]
        return index if warmup is None else jnp.where(before < 0, names.index(warmup.phase), index)

    def _clipped(self, gradients: Any, hparams: Hparams) -> Any:
        if isinstance(self.settings.optimizer, OptimizersTable):
            return gradients  # each optimizer clips its own norm
        if not self.settings.has("optimizer.clip_norm"):
            return gradients
        clip = optax.clip_by_global_norm(hparams["optimizer.clip_norm"])  # type: ignore[arg-type]
        return clip.update(gradients, clip.init(gradients))[0]

    def hparams_in(self, part: str, hparams: Hparams, phase: str) -> dict[str, Any]:
        own = hparams_of(part, hparams, self.settings)
        key = f"train.phases.{phase}.lr"
        if key in hparams:
            rate = hparams[key]
            if self.settings.has(key):  # only some trials draw it
                rate = jnp.where(rate == USE_OPTIMIZER_LR, own["optimizer.lr"], rate)
            own["optimizer.lr"] = rate
        return own

    def phase_of(self, part: str) -> str:
        """The first phase of a cycle that trains the part, else the warm-up; empty if none does."""
        warmup = () if self._train.warmup is None else (self._train.warmup.phase,)
        by_phase, phases = self._train.by_phase, (*self._train.cycle, *warmup)
        return next((phase for phase in phases if part in by_phase[phase].trains), "")

    def settings_of(self, part: str, settings: Settings) -> Settings:
        """The settings of a part's optimizer; a shared one clips the norm of all parts together."""
        part_settings = settings.of_part(part)
        if isinstance(settings.optimizer, OptimizersTable):
            return part_settings
        return replace(part_settings, optional=part_settings.optional - {"optimizer.clip_norm"})

    @property
    def _train(self) -> AlternatingTable:
        assert isinstance(self.settings.train, AlternatingTable)
        return self.settings.train

    @cached_property
    def _criteria(self) -> Mapping[str, Criterion]:
        """The criterion of each loss; without a unit for parts not compared with the data."""
        in_units = parts_in_units(self._train)
        found: dict[str, Criterion] = {}
        for name, loss in self._train.by_loss.items():
            of_data = loss.against == DATA
            data = self.data if of_data else replace(self.data, class_weights=())
            criterion = criterion_of(loss.kind, self.settings, data)
            is_in_units = of_data or {loss.of, loss.against} <= in_units
            found[name] = criterion if is_in_units else replace(criterion, degree=0)
        return found

    @cached_property
    def _metrics(self) -> Sequence[Metric]:
        return [metric_of(name, self.settings, self.data) for name in self._train.metrics]


def parts_in_units(train: AlternatingTable) -> frozenset[str]:
    """The parts whose outputs are in the units of the targets, or follow such a part."""
    found = {loss.of for loss in train.by_loss.values() if loss.against == DATA}
    for _ in train.by_loss:
        found |= {loss.of for loss in train.by_loss.values() if loss.against in found}
    return frozenset(found)
