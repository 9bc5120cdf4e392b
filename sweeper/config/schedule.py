"""`[schedule]`: how many trials train at a time, and how often they are judged."""

from __future__ import annotations

from sweeper.config.kinds import Count
from sweeper.config.table import Table


class ScheduleTable(Table):
    """`[schedule]`; without `round_epochs` a round is a quarter of the epochs."""

    parallel: Count = 32
    round_epochs: Count | None = None
