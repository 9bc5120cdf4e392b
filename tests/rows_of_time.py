"""What must be true of the spans of every place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sweeper.results.timeline import Span


def check_rows(spans: Sequence[Span]) -> None:
    """Fail if two spans of one place overlap, or one has no length."""
    for place in {span.place for span in spans}:
        mine = (span for span in spans if span.place == place)
        times = sorted((span.started_at, span.finished_at) for span in mine)
        assert all(started < finished for started, finished in times)
        assert all(before[1] <= after[0] for before, after in pairwise(times))
