"""`[schedule]`: how many trials train at a time, and how often they are judged."""

from __future__ import annotations

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
