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
    rows,
    size_of_points,
    upright,
)
from sweeper.dashboard.buckets import Buckets, Spans
from sweeper.dashboard.packing import rounded
from sweeper.dashboard.views.summary import (
    Rounds,
    by_rounds,
    classes_table,
    findings,
    places_table,
    round_names,
    totals,
)
from sweeper.results.timeline import DOING, IDLE

_LANE = 60
_WINDOW = 300  # number of buckets that the Gantt chart shows at first
_MARGIN = 110
_KEYS_A_ROW, _KEY_ROW = 6, 22  # entries and height of a legend row on most screens
_LETTER, _WIDEST_NAME = 6.5, 190  # pixels

_AXIS = (
    "Time counts from the start of the program, and only while it runs; gray is idle time. The "
    "program itself is idle while it waits for threads and workers. "
)
_READING = (
    "A bar of training is a bucket, with the number of its lanes that hold a trial; neighbouring "
    "rounds have different shades. A click selects its trials."
)
# activities that are drawn in the same way, with their colours, which also differ for people with
# deuteranopia or protanopia; training is drawn from buckets
_DRAWN = (
    ("importing or starting", ("import", "worker"), "import"),
    ("waiting for data", ("data",), "data"),
    ("opening the study", ("open",), "open"),
    ("asking", ("ask",), "ask"),
    ("committing", ("commit",), "selected"),
    ("publishing", ("publish",), "publish"),
    ("simple models and averages", ("baseline", "ensemble"), "baseline"),
    ("compiling", ("compile",), "pruned"),
    ("from the cache", ("load",), "best"),
    ("initializing models", ("initialize",), "initialize"),
    ("reading and writing states", ("bucket",), "bucket"),
    ("lost with a worker", ("lost",), "diverged"),
)
_SPAN_TIP = [
    ["doing", "activity", ""],
    ["seconds", "took", "s"],
    ["begin", "began at", "s"],
    ["round", "recorded with round", ""],
    ["bucket_id", "bucket", ""],
    ["class", "class", ""],
]
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
    """A Gantt chart of the rounds, the use of lanes and time, and a table of classes."""
    if not len(buckets):
        return [note("No bucket is published yet.")]
    usage = totals(buckets)
    return [
        facts(usage.facts()),
        *(note(said, is_warning=True) for said in findings(usage)),
        note(_READING if buckets.recorded is None else _AXIS + _READING),
        _gantt(buckets),
        *([] if buckets.recorded is None else [_spent(buckets.recorded)]),
        grid(
            [_time(by := by_rounds(buckets)), _lanes(by), _foreseen(buckets), _memory(buckets)],
            "wide",
        ),
        places_table(buckets),
        classes_table(buckets),
    ]


def _gantt(buckets: Buckets) -> Block:
    """One line per place: what it did and when; for training, how many lanes had a trial."""
    places, last = buckets.lanes, buckets.ran_s
    _, compiling, _, _ = buckets.spans
    left = min(_WIDEST_NAME, 16 + _LETTER * max(map(len, places)))
    series = _drawn(buckets)
    if len(buckets.starts):
        at = [[time, place] for time in buckets.starts.tolist() for place in (*places, None)]
        series.append(line("the program starts again", at, "text", silent=True))
    option: dict[str, object] = {
        "xAxis": axis(_axis_name(buckets), "s", scale=False, min=0, max=_rounded_up(last)),
        "yAxis": categories(
            "", places, inverse=True, axisLabel={"width": left - 12, "overflow": "truncate"}
        ),
        "legend": {},
        "grid": {"left": left, "right": 24, "top": 34, "bottom": 68},
        "series": series,
    }
    since = float(np.sort(compiling)[-_WINDOW]) if len(buckets) > _WINDOW else 0.0
    zoom = {"filterMode": "weakFilter", "start": 100 * since / last if last > 0 else 0, "end": 100}
    option["dataZoom"] = [{**part, **zoom} for part in ZOOM]
    n = int(np.nanmax(buckets.numbers("round")))
    label = f"{len(buckets)} buckets of {n} rounds on {', '.join(places)}, over {last:.1f} seconds"
    below_keys = _MARGIN + len(series) // _KEYS_A_ROW * _KEY_ROW
    return chart(label, option, below_keys + _LANE * len(places))


def _axis_name(buckets: Buckets) -> str:
    since = "the first bucket" if buckets.recorded is None else "the start of the program"
    return f"time since {since}"


def _drawn(buckets: Buckets) -> list[Option]:
    """The bars of the Gantt chart, as far as known for these buckets."""
    hits, known = buckets.numbers("cache_hit"), np.isfinite
    hits = np.where(buckets.is_recorded, np.nan, hits)
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
    drawn = [_bars(*drawn, cached=cached) for is_known, drawn, cached in bars if is_known]
    if buckets.recorded is None:
        return drawn
    return [_idle(buckets), *_of_spans(buckets.recorded), *drawn]


