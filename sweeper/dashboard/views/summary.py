"""What the buckets of a study add up to, and what there is to say of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sweeper import wording
from sweeper.dashboard.buckets import Buckets
from sweeper.data.naming import counted

_LITTLE = 0.15
_FAR_OFF = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """What a thread or worker did on its device; `busy` is its share of the study's time."""

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

    def facts(self) -> list[tuple[str, str]]:
        """The same in words."""
        waste = "not known" if self.waste is None else f"{wording.percent(self.waste)} of training"
        lost = "" if self.waste is None else f", {wording.seconds(self.waste * self.train_s)} of it"
        found = [
            (
                "rounds",
                f"{self.rounds}, {counted(self.buckets, 'bucket')} on "
                f"{counted(self.places, 'place')}",
            ),
            (
                "training",
                f"{wording.seconds(self.train_s)}{wording.foreseen(self.predicted_train_s)}"
                f"{_ratio(self.foreseen_train_s, self.predicted_train_s)}",
            ),
            (
                "compiling",
                f"{wording.seconds(self.compile_s)} for {counted(self.programs, 'program')}, "
                f"{self.cache_hits} from the cache{wording.foreseen(self.predicted_compile_s)}"
                f"{_ratio(self.foreseen_compile_s, self.predicted_compile_s)}",
            ),
            (
                "idle",
                f"{wording.seconds(self.idle_s)} of {wording.seconds(self.span_s * self.places)} "
                "that all places had together",
            ),
            ("lanes with a trial", wording.percent(self.occupancy)),
            ("padding and empty lanes", f"{waste}{lost}"),
        ]
        measured = "not told by devices of this kind" if self.peak_mb is None else _mb(self.peak_mb)
        foreseen = "" if self.predicted_mb is None else f"; predicted {_mb(self.predicted_mb)}"
        found.append(("most memory of a bucket", f"{measured}{foreseen}"))
        if self.retried:
            found.append(("tried again", f"{self.retried} buckets, workers having died"))
        return found


def busy(buckets: Buckets) -> list[Place]:
    """What each thread and worker did."""
    started, _, _, ended = buckets.spans
    names, places = buckets.places
    span = float(ended.max() - started.min())
    found: list[Place] = []
    for code, name in enumerate(names):
        mine = places == code
        used = _covered(started[mine], ended[mine])
        train_s = float(np.nansum(buckets.numbers("train_s")[mine]))
        compile_s = float(np.nansum(buckets.numbers("compile_s")[mine]))
        share = used / span if span > 0 else 1.0
        found.append(Place(name, int(mine.sum()), train_s, compile_s, max(0.0, span - used), share))
    return found


def totals(buckets: Buckets) -> Totals:
    """The sums of a study that has trained something."""
    started, _, _, ended = buckets.spans
    train_s, compile_s = (np.nan_to_num(buckets.numbers(n)) for n in ("train_s", "compile_s"))
    predicted = {name: buckets.numbers(f"predicted_{name}") for name in ("train_s", "compile_s")}
    told = {name: np.isfinite(values) for name, values in predicted.items()}
    places = busy(buckets)
    return Totals(
        rounds=len(np.unique(buckets.numbers("round"))),
        buckets=len(buckets),
        places=len(places),
        span_s=float(ended.max() - started.min()),
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
    )


def findings(told: Totals) -> list[str]:
    """What is worth knowing of them, each with what can be done."""
    found: list[str] = []
    worked = told.train_s + told.compile_s
    had = told.span_s * told.places
    if worked and told.compile_s > worked / 2:
        found.append(
            f"Compiling took {wording.percent(told.compile_s / worked)} of the work: fewer "
            "structures (widths in powers of two) or more trials make it pay."
        )
    if had and told.idle_s > _LITTLE * had and told.places > 1:
        found.append(
            f"Places were idle for {wording.percent(told.idle_s / had)} of their time, waiting for "
            "the longest bucket of a round or for proposals: a larger schedule.parallel fills them."
        )
    if told.waste is not None and told.waste > 2 * _LITTLE:
        found.append(
            f"{wording.percent(told.waste)} of training went into padding and empty lanes: it is "
            "the price of fewer programs; execution.strategy = exact pays it in compiling instead."
        )
    ratio = told.foreseen_train_s / told.predicted_train_s if told.predicted_train_s else 1.0
    if max(ratio, 1 / max(ratio, 1e-9)) > _FAR_OFF:
        found.append(
            f"Training took {ratio:.2g} times what the cost model foresaw: `sweeper calibrate` "
            "measures this machine, when nothing else runs on it."
        )
    return found


def _covered(starts: np.ndarray, ends: np.ndarray) -> float:
    """How much time lies in at least one of the spans."""
    order = np.argsort(starts)
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    before = np.concatenate([[-np.inf], ends[:-1]])
    return float(np.maximum(ends - np.maximum(starts, before), 0.0).sum())


def weighted(values: np.ndarray, weights: np.ndarray) -> float | None:
    """The mean of what is known of `values`; None where nothing is."""
    told = np.isfinite(values)
    if not told.any():
        return None
    return float(np.average(values[told], weights=np.maximum(weights[told], 1e-9)))


def most(values: np.ndarray) -> float | None:
    """The largest of what is known of `values`; None where nothing is."""
    told = values[np.isfinite(values)]
    return float(told.max()) if len(told) else None


def _mb(amount: float) -> str:
    return f"{amount:.1f} MB"


def _ratio(real: float, predicted: float) -> str:
    return f" ({real / predicted:.2g} times)" if predicted > 0 and real > 0 else ""
