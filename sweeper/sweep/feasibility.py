"""Finds trials that are certain to violate a constraint, so that they are not trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweeper.config import StudyConfig
from sweeper.config.study import N_PARAMETERS
from sweeper.scheduler.signature import StructureOf
from sweeper.sweep.verdicts import excesses
from sweeper.trial import TrialSpec


@dataclass(frozen=True, slots=True)
class Feasibility:
    """The check of a study's trials by their number of parameters."""

    config: StudyConfig
    structure_of: StructureOf

    def may_win(self, spec: TrialSpec) -> bool:
        """Whether a trial may win; otherwise it is not trained.

        A trial with too many parameters may not, unless their number is an objective, whose values
        the sampler learns from. Before edition 3, all trials are trained.
        """
        if not self._refuses:
            return True
        return all(excess <= 0 for excess in self.known_excesses(spec).values())

    def may_win_between(self, smallest: TrialSpec, largest: TrialSpec) -> bool:
        """Whether a trial may win whose size is that of one of these trials, or between them."""
        bounds = [one for one in self.config.study.constraints if one.metric == N_PARAMETERS]
        if not bounds or not self._refuses:
            return True
        sizes = [self.structure_of(spec).n_parameters for spec in (smallest, largest)]
        least, greatest = min(sizes), max(sizes)
        return not any(
            (bound.max is not None and least > bound.max)
            or (bound.min is not None and greatest < bound.min)
            for bound in bounds
        )

    @property
    def _refuses(self) -> bool:
        """Whether trials that violate a constraint by their size are not trained."""
        return self.config.edition >= 3 and N_PARAMETERS not in self.config.study.objectives

    def known_excesses(self, spec: TrialSpec) -> Mapping[str, float]:
        """By how much a trial violates each constraint, as far as is known before training.

        If the function that builds its model raises, nothing is known, and the trial is trained, so
        that it fails with the error. Before edition 4 it counts as a model without parameters.
        """
        constraints = self.config.study.constraints
        if not any(constraint.metric == N_PARAMETERS for constraint in constraints):
            return {}
        n_parameters = self.structure_of(spec).n_parameters
        if not n_parameters and self.config.edition > 3:
            return {}
        return excesses(constraints, {N_PARAMETERS: float(n_parameters)})

    def feasible(self, specs: Iterable[TrialSpec]) -> list[TrialSpec]:
        """Those that are trained."""
        return [spec for spec in specs if self.may_win(spec)]

    def with_replacements(
        self,
        specs: Sequence[TrialSpec],
        waiting: Sequence[TrialSpec],
        left: int,
        ask: Callable[[int], Sequence[TrialSpec]],
    ) -> list[TrialSpec]:
        """A round's trials, and one more for each that is not trained.

        Those are `waiting` ones, then at most `left` new ones. Nothing replaces a replacement.
        """
        lost = len(specs) - len(self.feasible(specs))
        others = waiting[:lost]
        return [*specs, *others, *ask(min(lost - len(others), left))]
