"""View 8: where the time went: rounds by thread, worker and device."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweeper import wording
from sweeper.dashboard.blocks import (
    ZOOM,
    Block,
    Option,
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

_LANE = 60
_WINDOW = 300  # buckets that the Gantt shows at first
_MARGIN = 110
_LETTER, _WIDEST_NAME = 6.5, 190  # pixels
_CLASSES = 40

_SPENT = [
    "buckets",
    "training (s)",
    "predicted (s)",
    "occupancy",
    "waste",
    "programs",
    "compiling (s)",
    "predicted (s)",
    "predicted (MB)",
    "peak (MB)",
]
_READING = (
    "A bar is a bucket, with its lanes that hold a trial of all that it has; neighbouring rounds "
    "have different shades. A click selects its trials, Ctrl and the wheel zoom."
)
_TIP = [
    ["round", "round", ""],
    ["bucket_id", "bucket", ""],
    ["class", "class", ""],
    ["strategy", "strategy", ""],
    ["lanes_live", "lanes live", ""],
    ["capacity", "capacity", ""],
    ["occupancy", "lanes with a trial", "%"],
    ["waste_fraction", "padding and empty lanes", "%"],
    ["epochs_from", "epochs from", ""],
    ["epochs_to", "epochs to", ""],
    ["compile_s", "compile", "s"],
    ["predicted_compile_s", "predicted compile", "s"],
    ["from_cache", "from the cache", ""],
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
        note(_READING),
        _gantt(buckets),
        grid(
            [_time(by := by_rounds(buckets)), _lanes(by), _foreseen(buckets), _memory(buckets)],
            "wide",
        ),
        _places(buckets),
        _classes(buckets),
    ]


def _gantt(buckets: Buckets) -> Block:
    """A line a place: what it trained and compiled when, with how many lanes and how much waste."""
    places, _ = buckets.places
    _, compiling, _, ended = buckets.spans
    last = float(ended.max())
    left = min(_WIDEST_NAME, 16 + _LETTER * max(map(len, places)))
    option: dict[str, object] = {
        "xAxis": axis("time since the first bucket", "s", scale=False, min=0),
        "yAxis": categories(
            "", places, inverse=True, axisLabel={"width": left - 12, "overflow": "truncate"}
        ),
        "legend": {"type": "scroll"},
        "grid": {"left": left, "right": 24, "top": 34, "bottom": 68},
        "series": [
            _bars("training", "used", "complete", "training", "ended", "used"),
            _bars("padding and empty lanes", "unused", "failed", "training", "ended", "unused"),
            _bars("compiling", "below", "pruned", "compiling", "training", cached="no"),
            _bars("from the cache", "below", "best", "compiling", "training", cached="yes"),
            _bars("training as predicted", "mark", "muted", "training", "foreseen"),
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


def _bars(
    name: str, renderer: str, tone: str, begin: str, end: str, share: str = "", *, cached: str = ""
) -> Option:
    """A bar a bucket from `begin` to `end`, as high as its `share` where one is named."""
    drawn = ["lane", begin, end, "round", *([share, "lanes_live", "capacity"] if share else [])]
    return {
        "type": "custom",
        "name": name,
        "renderer": renderer,
        "table": "buckets",
        "columns": drawn,
        "tone": tone,
        "encode": {"x": [1, 2], "y": 0},
        "tips": _TIP,
        "clip": True,
        **({"where": ["from_cache", cached]} if cached else {}),
    }


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
    low = 10.0 ** int(np.floor(np.log10(told.min())))  # a logarithmic axis names powers of ten
    high = 10.0 ** int(np.ceil(np.log10(told.max() * 1.0001)))
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
    """A row a thread, worker and device: what it did with its time and its lanes."""
    codes = buckets.places[1]
    records = [
        [
            place.name,
            *rounded([place.idle_s], 4),
            wording.percent(place.busy),
            *_spent(buckets, codes == code),
        ]
        for code, place in enumerate(busy(buckets))
    ]
    return rows("threads, workers and devices", ["place", "idle (s)", "busy", *_SPENT], records)


def _classes(buckets: Buckets) -> Block:
    """A row a class: what it trained, what that took, and what was foreseen."""
    names, codes = buckets.texts("class_id")
    took = np.nan_to_num(buckets.numbers("train_s")) + np.nan_to_num(buckets.numbers("compile_s"))
    order = sorted(range(len(names)), key=lambda code: -took[codes == code].sum())
    records = [
        [
            buckets.class_names[names[code]],
            *rounded([buckets.numbers("capacity")[codes == code][0]]),
            *_spent(buckets, codes == code),
        ]
        for code in order[:_CLASSES]
    ]
    left = len(names) - len(records)
    caption = "classes" + (
        f", the {len(records)} that took longest of {len(names)}" if left else ""
    )
    return rows(caption, ["class", "lanes", *_SPENT], records)


def _spent(buckets: Buckets, mine: np.ndarray) -> list[object]:
    """What `_SPENT` names, of some buckets."""
    train_s = np.nan_to_num(buckets.numbers("train_s")[mine])
    shares = (
        weighted(buckets.numbers(name)[mine], train_s) for name in ("occupancy", "waste_fraction")
    )
    compiled = int((buckets.numbers("compile_s")[mine] > 0).sum())
    cached = int((buckets.numbers("cache_hit")[mine] == 1).sum())
    return [
        int(mine.sum()),
        *rounded([train_s.sum(), np.nansum(buckets.numbers("predicted_train_s")[mine])], 4),
        *map(wording.percent, shares),
        f"{compiled}, {cached} cached",
        *rounded(
            [
                np.nansum(buckets.numbers("compile_s")[mine]),
                np.nansum(buckets.numbers("predicted_compile_s")[mine]),
            ],
            4,
        ),
        *(most(buckets.numbers(f"memory_{name}_bytes")[mine]) for name in ("predicted", "peak")),
    ]
