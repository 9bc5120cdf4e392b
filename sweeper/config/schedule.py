"""`[schedule]`: how many trials train at a time, and how often they are judged."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from sweeper.config.kinds import Count
from sweeper.config.table import Table


class ScheduleTable(Table):
    """`[schedule]`; without `round_epochs` a round is a quarter of the epochs, or longer."""

    parallel: Count = Field(default=32, description="trials in training at a time")
    round_epochs: Count | None = Field(
        default=None,
        description="most epochs between two commits; else a quarter, or asha's rungs",
        examples=[5],
    )

    def round_ends(self, epochs: int, rungs: Iterable[int], parts: int = 4) -> tuple[int, ...]:
        """The epochs before the last of `epochs` after which a round may end.

        They are the `rungs` of the pruner and every `round_epochs`; if neither is given, a
        `parts`-th of the epochs.
        """
        rungs = tuple(rungs)
        if self.round_epochs is None and rungs:
            return rungs
        every = self.round_epochs or max(1, epochs // parts)
        return tuple(sorted({*rungs, *range(every, epochs, every)}))
