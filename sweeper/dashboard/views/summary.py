"""Totals over the buckets of a study, and findings about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sweeper.dashboard.blocks import Block, rows
from sweeper.dashboard.buckets import Buckets
from sweeper.dashboard.packing import rounded
from sweeper.errors import counted
from sweeper.results import formatting

_LITTLE = 0.15
_FAR_OFF = 2.0
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


@dataclass(frozen=True, slots=True)
class PlaceSummary:
    """What a thread or worker did on its device; `busy` is the share of its time spent training."""

    name: str
    buckets: int
    train_s: float
    compile_s: float
    idle_s: float
    busy: float


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all buckets; shares are means weighted by training time."""

    rounds: int
    buckets: int
    places: int
    span_s: float
    paused_s: float
    train_s: float
    compile_s: float
    idle_s: float
    predicted_train_s: float
    foreseen_train_s: float
    predicted_compile_s: float
    foreseen_compile_s: float
    programs: int
    cache_hits: int
    occupancy: float | None
    waste: float | None
    peak_mb: float | None
    predicted_mb: float | None
    retried: int
    spent_s: Mapping[str, float]
    starts: int

    def facts(self) -> list[tuple[str, str]]:
        """The totals in words."""
        waste = (
            "not known" if self.waste is None else f"{formatting.percent(self.waste)} of training"
        )
        lost = (
            "" if self.waste is None else f", {formatting.seconds(self.waste * self.train_s)} of it"
        )
        each = "" if self.starts == 1 else " of each start"
        found = [] if not self.spent_s else [("time", self._time())]
        found += [
            (
                "rounds",
                f"{self.rounds}, {counted(self.buckets, 'bucket')} on "
                f"{counted(self.places, 'place')}",
            ),
            (
                "training",
                formatting.seconds(self.train_s)
                + _foreseen(self.predicted_train_s, self.foreseen_train_s, self.train_s),
            ),
            (
                "compiling",
                f"{formatting.seconds(self.compile_s)} for {counted(self.programs, 'program')}, "
                f"{self.cache_hits} from the cache"
                + _foreseen(self.predicted_compile_s, self.foreseen_compile_s, self.compile_s),
            ),
            (
                "idle",
                f"{formatting.seconds(self.idle_s)} of "
                f"{formatting.seconds(self.span_s * self.places)} over all places "
                f"from the first bucket to the last{each}",
            ),
            ("lanes with a trial", formatting.percent(self.occupancy)),
            ("padding and empty lanes", f"{waste}{lost}"),
        ]
        if self.paused_s:
            why = "while the program did not run"
            if self.spent_s:
                why = "between starts of the program, with uncommitted work of one that was killed"
            found.append(("left out", f"{formatting.seconds(self.paused_s)}, {why}"))
        measured = "not measured by this device" if self.peak_mb is None else _mb(self.peak_mb)
        foreseen = "" if self.predicted_mb is None else f"; predicted {_mb(self.predicted_mb)}"
        found.append(("peak memory of a bucket", f"{measured}{foreseen}"))
        if self.retried:
            found.append(("retried", f"{self.retried} buckets, because workers died"))
        return found

    def _time(self) -> str:
        """Where the time of the program went; each moment counts once."""
        starts = "" if self.starts == 1 else f" in {self.starts} starts of the program"
        return formatting.time_spent(self.spent_s, starts)


def busy(buckets: Buckets) -> list[PlaceSummary]:
    """What each thread and worker did."""
    names, places = buckets.places
    span = float(np.diff(buckets.windows, axis=1).sum())
    found: list[PlaceSummary] = []
    for code, name in enumerate(names):
        mine = places == code
        used = _covered(*buckets.used(code))
        train_s = float(np.nansum(buckets.numbers("train_s")[mine]))
        compile_s = float(np.nansum(buckets.numbers("compile_s")[mine]))
        share = used / span if span > 0 else 1.0
        found.append(
            PlaceSummary(name, int(mine.sum()), train_s, compile_s, max(0.0, span - used), share)
        )
    return found


def totals(buckets: Buckets) -> Totals:
    """The totals of a study that has trained something."""
    train_s, compile_s = (np.nan_to_num(buckets.numbers(n)) for n in ("train_s", "compile_s"))
    predicted = {name: buckets.numbers(f"predicted_{name}") for name in ("train_s", "compile_s")}
    told = {name: np.isfinite(values) for name, values in predicted.items()}
    places = busy(buckets)
    return Totals(
        rounds=len(np.unique(buckets.numbers("round"))),
        buckets=len(buckets),
        places=len(places),
        span_s=float(np.diff(buckets.windows, axis=1).sum()),
        paused_s=buckets.paused_s,
        train_s=float(train_s.sum()),
        compile_s=float(compile_s.sum()),
        idle_s=sum(place.idle_s for place in places),
        predicted_train_s=float(np.nansum(predicted["train_s"])),
        foreseen_train_s=float(train_s[told["train_s"]].sum()),
        predicted_compile_s=float(np.nansum(predicted["compile_s"])),
        foreseen_compile_s=float(compile_s[told["compile_s"]].sum()),
        programs=int((compile_s > 0).sum()),
        cache_hits=int((buckets.numbers("cache_hit") == 1).sum()),
        occupancy=weighted(buckets.numbers("occupancy"), train_s),
        waste=weighted(buckets.numbers("waste_fraction"), train_s),
        peak_mb=most(buckets.numbers("memory_peak_bytes")),
        predicted_mb=most(buckets.numbers("memory_predicted_bytes")),
        retried=int((buckets.numbers("attempt") > 1).sum()),
        spent_s={} if buckets.recorded is None else buckets.recorded.spent_s,
        starts=1 if buckets.recorded is None else len(buckets.recorded.sessions),
    )


