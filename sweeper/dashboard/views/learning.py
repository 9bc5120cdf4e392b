"""View 4: learning curves of selected trials over a band of all trials."""

from __future__ import annotations

import numpy as np

from sweeper.dashboard.blocks import Block, axis, chart, choice, note, upright
from sweeper.dashboard.curves import Curves, Key
from sweeper.dashboard.packing import rounded
from sweeper.dashboard.views.scales import wants_log

_CURVE_DIGITS = 5
KEPT_CURVES = 200  # number of trials per study whose curves a report contains
KEPT_EPOCHS = 60
KEPT = (
    f"This report contains the curves of {KEPT_CURVES} trials, the best first, with at most "
    f"{KEPT_EPOCHS} epochs each; `sweeper dashboard` shows all curves."
)
_NONE = (
    "No curves are published yet; a study publishes those of a round when the next round starts, "
    "or when the study ends."
)
_MAX_SELECTED = ["trial 1000"] * 6  # as many as the page can draw


def learning_view(curves: Curves, first: str) -> list[Block]:
    """One chart per metric and phase; `first` is the metric to show first, the objective."""
    keys = sorted(curves.keys(), key=lambda key: (key[0] != first, key[0]))
    if not keys:
        return [note(_NONE)]
    return [
        {"kind": "picker"},
        choice("metric", [(choice_of(key), [_chart(curves, key)]) for key in keys]),
    ]


def kept_note(curves: Curves, trials: int) -> list[Block]:
    """A note on curves that a report leaves out; empty if it contains all."""
    is_all = trials <= KEPT_CURVES and curves.n_epochs <= KEPT_EPOCHS
    return [] if is_all else [note(KEPT)]


def curve_record(curves: Curves, number: int, most: int | None = None) -> list[list[object]]:
    """The curves of one trial: metric, phase, epochs, values; at most `most` epochs of each.

    The first and the last epoch are kept, and others at even distances.
    """
    records: list[list[object]] = []
    for curve in curves.curve(number):
        epochs, values = curve["epochs"], rounded(curve["values"], _CURVE_DIGITS)
        n = len(epochs) if most is None else min(most, len(epochs))
        kept = np.linspace(0, len(epochs) - 1, n).round().astype(int).tolist()
        records.append(
            [
                curve["metric"],
                curve["phase"],
                [epochs[place] for place in kept],
                [values[place] for place in kept],
            ]
        )
    return records


def choice_of(key: Key) -> str:
    """The name of the chart of a metric over all phases, or in one."""
    metric, phase = key
    return metric if phase is None else f"{metric} in phase {phase}"


def _chart(curves: Curves, key: Key) -> Block:
    metric, phase = key
    band = curves.band(key)
    if not band:
        return note(f"No value of {choice_of(key)} can be drawn.")
    log = wants_log(np.array([value for _, *row in band for value in row]))
    epochs = [epoch for epoch, *_ in band]
    columns = [rounded([row[place] for row in band], _CURVE_DIGITS) for place in (1, 2, 3)]
    low, middle, high = columns
    option = {
        "xAxis": axis("epoch", minInterval=1, min="dataMin", max="dataMax"),
        "yAxis": upright(axis(metric, log=log)),
        "legend": {},
        "series": [
            {
                "type": "custom",
                "name": "10 to 90 % of all trials",
                "renderer": "band",
                "tone": "band",
                "data": [list(row) for row in zip(epochs, low, high, strict=True)],
                "encode": {"x": 0, "y": [1, 2]},
                "clip": True,
            },
            {
                "type": "line",
                "name": "median of all",
                "tone": "muted",
                "data": [list(row) for row in zip(epochs, middle, strict=True)],
                "symbol": "none",
                "lineStyle": {"type": "dashed"},
            },
        ],
    }
    label = (
        f"{choice_of(key)} by epoch: 80 % of the trials lie between {low[-1]} and {high[-1]} "
        f"after epoch {epochs[-1]}, half of them below {middle[-1]}"
    )
    return chart(label, option, more_keys=_MAX_SELECTED, curves=[metric, phase])
