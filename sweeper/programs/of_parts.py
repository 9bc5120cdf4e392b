"""What programs that train a model of several parts have in common: how states come and go."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import optax
from jaxtyping import PyTree

from sweeper.config import Settings
from sweeper.models.part_networks import PartNetworks
from sweeper.programs.part_states import exact_shapes, exact_state, fresh, padded_state, shapes
from sweeper.programs.parts import opt_states, optimizers_of, with_model, with_opt_states
from sweeper.programs.program import AnyArray, Lane, OfUse, State, whole
from sweeper.programs.tabled import Tabled


@dataclass(frozen=True)
class OfParts(Tabled):
    """A program whose state has a vector and an optimizer state for each part; see `Program`.

    What trains the parts is left to the programs themselves: `lane`, `begin`, `step`, `evaluate`.
    """

    parts: PartNetworks

    @abstractmethod
    def lane(self, number: int, settings: Settings, replicate: int = 0) -> Lane: ...

    @abstractmethod
    def begin(self, state: State, lane: Lane) -> State: ...

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
