"""The use of lanes and time by round; neighbouring rounds are grouped if there are many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sweeper.dashboard.buckets import Buckets

_MAX = 120


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


def by_rounds(buckets: Buckets, most: int = _MAX) -> Rounds:
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
        told = np.isfinite(values)
        sums = np.bincount(groups[told], (values * weights)[told], n)
        with np.errstate(invalid="ignore"):
            return sums / np.bincount(groups[told], weights[told], n)

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
