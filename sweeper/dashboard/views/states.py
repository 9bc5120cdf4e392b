"""Points of trials, by how they ended."""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.dashboard.blocks import Option, points, size_of_points
from sweeper.dashboard.trials import Trials


def by_state(trials: Trials, columns: Sequence[str]) -> list[Option]:
    """Two columns of the trials that have a value: pruned ones below, complete ones above."""
    size = size_of_points(len(trials))
    return [
        points(
            "pruned",
            columns,
            "pruned",
            where=["state", "PRUNED"],
            symbol="triangle",
            symbolSize=size,
        ),
        points("complete", columns, "complete", where=["state", "COMPLETE"], symbolSize=size),
    ]
