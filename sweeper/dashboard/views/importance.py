"""View 5: how much each parameter matters, as `run` has published it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweeper.dashboard.blocks import Block, axis, categories, chart, choice, note
from sweeper.dashboard.packing import rounded

_READING = (
    "What sets the best tenth of the trials apart from the others (PED-ANOVA). That need not be "
    "what moves the value most over its whole range, which the slices show."
)
_ROW = 22
_MARGIN = 90


def importance_view(rows: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Bars of PED-ANOVA, the largest first, of each objective."""
    if not rows:
        return [
            note(
                "Not computed yet: `sweeper run` computes it in the background, once enough trials "
                "are complete, and publishes it as importance.parquet."
            )
        ]
    objectives = list(dict.fromkeys(str(row["metric"]) for row in rows))
    alternatives = [
        (name, [_chart(name, [row for row in rows if row["metric"] == name])])
        for name in objectives
    ]
    return [note(_READING), choice("objective", alternatives)]


def by_importance(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns of parameters, those that matter most to any objective first."""
    known: dict[str, float] = {}
    for row in rows:
        name, share = f"params_{row['parameter']}", float(row["importance"] or 0.0)
        known[name] = max(share, known.get(name, 0.0))
    return sorted(names, key=lambda name: -known.get(name, 0.0))


def _chart(objective: str, rows: Sequence[Mapping[str, Any]]) -> Block:
    ordered = sorted(rows, key=lambda row: row["importance"] or 0.0)
    names = [str(row["parameter"]) for row in ordered]
    shares = rounded([float(row["importance"] or 0.0) for row in ordered], 4)
    bar = {"type": "bar", "name": "importance", "data": shares, "tone": "complete"}
    option = {
        "xAxis": axis("importance (share of what parameters explain)", scale=False),
        "yAxis": categories("", names),
        "series": [bar],
    }
    most = ", ".join(f"{row['parameter']} {row['importance']:.2f}" for row in ordered[::-1][:5])
    trials = max(int(row.get("n_trials") or 0) for row in rows)
    label = f"importance of parameters for {objective}, of {trials} trials: {most}"
    return chart(label, option, _MARGIN + _ROW * len(names))
