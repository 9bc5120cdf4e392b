"""View 8: where the time went: rounds by thread, worker and device."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweeper import wording
from sweeper.dashboard.blocks import (
    ZOOM,
    Block,
    axis,
    categories,
    chart,
    facts,
    grid,
    line,
    note,
    points,
    rows,
    size_of_points,
    upright,
)
from sweeper.dashboard.buckets import Buckets
from sweeper.dashboard.packing import rounded
from sweeper.dashboard.views.rounds import Rounds, by_rounds, round_names
from sweeper.dashboard.views.summary import busy, findings, most, totals, weighted

_LANE = 46
_WINDOW = 300  # buckets that the Gantt shows at first
_MARGIN = 150
_CLASSES = 40

_TIP = [
    ["round", "round", ""],
    ["bucket_id", "bucket", ""],
    ["class", "class", ""],
    ["strategy", "strategy", ""],
    ["lanes_live", "lanes live", ""],
    ["capacity", "capacity", ""],
    ["occupancy", "occupancy", ""],
    ["waste_fraction", "waste fraction", ""],
    ["epochs_from", "epochs from", ""],
    ["epochs_to", "epochs to", ""],
    ["compile_s", "compile", "s"],
    ["predicted_compile_s", "predicted compile", "s"],
    ["cache_hit", "cache hit", ""],
    ["train_s", "train", "s"],
    ["predicted_train_s", "predicted train", "s"],
    ["memory_predicted_bytes", "memory predicted", "MB"],
    ["memory_peak_bytes", "memory peak", "MB"],
    ["attempt", "attempt", ""],
    ["outcome", "outcome", ""],
    ["trials", "trials", ""],
]


def execution_view(buckets: Buckets) -> list[Block]:
    """A Gantt of the rounds, what they did with their lanes and time, and a table of classes."""
    if not len(buckets):
        return [note("No bucket is published yet.")]
    told = totals(buckets)
    return [
        facts(told.facts()),
        *(note(said, is_warning=True) for said in findings(told)),
        _gantt(buckets),
        grid(
            [_time(by := by_rounds(buckets)), _lanes(by), _foreseen(buckets), _memory(buckets)],
            "wide",
        ),
        _places(buckets),
        _classes(buckets),
    ]


def _gantt(buckets: Buckets) -> Block:
    places, _ = buckets.places
    _, compiling, _, ended = buckets.spans
    last = float(ended.max())
    option: dict[str, object] = {
        "xAxis": axis("time since the first bucket", "s", scale=False, min=0),
        "yAxis": categories("", places, inverse=True, splitLine={"show": True}),
        "legend": {},
        "grid": {"left": 8, "right": 24, "top": 34, "bottom": 50, "containLabel": True},
        "series": [
            {
                "type": "custom",
                "name": name,
                "renderer": renderer,
                "table": "buckets",
                "columns": ["lane", begin, end, "round"],
                "tone": tone,
                "encode": {"x": [1, 2], "y": 0},
                "tips": _TIP,
                "clip": True,
            }
            for name, renderer, begin, end, tone in (
                ("training", "bar", "training", "ended", "complete"),
                ("compiling", "thin", "compiling", "training", "pruned"),
            )
        ],
    }
    since = float(np.sort(compiling)[-_WINDOW]) if len(buckets) > _WINDOW else 0.0
    zoom = {"filterMode": "weakFilter", "start": 100 * since / last if last > 0 else 0, "end": 100}
    option["dataZoom"] = [
        {**ZOOM[0], **zoom},
        {**ZOOM[1], "zoomOnMouseWheel": "ctrl", "moveOnMouseWheel": False, **zoom},
    ]
    n = int(np.nanmax(buckets.numbers("round")))
    label = f"{len(buckets)} buckets of {n} rounds on {', '.join(places)}, over {last:.1f} seconds"
    return chart(label, option, _MARGIN + _LANE * len(places))


def _time(by: Rounds) -> Block:
    option = {
        "xAxis": categories("round", round_names(by)),
        "yAxis": upright(axis("seconds of all places", "s", scale=False)),
        "legend": {},
        "series": [
            {"type": "bar", "stack": "time", "name": name, "tone": tone, "data": rounded(data, 4)}
            for name, tone, data in (
                ("training", "complete", by.train_s),
                ("compiling", "pruned", by.compile_s),
                ("idle", "waiting", by.idle_s),
            )
        ],
    }
    return chart("seconds of training, compiling and idling, round by round", option, 260)


def _lanes(by: Rounds) -> Block:
    series = [
        line("lanes with a trial", rounded(100 * by.occupancy, 4), "complete", step="middle"),
        line(
            "padding and empty lanes",
            rounded(100 * by.waste, 4),
            "failed",
            step="middle",
            lineStyle={"type": "dashed"},
        ),
    ]
    option = {
        "xAxis": categories("round", round_names(by)),
        "yAxis": upright(axis("share of the work", "%", scale=False, min=0, max=100)),
        "legend": {},
        "series": series,
    }
    label = "occupancy of lanes and waste by padding and empty lanes, round by round"
    return chart(label, option, 260)


def _foreseen(buckets: Buckets) -> Block:
    """Predicted against real seconds, of compiling and of training."""
    pairs = [("predicted_train_s", "train_s"), ("predicted_compile_s", "compile_s")]
    both = [np.stack([buckets.numbers(name) for name in pair]) for pair in pairs]
    told = np.concatenate([values[:, (values > 0).all(axis=0)].ravel() for values in both])
    if not len(told):
        return note("The cost model foresaw nothing of this study.")
    low, high = float(told.min()) / 1.5, float(told.max()) * 1.5
    low, high = float(f"{low:.1g}"), float(f"{high:.1g}")
    named = zip(
        pairs, ("training", "compiling"), ("complete", "pruned"), ("circle", "rect"), strict=True
    )
    drawn = _points(buckets)
    series = [
        points(name, pair, tone, symbol=symbol, above=0, **drawn)
        for pair, name, tone, symbol in named
    ]
    equal = line("as predicted", [[low, low], [high, high]], "muted", lineStyle={"type": "dashed"})
    option = {
        "xAxis": axis("predicted", "s", log=True, min=low, max=high),
        "yAxis": upright(axis("measured", "s", log=True, min=low, max=high)),
        "legend": {},
        "series": [*series, {**equal, "silent": True}],
    }
    return chart("predicted against measured seconds of each bucket", option, 260)


def _memory(buckets: Buckets) -> Block:
    predicted, peak = (
        buckets.numbers("memory_predicted_bytes"),
        buckets.numbers("memory_peak_bytes"),
    )
    drawn = _points(buckets)
    series = [
        points("predicted", ("training", "memory_predicted_bytes"), "muted", **drawn),
        points("measured", ("training", "memory_peak_bytes"), "best", symbol="rect", **drawn),
    ]
    known = [
        s for s, values in zip(series, (predicted, peak), strict=True) if np.isfinite(values).any()
    ]
    if not known:
        return note("No memory was predicted or measured.")
    option = {
        "xAxis": axis("time since the first bucket", "s", scale=False),
        "yAxis": upright(axis("memory of a bucket", "MB", scale=False)),
        "legend": {},
        "series": known,
    }
    said = "" if len(known) == 2 else "; devices of this kind tell none that was measured"
    return chart(f"memory of each bucket, predicted and measured{said}", option, 260)


def _points(buckets: Buckets) -> dict[str, Any]:
    """How buckets are drawn as points."""
    return {"table": "buckets", "symbolSize": size_of_points(len(buckets)), "tips": _TIP}


def _places(buckets: Buckets) -> Block:
    records = [
        [
            place.name,
            place.buckets,
            *rounded([place.train_s, place.compile_s, place.idle_s], 4),
            wording.percent(place.busy),
        ]
        for place in busy(buckets)
    ]
    headings = ["place", "buckets", "training (s)", "compiling (s)", "idle (s)", "busy"]
    return rows("threads, workers and devices", headings, records)


def _classes(buckets: Buckets) -> Block:
    """A row a class: what it trained, what that took, and what was foreseen."""
    names, codes = buckets.texts("class_id")
    strategies, kinds = buckets.texts("strategy")
    train_s = np.nan_to_num(buckets.numbers("train_s"))
    compile_s = np.nan_to_num(buckets.numbers("compile_s"))
    records: list[list[object]] = []
    order = sorted(range(len(names)), key=lambda code: -(train_s + compile_s)[codes == code].sum())
    for code in order[:_CLASSES]:
        mine = codes == code
        first = int(np.flatnonzero(mine)[0])
        foreseen = np.nansum(buckets.numbers("predicted_train_s")[mine])
        records.append(
            [
                buckets.class_names[names[code]],
                strategies[kinds[first]] if kinds[first] >= 0 else "",
                *rounded([buckets.numbers("capacity")[first], mine.sum()]),
                *rounded([compile_s[mine].sum(), train_s[mine].sum(), foreseen], 4),
                wording.percent(weighted(buckets.numbers("occupancy")[mine], train_s[mine])),
                wording.percent(weighted(buckets.numbers("waste_fraction")[mine], train_s[mine])),
                most(buckets.numbers("memory_predicted_bytes")[mine]),
            ]
        )
    left = len(names) - len(records)
    caption = "classes" + (
        f", the {len(records)} that took longest of {len(names)}" if left else ""
    )
    headings = ["class", "strategy", "lanes", "buckets", "compiling (s)", "training (s)"]
    headings += ["predicted training (s)", "occupancy", "waste", "predicted memory (MB)"]
    return rows(caption, headings, records)
