"""What programs take from the tables of a study file: what they measure, and when lanes end."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Self

from jaxtyping import Array, Bool, Float

from sweeper.config import Settings
from sweeper.programs.base import has_ended, remembered
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.program import Lane, State


@dataclass(frozen=True)
class Tabled(ABC):
    """A program of this package; see `Program`. Every epoch is like another unless it says so.

    `settings` are those of any trial of the class; what they differ in is in each trial's lane.
    """

    settings: Settings
    data: DataSpec

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.settings.train.metric_names

    @property
    def test_metrics(self) -> tuple[str, ...]:
        return self.settings.train.test_metric_names if self.data.has_test else ()

    @property
    def has_clock(self) -> bool:
        return False

    @property
    def phases(self) -> tuple[str, ...]:
        return ()

    def in_phase(self, name: str) -> Self:
        raise AssertionError("there are no phases")

    def roomy(self, state: State) -> State:
        return state

    @property
    def ends_early(self) -> bool:
        return self.settings.stops is not None

    def remember(self, state: State, row: Float[Array, " metrics"], lane: Lane) -> State:
        return remembered(self.settings, self.metrics, state, row, lane)

    def has_ended(self, state: State, lane: Lane) -> Bool[Array, ""]:
        return has_ended(state, lane)
