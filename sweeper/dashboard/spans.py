"""What the program, its threads and its workers did and when: the rows of spans.parquet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sweeper.results.light import floats, texts
from sweeper.results.timeline import IDLE, PROGRAM, Activity, Span, shares


@dataclass(frozen=True)
class Spans:
    """The spans of every recorded session; times are seconds since 1970."""

    table: pa.Table

    def __len__(self) -> int:
        return self.table.num_rows

    @cached_property
    def numbers(self) -> dict[str, np.ndarray]:
        """The columns of numbers and times by name, nan for null."""
        names = ("round", "started_at", "finished_at", "bucket_id")
        return {name: floats(self.table[name]) for name in names}

    @cached_property
    def texts(self) -> dict[str, tuple[list[str], np.ndarray]]:
        """The columns of text by name: different values, and each row's index, -1 for null."""
        names = ("run_id", "place", "activity", "class_id")
        return {name: texts(self.table[name]) for name in names}

    @cached_property
    def sessions(self) -> np.ndarray:
        """When each start of the program began and ended, oldest first, shaped (sessions, 2)."""
        started, finished = self.numbers["started_at"], self.numbers["finished_at"]
        ids, at = self.texts["run_id"]
        found = [
            (started[at == code].min(), finished[at == code].max()) for code in range(len(ids))
        ]
        return np.array(sorted(found), float).reshape(-1, 2)

    @property
    def elapsed_s(self) -> float:
        """The total time of all sessions."""
        return float(np.diff(self.sessions, axis=1).sum())

    @property
    def seconds(self) -> np.ndarray:
        """The length of each span."""
        return self.numbers["finished_at"] - self.numbers["started_at"]

    @cached_property
    def drawn(self) -> np.ndarray:
        """The rows that the page draws; training is drawn from buckets instead."""
        return np.flatnonzero(~self.doing(Activity.TRAIN))

    def of_place(self, place: str) -> np.ndarray:
        """Which rows belong to a place."""
        places, at = self.texts["place"]
        return at == (places.index(place) if place in places else -2)

    def doing(self, *activities: str) -> np.ndarray:
        """Which rows have one of these activities."""
        names, at = self.texts["activity"]
        return np.isin(at, [code for code, name in enumerate(names) if name in activities])

    @cached_property
    def by_place(self) -> dict[str, dict[str, float]]:
        """Seconds by activity and place, the program first; with idle they sum to `elapsed_s`."""
        found: dict[str, dict[str, float]] = {}
        for place in sorted(self.texts["place"][0], key=order_of_places):
            mine = self.of_place(place)
            spent = {
                str(activity): float(self.seconds[mine & self.doing(activity)].sum())
                for activity in Activity
            }
            found[place] = spent | {IDLE: max(0.0, self.elapsed_s - sum(spent.values()))}
        return found

    @cached_property
    def spent_s(self) -> dict[str, float]:
        """Seconds by activity over all sessions, each moment counted once; sums to `elapsed_s`."""
        (places, place), (activities, activity) = self.texts["place"], self.texts["activity"]
        started, finished = self.numbers["started_at"], self.numbers["finished_at"]
        found = dict.fromkeys([*map(str, Activity), IDLE], 0.0)
        for run in range(len(self.texts["run_id"][0])):
            rows = np.flatnonzero(self.texts["run_id"][1] == run).tolist()
            spans = [
                Span(places[place[i]], activities[activity[i]], started[i], finished[i])
                for i in rows
            ]
            for name, seconds in shares(spans).items():
                found[name] += seconds
        return found

    @cached_property
    def trained(self) -> dict[tuple[int, int], tuple[float, float]]:
        """When training started and ended, by round and bucket."""
        rows = np.flatnonzero(self.doing(Activity.TRAIN))
        names = ("round", "bucket_id", "started_at", "finished_at")
        found: dict[tuple[int, int], tuple[float, float]] = {}
        for number, bucket, began, ended in zip(
            *(self.numbers[name][rows].tolist() for name in names), strict=True
        ):
            before = found.get((number, bucket), (began, ended))
            found[number, bucket] = min(before[0], began), max(before[1], ended)
        return found


def order_of_places(place: str) -> tuple[bool, str, int, str]:
    """The program first, then places by kind and number."""
    kind, _, number = place.partition(" ")
    return place != PROGRAM, kind, int(number) if number.isdecimal() else -1, place
