"""View 8: where the time went: rounds by thread, worker and device."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    size_of_points,
    upright,
)
from sweeper.dashboard.buckets import Buckets
from sweeper.dashboard.packing import rounded
from sweeper.dashboard.views.rounds import Rounds, by_rounds, round_names
from sweeper.dashboard.views.summary import classes_table, findings, places_table, totals

_LANE = 60
_WINDOW = 300  # buckets that the Gantt shows at first
_MARGIN = 110
_LETTER, _WIDEST_NAME = 6.5, 190  # pixels

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
        places_table(buckets),
        classes_table(buckets),
    ]


def _gantt(buckets: Buckets) -> Block:
    """A line a place: what it trained and compiled when, with how many lanes and how much waste."""
    places, _ = buckets.places
    _, compiling, _, ended = buckets.spans
    last = float(ended.max())
    left = min(_WIDEST_NAME, 16 + _LETTER * max(map(len, places)))
    option: dict[str, object] = {
        "xAxis": axis(
            "time since the first bucket", "s", scale=False, min=0, max=_rounded_up(last)
        ),
        "yAxis": categories(
            "", places, inverse=True, axisLabel={"width": left - 12, "overflow": "truncate"}
        ),
        "legend": {},
        "grid": {"left": left, "right": 24, "top": 34, "bottom": 68},
        "series": _drawn(buckets),
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


def _drawn(buckets: Buckets) -> list[Option]:
    """The bars of the Gantt, of what is known of these buckets."""
    hits, known = buckets.numbers("cache_hit"), np.isfinite
    bars = [
        (True, ("training", "used", "complete", "training", "ended", "used"), ""),
        (
            known(buckets.numbers("waste_fraction")).any(),
            ("padding and empty lanes", "unused", "failed", "training", "ended", "unused"),
            "",
        ),
        ((hits == 0).any(), ("compiling", "below", "pruned", "compiling", "training"), "no"),
        ((hits == 1).any(), ("from the cache", "below", "best", "compiling", "training"), "yes"),
        (
            known(buckets.numbers("predicted_train_s")).any(),
            ("training as predicted", "mark", "muted", "training", "foreseen"),
            "",
        ),
    ]
    return [_bars(*drawn, cached=cached) for is_known, drawn, cached in bars if is_known]


def _rounded_up(seconds: float) -> float:
    """The end of an axis to so many seconds, in three digits."""
    if seconds <= 0:
        return 1.0
    unit = 10.0 ** (np.floor(np.log10(seconds)) - 2)
    return float(f"{np.ceil(seconds / unit) * unit:.3g}")


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
        "yAxis": upright(axis("time of all places", "s", scale=False)),
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
    shares = (
        ("lanes with a trial", by.occupancy, "complete", "solid"),
        ("padding and empty lanes", by.waste, "failed", "dashed"),
    )
    series = [
        # at 100 % half of a line that is clipped would be missing
        line(
            name,
            rounded(100 * values, 4),
            tone,
            step="middle",
            clip=False,
            lineStyle={"type": dash},
        )
        for name, values, tone, dash in shares
        if np.isfinite(values).any()
    ]
    if not series:
        return note("Of no bucket it is known how many of its lanes held a trial.")
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
        for values, (pair, name, tone, symbol) in zip(both, named, strict=True)
        if (values > 0).all(axis=0).any()
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
