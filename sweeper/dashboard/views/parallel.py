"""View 6: the best trials as lines through their parameters; brushing an axis filters the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sweeper.dashboard.blocks import Block, Option, chart, note
from sweeper.dashboard.packing import rounded
from sweeper.dashboard.trials import PublishedTrials
from sweeper.dashboard.views.scales import (
    AT_THE_EDGE,
    choices_of,
    is_log,
    none_yet,
    steps,
    wants_log,
    worst_edge,
)
from sweeper.results import formatting

BEST = 300
_MAX_AXES = 12
_AXIS = 96
_MAX_DIVERGED = 100


def parallel_view(trials: PublishedTrials, parameters: Sequence[str]) -> list[Block]:
    """The best trials; `parameters` are their columns, the most important first."""
    best = trials.best(BEST)
    if not len(best) and not trials.diverged.any():
        return [note(none_yet(trials))]
    shown = list(parameters[:_MAX_AXES])
    columns = [*shown, *trials.objectives]
    axes = [_axis(trials, name, place) for place, name in enumerate(columns)]
    numbers = trials.numbers("trial_number")[best].astype(int).tolist()
    value = trials.numbers("value")[best]
    diverged = _diverged_lines(trials, columns)
    option: Option = {
        "parallelAxis": axes,
        "parallel": {"left": 50, "right": 90, "top": 80, "bottom": 70},
        "legend": {"data": [own["name"] for own in diverged]},
        "series": [_lines("the best trials", columns, numbers), *diverged],
    }
    label = "parameters of trials that diverged; none is complete"
    if len(best):
        option["visualMap"] = {**_colors(trials, value), "dimension": len(shown)}
        low, high = rounded([value.min(), value.max()])
        low, high = map(formatting.number, (low, high))
        values = f"their {trials.metrics[0]} lies between {low} and {high}"
        label = f"parameters and values of the best {len(best)} trials; {values}"
    said = (
        f"The best {len(best)} of {int(trials.are('COMPLETE').sum())} complete trials. Drag along "
        "an axis to filter the table and every chart by that range; click the axis to remove the "
        "filter. The filters above the table do the same with the keyboard."
    )
    if len(parameters) > len(shown):
        said += f" Axes: the {len(shown)} most important of {len(parameters)} parameters."
    if any(trials.table[name].null_count for name in shown):
        said += " Lines are broken at parameters that a trial does not have."
    if diverged:
        said += f" {AT_THE_EDGE}"
    return [note(said), chart(label, option, 400, width=_AXIS * len(axes))]


def _colors(trials: PublishedTrials, value: np.ndarray) -> Option:
    """The scale of the first objective, on which a few bad trials do not hide the others."""
    is_maximized, metric = trials.directions[0] == "maximize", trials.metrics[0]
    least, most = np.quantile(value, (0.1, 1) if is_maximized else (0, 0.9)).tolist()
    low, high, *ends = rounded([value.min(), value.max(), least, most])
    return {
        "min": ends[0],
        "max": ends[1] if ends[1] != ends[0] else (ends[1] or 0) + 1e-9,
        "seriesIndex": 0,
        "orient": "horizontal",
        "left": 4,
        "bottom": 4,
        "best": "high" if is_maximized else "low",
        "text": [formatting.number(high), f"{metric} {formatting.number(least)} or less"]
        if is_maximized
        else [f"{formatting.number(most)} or more", f"{metric} {formatting.number(low)}"],
        "itemWidth": 12,
        "itemHeight": 100,
        "precision": 4,
    }


def _lines(name: str, columns: Sequence[str], numbers: Sequence[int], **more: Any) -> Option:
    """Lines of these trials, with a point for each of these columns."""
    return {
        "type": "parallel",
        "name": name,
        "table": "trials",
        "columns": list(columns),
        "only": list(numbers),
        "lineStyle": {"width": 1.2, "opacity": 0.55},
        "inactiveOpacity": 0.04,
        "activeOpacity": 0.9,
        "progressive": 0,
        **more,
    }


def _diverged_lines(trials: PublishedTrials, columns: Sequence[str]) -> list[Option]:
    """Lines of diverged trials, up to a maximum, which end at the worst edge."""
    places = np.flatnonzero(trials.diverged)
    if not len(places):
        return []
    shown = places[:: -(-len(places) // _MAX_DIVERGED)]
    numbers = trials.numbers("trial_number")[shown].astype(int).tolist()
    worst = {
        name: worst_edge(trials, index, log=wants_log(trials.numbers(name)))
        for index, name in enumerate(trials.objectives)
    }
    name = formatting.DIVERGED
    if len(shown) < len(places):
        name += f", {len(shown)} of {len(places)}"
    edges, look = (
        [worst.get(it) for it in columns],
        {"width": 1.2, "opacity": 0.5, "type": "dashed"},
    )
    return [_lines(name, columns, numbers, edges=edges, tone=formatting.DIVERGED, lineStyle=look)]


def _axis(trials: PublishedTrials, name: str, place: int) -> Option:
    title = trials.title(name)
    shown: Option = {
        "dim": place,
        "name": title,
        "column": name,
        "nameRotate": 14,
        "nameGap": 12,
        "nameTruncate": {"maxWidth": 92},
    }
    if name in trials.objectives:
        log = wants_log(trials.numbers(name))
        return {**shown, **({"type": "log"} if log else {"type": "value", "scale": True})}
    texts = choices_of(trials, name)
    if texts is not None:
        return {**shown, "type": "category", "data": texts}
    entry = trials.parameters[name]
    values = trials.numbers(name)
    if is_log(entry, values):
        return {**shown, "type": "log", **steps(entry), **_range(entry, values)}
    return {**shown, "type": "value", "scale": True, **steps(entry), **_range(entry, values)}


def _range(entry: Any, values: np.ndarray) -> dict[str, Any]:
    """The bounds of what is searched, including extra values next to the range."""
    low, high = entry.get("low"), entry.get("high")
    if low is None or high is None:
        return {}
    finite = values[np.isfinite(values)]
    if not len(finite):
        return {"min": low, "max": high}
    return {"min": min(low, float(finite.min())), "max": max(high, float(finite.max()))}