def _idle(buckets: Buckets) -> Option:
    """One bar per place under all others, so that gaps between those show as idle."""
    begins = [0.0, *buckets.starts.tolist()]
    ends = [*buckets.starts.tolist(), buckets.ran_s]
    assert buckets.recorded is not None, "only called if spans are recorded"
    own = buckets.running(buckets.recorded.sessions).tolist()
    data = [
        [lane, begin, end, 1]
        for lane in range(len(buckets.lanes))
        for begin, end in (zip(begins, ends, strict=True) if lane else own)
    ]
    return _custom("idle", "whole", "line", data=data, silent=True)


def _of_spans(recorded: Spans) -> list[Option]:
    """One series per kind of activity that occurs, except training."""
    drawn = {"table": "spans", "columns": ["lane", "begin", "end", "shade"], "tips": _SPAN_TIP}
    return [
        _custom(name, "whole", tone, where=["activity", activity], **drawn)
        for name, activities, tone in _DRAWN
        for activity in activities
        if recorded.doing(activity).any()
    ]


def _custom(name: str, renderer: str, tone: str, **more: Any) -> Option:
    """A series of bars from a time to another, one line per place."""
    drawn = {"type": "custom", "name": name, "renderer": renderer, "tone": tone, "clip": True}
    return {**drawn, "encode": {"x": [1, 2], "y": 0}, **more}


def _spent(recorded: Spans) -> Block:
    """One column per place: its time by activity, which sums to the time of the program."""
    spent = recorded.by_place
    records = [
        [doing, *(round(seconds[activity], 3) for seconds in spent.values())]
        for activity, doing in DOING.items()
        if activity == IDLE or any(seconds[activity] for seconds in spent.values())
    ]
    records.append(["total", *(round(sum(seconds.values()), 3) for seconds in spent.values())])
    return rows("seconds of the program, its threads and its workers", ["", *spent], records)


def _rounded_up(seconds: float) -> float:
    """The end of an axis that fits this many seconds, with three digits."""
    if seconds <= 0:
        return 1.0
    unit = 10.0 ** (np.floor(np.log10(seconds)) - 2)
    return float(f"{np.ceil(seconds / unit) * unit:.3g}")


def _bars(
    name: str, renderer: str, tone: str, begin: str, end: str, share: str = "", *, cached: str = ""
) -> Option:
    """One bar per bucket from `begin` to `end`, as high as its `share` if one is named."""
    columns = ["lane", begin, end, "round", *([share, "lanes_live", "capacity"] if share else [])]
    where = {"where": ["guessed", cached]} if cached else {}
    return _custom(name, renderer, tone, table="buckets", columns=columns, tips=_TIP, **where)


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
                ("idle", "line", by.idle_s),
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
        # at 100 %, half of a clipped line would be missing
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
        return note("It is not known how many lanes of any bucket held a trial.")
    option = {
        "xAxis": categories("round", round_names(by)),
        "yAxis": upright(axis("share of the work", "%", scale=False, min=0, max=100)),
        "legend": {},
        "series": series,
    }
    label = "occupancy of lanes and waste by padding and empty lanes, round by round"
    return chart(label, option, 260)


def _foreseen(buckets: Buckets) -> Block:
    """Predicted and measured seconds of compiling and of training."""
    pairs = [("predicted_train_s", "train_s"), ("predicted_compile_s", "compile_s")]
    both = [np.stack([buckets.numbers(name) for name in pair]) for pair in pairs]
    seconds = np.concatenate([values[:, (values > 0).all(axis=0)].ravel() for values in both])
    if not len(seconds):
        return note("The cost model predicted nothing for this study.")
    low = 10.0 ** int(np.floor(np.log10(seconds.min())))  # a logarithmic axis labels powers of ten
    high = 10.0 ** int(np.ceil(np.log10(seconds.max() * 1.0001)))
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
    return chart("predicted and measured seconds of each bucket", option, 260)


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
        "xAxis": axis(_axis_name(buckets), "s", scale=False),
        "yAxis": upright(axis("memory of a bucket", "MB", scale=False)),
        "legend": {},
        "series": known,
    }
    said = "" if len(known) == 2 else "; this kind of device does not measure it"
    return chart(f"memory of each bucket, predicted and measured{said}", option, 260)


def _points(buckets: Buckets) -> dict[str, Any]:
    """How buckets are drawn as points."""
    return {"table": "buckets", "symbolSize": size_of_points(len(buckets)), "tips": _TIP}