def findings(told: Totals) -> list[str]:
    """What is worth knowing about the totals, each with what to do about it."""
    found: list[str] = []
    worked = told.train_s + told.compile_s
    had = told.span_s * told.places
    if worked and told.compile_s > worked / 2:
        found.append(
            f"Compiling took {formatting.percent(told.compile_s / worked)} of the work; it pays "
            "off with fewer structures (widths in powers of two) or more trials."
        )
    if had and told.idle_s > _LITTLE * had and told.places > 1:
        found.append(
            f"Places were idle for {formatting.percent(told.idle_s / had)} of their time, "
            "waiting for the longest bucket of a round or for proposals: "
            "use a larger schedule.parallel to fill them."
        )
    if told.waste is not None and told.waste > 2 * _LITTLE:
        found.append(
            f"{formatting.percent(told.waste)} of training was spent on padding and empty lanes, "
            "which saves programs; execution.strategy = exact "
            "spends the time on compiling instead."
        )
    ratio = told.foreseen_train_s / told.predicted_train_s if told.predicted_train_s else 1.0
    if max(ratio, 1 / max(ratio, 1e-9)) > _FAR_OFF:
        found.append(
            f"Training took {ratio:.2g} times the prediction of the cost model: run `sweeper "
            "calibrate` to measure this machine while nothing else runs on it."
        )
    return found


def places_table(buckets: Buckets) -> Block:
    """One row per thread, worker and device: how it spent its time and its lanes."""
    codes = buckets.places[1]
    records = [
        [
            place.name,
            *rounded([place.idle_s], 4),
            formatting.percent(place.busy),
            *_spent(buckets, codes == code),
        ]
        for code, place in enumerate(busy(buckets))
    ]
    return rows("threads, workers and devices", ["place", "idle (s)", "busy", *_SPENT], records)


def classes_table(buckets: Buckets) -> Block:
    """One row per class: what it trained, how long that took, and the prediction."""
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
    """The values of `_SPENT` for some buckets."""
    train_s = np.nan_to_num(buckets.numbers("train_s")[mine])
    shares = (
        weighted(buckets.numbers(name)[mine], train_s) for name in ("occupancy", "waste_fraction")
    )
    compiled = int((buckets.numbers("compile_s")[mine] > 0).sum())
    cached = int((buckets.numbers("cache_hit")[mine] == 1).sum())
    return [
        int(mine.sum()),
        *rounded([train_s.sum(), _sum(buckets.numbers("predicted_train_s")[mine])], 4),
        *map(formatting.percent, shares),
        f"{compiled}, {cached} cached",
        *rounded(
            [
                np.nansum(buckets.numbers("compile_s")[mine]),
                _sum(buckets.numbers("predicted_compile_s")[mine]),
            ],
            4,
        ),
        *(most(buckets.numbers(f"memory_{name}_bytes")[mine]) for name in ("predicted", "peak")),
    ]


def _sum(values: np.ndarray) -> float:
    """The sum of the known `values`; nan if none is known."""
    told = values[np.isfinite(values)]
    return float(told.sum()) if len(told) else np.nan


def _covered(starts: np.ndarray, ends: np.ndarray) -> float:
    """How much time lies in at least one of the spans."""
    order = np.argsort(starts)
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    before = np.concatenate([[-np.inf], ends[:-1]])
    return float(np.maximum(ends - np.maximum(starts, before), 0.0).sum())


def weighted(values: np.ndarray, weights: np.ndarray) -> float | None:
    """The mean of the known `values`; None if none is known."""
    told = np.isfinite(values)
    if not told.any():
        return None
    return float(np.average(values[told], weights=np.maximum(weights[told], 1e-9)))


def most(values: np.ndarray) -> float | None:
    """The largest of the known `values`; None if none is known."""
    told = values[np.isfinite(values)]
    return float(told.max()) if len(told) else None


def _mb(amount: float) -> str:
    return f"{amount:.1f} MB"


def _foreseen(predicted_s: float, took_s: float, whole_s: float) -> str:
    """A prediction, and the ratio to it; `took_s` of the whole had a prediction.

    If that is not the whole, both are shown.
    """
    told = formatting.format_prediction(predicted_s)
    if not (predicted_s > 0 and took_s > 0):
        return told
    part = "" if took_s > 0.99 * whole_s else f" for {formatting.seconds(took_s)} of it"
    return f"{told}{part} ({took_s / predicted_s:.2g} times)"
