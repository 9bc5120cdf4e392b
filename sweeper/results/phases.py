"""In which phase each epoch of a trial was trained, where a program has phases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from sweeper.config import StudyConfig
from sweeper.config.alternating import AlternatingTable
from sweeper.trial import Scalar

PhaseOf = Callable[[int, int], str]
"""The phase of a trial's epoch, by their numbers."""


def phase_of(
    config: StudyConfig, params_of: Callable[[int], Mapping[str, Scalar]]
) -> PhaseOf | None:
    """The phases of a study, if it has any; `params_of` is asked where they are searched."""
    train = config.train
    if not isinstance(train, AlternatingTable):
        return None
    searched = (*config.search, *config.same_as)
    is_searched = any(key.startswith(("train.phases.", "train.warmup.")) for key in searched)
    if not is_searched:
        return lambda number, epoch: train.phase_at(epoch)

    @cache
    def own(number: int) -> AlternatingTable:
        filled = config.filled(params_of(number)).train
        assert isinstance(filled, AlternatingTable)
        return filled

    return lambda number, epoch: own(number).phase_at(epoch)
