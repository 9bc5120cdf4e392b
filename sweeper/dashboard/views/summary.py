"""Totals over the buckets of a study, by round, place and class, and findings about them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sweeper.dashboard.blocks import Block, rows
from sweeper.dashboard.buckets import Buckets
from sweeper.dashboard.packing import rounded
from sweeper.errors import counted
from sweeper.results import formatting

_LITTLE = 0.15
_FAR_OFF = 2.0
_CLASSES = 40
_MAX_GROUPS = 120  # of rounds
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
    """A thread or worker on its device; `busy` is the share of its time spent training."""

    name: str
    idle_s: float
    busy: float


@dataclass(frozen=True, slots=True)
class Training:
    """The work of some buckets; shares are means weighted by training time, None if not known.

    `foreseen_*` are the parts of the time for which there is a prediction.
    """

    buckets: int
    train_s: float
    compile_s: float
    predicted_train_s: float | None
    foreseen_train_s: float
    predicted_compile_s: float | None
    foreseen_compile_s: float
    programs: int
    cache_hits: int
    occupancy: float | None
    waste: float | None
    predicted_mb: float | None
    peak_mb: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(Training):
    """The work of all buckets, and other facts about the study.

    `waiting_s` is the idle time without that in which the program started or something compiled.
    `at_once` says whether all trials began in the first round.
    """

    rounds: int
    places: int
    span_s: float
    paused_s: float
    idle_s: float
    waiting_s: float
    at_once: bool
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
        starts = "" if self.starts == 1 else f" in {self.starts} starts of the program"
        time = formatting.time_spent(self.spent_s, starts)  # each moment counts once
        found = [("time", time)] if self.spent_s else []
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


def busy(buckets: Buckets) -> list[PlaceSummary]:
    """What each thread and worker did."""
    span = float(np.diff(buckets.windows, axis=1).sum())
    found: list[PlaceSummary] = []
    for code, name in enumerate(buckets.places[0]):
        used = _covered(*buckets.used(code))
        share = used / span if span > 0 else 1.0
        found.append(PlaceSummary(name, max(0.0, span - used), share))
    return found


def _waiting_s(buckets: Buckets) -> float:
    """The idle time of all places while nothing was started or compiled anywhere."""
    starting = buckets.within_windows(*buckets.starting)
    span = float(np.diff(buckets.windows, axis=1).sum())
    both = (
        map(np.concatenate, zip(buckets.used(code), starting, strict=True))
        for code in range(len(buckets.places[0]))
    )
    return sum(max(0.0, span - _covered(*used)) for used in both)


def _begin_at_once(buckets: Buckets) -> bool:
    """Whether the first round has all trials."""
    numbers, (lists, at) = buckets.numbers("round"), buckets.texts("trials")
    of_first = {*at[numbers == numbers.min()].tolist()}
    first = {trial for place in of_first for trial in json.loads(lists[place])}
    return all(first.issuperset(json.loads(trials)) for trials in lists)


def _work(buckets: Buckets, mine: np.ndarray) -> Training:
    """What the buckets marked in `mine` did."""

    def of(name: str) -> np.ndarray:
        return buckets.numbers(name)[mine]

    train_s, compile_s = np.nan_to_num(of("train_s")), np.nan_to_num(of("compile_s"))
    return Training(
        buckets=int(mine.sum()),
        train_s=float(train_s.sum()),
        compile_s=float(compile_s.sum()),
        predicted_train_s=_sum(of("predicted_train_s")),
        foreseen_train_s=float(train_s[np.isfinite(of("predicted_train_s"))].sum()),
        predicted_compile_s=_sum(of("predicted_compile_s")),
        foreseen_compile_s=float(compile_s[np.isfinite(of("predicted_compile_s"))].sum()),
        programs=int((compile_s > 0).sum()),
        cache_hits=int((of("cache_hit") == 1).sum()),
        occupancy=weighted(of("occupancy"), train_s),
        waste=weighted(of("waste_fraction"), train_s),
        predicted_mb=most(of("memory_predicted_bytes")),
        peak_mb=most(of("memory_peak_bytes")),
    )


def totals(buckets: Buckets) -> Totals:
    """The totals of a study that has trained something."""
    places = busy(buckets)
    return Totals(
        **asdict(_work(buckets, np.ones(len(buckets), bool))),
        rounds=len(np.unique(buckets.numbers("round"))),
        places=len(places),
        span_s=float(np.diff(buckets.windows, axis=1).sum()),
        paused_s=buckets.paused_s,
        idle_s=sum(place.idle_s for place in places),
        waiting_s=_waiting_s(buckets),
        at_once=_begin_at_once(buckets),
        retried=int((buckets.numbers("attempt") > 1).sum()),
        spent_s={} if buckets.recorded is None else buckets.recorded.spent_s,
        starts=1 if buckets.recorded is None else len(buckets.recorded.sessions),
    )


def findings(usage: Totals) -> list[str]:
    """Findings about the totals, each with what to do about it."""
    found: list[str] = []
    worked = usage.train_s + usage.compile_s
    had = usage.span_s * usage.places
    if worked and usage.compile_s > worked / 2:
        fewer = "fewer structures (widths in powers of two) or " if usage.programs > 1 else ""
        found.append(
            f"Compiling took {formatting.percent(usage.compile_s / worked)} of the work; it pays "
            f"off with {fewer}more trials."
        )
    if had and usage.waiting_s > _LITTLE * had and usage.places > 1 and not usage.at_once:
        found.append(
            f"Places were idle for {formatting.percent(usage.waiting_s / had)} of their time, "
            "waiting for the longest bucket of a round or for proposals: "
            "use a larger schedule.parallel to fill them."
        )
    if usage.waste is not None and usage.waste > 2 * _LITTLE:
        found.append(
            f"{formatting.percent(usage.waste)} of training was spent on padding and empty lanes, "
            "which saves programs; execution.strategy = exact "
            "spends the time on compiling instead."
        )
    ratio = usage.foreseen_train_s / usage.predicted_train_s if usage.predicted_train_s else 1.0
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


def _spent(buckets: Buckets, mine: np.ndarray) -> list[Any]:
    """The values of `_SPENT` for some buckets."""
    work = _work(buckets, mine)
    return [
        work.buckets,
        *rounded([work.train_s, work.predicted_train_s], 4),
        formatting.percent(work.occupancy),
        formatting.percent(work.waste),
        f"{work.programs}, {work.cache_hits} cached",
        *rounded([work.compile_s, work.predicted_compile_s], 4),
        work.predicted_mb,
        work.peak_mb,
    ]


def _sum(values: np.ndarray) -> float | None:
    """The sum of the known `values`; None if none is known."""
    known = values[np.isfinite(values)]
    return float(known.sum()) if len(known) else None


def _covered(starts: np.ndarray, ends: np.ndarray) -> float:
    """How much time lies in at least one of the spans."""
    order = np.argsort(starts)
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    before = np.concatenate([[-np.inf], ends[:-1]])
    return float(np.maximum(ends - np.maximum(starts, before), 0.0).sum())


def weighted(values: np.ndarray, weights: np.ndarray) -> float | None:
    """The mean of the known `values`; None if none is known."""
    is_known = np.isfinite(values)
    if not is_known.any():
        return None
    return float(np.average(values[is_known], weights=np.maximum(weights[is_known], 1e-9)))


def most(values: np.ndarray) -> float | None:
    """The largest of the known `values`; None if none is known."""
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None


def _mb(amount: float) -> str:
    return f"{amount:.1f} MB"


def _foreseen(predicted_s: float | None, took_s: float, whole_s: float) -> str:
    """A prediction, and the ratio to it; `took_s` of the whole had a prediction.

    If that is not the whole, both are shown.
    """
    prediction = formatting.format_prediction(predicted_s or 0.0)
    if not (predicted_s and took_s):
        return prediction
    part = "" if took_s > 0.99 * whole_s else f" for {formatting.seconds(took_s)} of it"
    return f"{prediction}{part} ({took_s / predicted_s:.2g} times)"


@dataclass(frozen=True, slots=True)
class Rounds:
    """Sums and means over rounds `firsts[i]` to `lasts[i]`; shares from 0 to 1."""

    firsts: np.ndarray
    lasts: np.ndarray
    train_s: np.ndarray
    compile_s: np.ndarray
    idle_s: np.ndarray
    occupancy: np.ndarray
    waste: np.ndarray


def by_rounds(buckets: Buckets, most: int = _MAX_GROUPS) -> Rounds:
    """At most `most` groups of neighbouring rounds."""
    numbers = buckets.numbers("round").astype(int)
    first, last = int(numbers.min()), int(numbers.max())
    width = -(-(last - first + 1) // most)
    groups = (numbers - first) // width
    n = int(groups.max()) + 1
    train_s = np.nan_to_num(buckets.numbers("train_s"))
    weights = np.maximum(train_s, 1e-9)

    def mean(name: str) -> np.ndarray:
        values = buckets.numbers(name)
        is_known = np.isfinite(values)
        sums = np.bincount(groups[is_known], (values * weights)[is_known], n)
        with np.errstate(invalid="ignore"):
            return sums / np.bincount(groups[is_known], weights[is_known], n)

    firsts = first + width * np.arange(n)
    return Rounds(
        firsts=firsts,
        lasts=np.minimum(firsts + width - 1, last),
        train_s=np.bincount(groups, train_s, n),
        compile_s=_compile_s(buckets, first, width, n),
        idle_s=_idle(buckets, groups, n),
        occupancy=mean("occupancy"),
        waste=mean("waste_fraction"),
    )


def _compile_s(buckets: Buckets, first: int, width: int, n: int) -> np.ndarray:
    """The seconds of compiling in each group of rounds, whenever its program was needed."""
    numbers, seconds = buckets.compiled
    groups = (numbers.astype(int) - first) // width
    is_shown = (groups >= 0) & (groups < n)  # uncommitted work of the last round is not
    return np.bincount(groups[is_shown], seconds[is_shown], n)


def round_names(by: Rounds) -> list[str]:
    """The names of the groups on an axis."""
    pairs = zip(by.firsts.tolist(), by.lasts.tolist(), strict=True)
    return [str(first) if first == last else f"{first}-{last}" for first, last in pairs]


def _idle(buckets: Buckets, groups: np.ndarray, n: int) -> np.ndarray:
    """The idle seconds of all places between the first start and the last end in each round."""
    numbers = buckets.numbers("round").astype(int)
    started, _, training, ended = buckets.spans
    names, _ = buckets.places
    idle = np.zeros(n)
    order = np.argsort(numbers, kind="stable")
    cuts = np.flatnonzero(np.diff(numbers[order])) + 1
    for mine in np.split(order, cuts):
        span = ended[mine].max() - started[mine].min()
        # waiting for a program that is still compiling counts as compiling
        used = (ended[mine] - np.minimum(started[mine], training[mine])).sum()
        idle[groups[mine[0]]] += max(0.0, span * len(names) - used)
    return idle
