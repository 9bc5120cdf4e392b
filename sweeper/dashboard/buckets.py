"""When and where buckets were trained, and what else went on: the data of the execution view."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from sweeper.dashboard.packing import Packed, packed_numbers, packed_texts
from sweeper.results.light import floats, texts
from sweeper.results.timeline import DOING, IDLE, PROGRAM, Activity, Span, shares

_NUMBERS = (
    "round",
    "bucket_id",
    "lanes_live",
    "capacity",
    "compile_s",
    "train_s",
    "predicted_compile_s",
    "predicted_train_s",
    "waste_fraction",
    "occupancy",
    "epochs_from",
    "epochs_to",
    "memory_predicted_bytes",
    "memory_peak_bytes",
    "attempt",
)
# if nothing ran for longer than this, the program was stopped and started again later
_PAUSE_S = 30.0
_STARTING = (
    Activity.IMPORT,
    Activity.DATA,
    Activity.OPEN,
    Activity.WORKER,
    Activity.COMPILE,
    Activity.LOAD,
)
_PERCENT = ("waste_fraction", "occupancy")
_TEXTS = ("strategy", "lane_loop", "trials", "outcome")


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

    @property
    def first_run(self) -> str | None:
        """The `run_id` of the first session; spans are only ever appended."""
        ids, at = self.texts["run_id"]
        return ids[at[0]] if len(at) else None

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
    def first_rounds(self) -> dict[str, float]:
        """The round with which each place was first recorded; those of an end follow its last."""
        numbers = self.numbers["round"]
        since = np.fmax.accumulate(np.nan_to_num(numbers, nan=-np.inf))
        return _first(self.texts["place"], np.where(np.isfinite(numbers), numbers, since + 0.5))

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


def _first(column: tuple[list[str], np.ndarray], rounds: np.ndarray) -> dict[str, float]:
    """The first round of each value in a column of text, infinity for those in no row."""
    values, at = column
    return {
        value: float(rounds[at == code].min(initial=np.inf)) for code, value in enumerate(values)
    }


def order_of_places(place: str) -> tuple[bool, str, int, str]:
    """The program first, then places by kind and number."""
    kind, _, number = place.partition(" ")
    return place != PROGRAM, kind, int(number) if number.isdecimal() else -1, place


@dataclass(frozen=True)
class Buckets:
    """The rows of buckets.parquet as columns; times in seconds since the program started.

    If no spans are recorded, as in earlier versions, times count from the first bucket. Pauses
    between two starts of the program are left out.
    """

    table: pa.Table
    recorded: Spans | None = None
    _numbers: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray], repr=False)

    def __len__(self) -> int:
        return self.table.num_rows

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers, nan for null, memory in MB; all nan if the column does not exist."""
        if name not in self._numbers:
            known = name in self.table.column_names
            values = floats(self.table[name]) if known else np.full(len(self), np.nan)
            self._numbers[name] = values / 1e6 if name.endswith("_bytes") else values
        return self._numbers[name]

    def texts(self, name: str) -> tuple[list[str], np.ndarray]:
        """A column of text: its different values, and each row's index among them, -1 for null."""
        return texts(self.table[name])

    @cached_property
    def class_names(self) -> dict[str, str]:
        """The name of each class by id; older studies have no names, so the id is used."""
        ids, codes = self.texts("class_id")
        if "class_name" not in self.table.column_names:
            return {known: known for known in ids}
        names, named = self.texts("class_name")
        pairs = sorted({*zip(codes.tolist(), named.tolist(), strict=True)})
        names_by_id = {ids[code]: names[name] for code, name in pairs if code >= 0 and name >= 0}
        return {known: names_by_id.get(known, known) for known in ids}

    @property
    def began_at(self) -> float | None:
        """When the first round started, in seconds since 1970; None if it is not known.

        Later rounds do not change it, even if the clock of a worker is wrong.
        """
        began, rounds = self.numbers("started_at"), self.numbers("round")
        known = np.isfinite(began)
        return float(began[known & (rounds == rounds[known].min())].min()) if known.any() else None

    @cached_property
    def places(self) -> tuple[list[str], np.ndarray]:
        """The threads and workers with their devices, and each bucket's index among them.

        A place that only compiled is included.
        """
        (places, at), (devices, on) = self.texts("place"), self.texts("device")
        order = self._order[1:]
        where = {name: index for index, name in enumerate(order)}
        codes = np.array([where[places[code]] for code in at.tolist()], int)
        return [_on(name, devices, on[codes == where[name]]) for name in order], codes

    @cached_property
    def _order(self) -> list[str]:
        """The program and all places, including those that only compiled.

        Later rounds only append places, since a page keeps the rows that it has.
        """
        first = {} if self.recorded is None else dict(self.recorded.first_rounds)
        for place, number in _first(self.texts("place"), self.numbers("round")).items():
            first[place] = min(first.get(place, number), number)
        first[PROGRAM] = -np.inf
        return sorted(first, key=lambda place: (first[place], order_of_places(place)))

    @property
    def lanes(self) -> list[str]:
        """The rows of the time axis: the program, if it is recorded, and all places."""
        return [*([] if self.recorded is None else [PROGRAM]), *self.places[0]]

    @cached_property
    def spans(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """For each bucket: start, start of compiling, start of training, end of training.

        A program may be compiled ahead of its bucket, on any thread; then compiling started before
        the bucket. If the end is not known, it is derived from the next bucket.
        """
        started, compiling, began, ended = map(self.running, self._times)
        return started, compiling, began, ended

    def running(self, times: np.ndarray) -> np.ndarray:
        """Times since 1970 as seconds that the program had run by then."""
        resumed, paused_s = self._pauses
        zero = float(self._busy[0].min()) if len(self._busy[0]) else 0.0
        before = np.concatenate([[0.0], np.cumsum(paused_s)])
        return times - zero - before[np.searchsorted(resumed, times, side="right")]

    @cached_property
    def ran_s(self) -> float:
        """How long the program ran in total, as far as known."""
        ends = self._busy[1]
        return float(self.running(ends[[ends.argmax()]])[0]) if len(ends) else 0.0

    @cached_property
    def starts(self) -> np.ndarray:
        """When the program was started again, on the same axis."""
        return self.running(self._pauses[0])

    @cached_property
    def windows(self) -> np.ndarray:
        """From the first bucket to the end of the last, for each start; shaped (starts, 2)."""
        started, _, _, ended = self.spans
        start = np.searchsorted(self.starts, started, side="right")
        found = [
            (started[start == one].min(), ended[start == one].max()) for one in np.unique(start)
        ]
        return np.array(found, float).reshape(-1, 2)

    def used(self, code: int) -> tuple[np.ndarray, np.ndarray]:
        """When a place was busy within `windows`: starts and ends."""
        started, _, _, ended = self.spans
        mine = self.places[1] == code
        begins, ends = started[mine], ended[mine]
        if self.recorded is not None:
            rows = self.recorded.of_place(self._order[1 + code])
            times = (self.recorded.numbers[name][rows] for name in ("started_at", "finished_at"))
            more_begins, more_ends = map(self.running, times)
            begins = np.concatenate([begins, more_begins])
            ends = np.concatenate([ends, more_ends])
        return self.within_windows(begins, ends)

    @property
    def starting(self) -> tuple[np.ndarray, np.ndarray]:
        """When the program or a worker started, or something compiled: starts and ends."""
        _, compiling, training, _ = self.spans
        guessed = ~self.is_recorded
        begins, ends = compiling[guessed], training[guessed]
        if self.recorded is None:
            return begins, ends
        rows = self.recorded.doing(*_STARTING)
        times = (self.recorded.numbers[name][rows] for name in ("started_at", "finished_at"))
        more_begins, more_ends = map(self.running, times)
        return np.concatenate([begins, more_begins]), np.concatenate([ends, more_ends])

    def within_windows(self, begins: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The parts of spans that are within `windows`: starts and ends."""
        clipped = [
            (np.clip(begins, first, last), np.clip(ends, first, last))
            for first, last in self.windows.tolist()
        ]
        begins, ends = map(np.concatenate, zip(*clipped, strict=True))
        return begins, ends

    @property
    def paused_s(self) -> float:
        """The seconds that are left out of `spans`."""
        return float(self._pauses[1].sum())

    @cached_property
    def _times(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The times of `spans`, in seconds since 1970."""
        started, train_s = self.numbers("started_at"), np.nan_to_num(self.numbers("train_s"))
        compile_s = np.nan_to_num(self.numbers("compile_s"))
        ended = self.numbers("finished_at")
        guess = np.minimum(started + compile_s + train_s, self._next_started())
        ended = np.where(np.isfinite(ended), ended, np.maximum(guess, started + train_s))
        began = np.maximum(ended - train_s, started)
        compiling = np.where(self.is_recorded, started, began - compile_s)
        for row, (first, last) in self._trained.items():
            began[row], ended[row] = first, last
        return started, compiling, began, ended

    @cached_property
    def is_recorded(self) -> np.ndarray:
        """Whether spans record what was compiled for each bucket, and when."""
        if self.recorded is None:
            return np.zeros(len(self), bool)
        return self.numbers("started_at") >= self.recorded.sessions[:, 0].min()

    @property
    def compiled(self) -> tuple[np.ndarray, np.ndarray]:
        """The rounds in which programs were compiled or loaded, and the seconds this took."""
        guessed = ~self.is_recorded
        numbers = self.numbers("round")[guessed]
        seconds = np.nan_to_num(self.numbers("compile_s"))[guessed]
        if self.recorded is None:
            return numbers, seconds
        known = self.recorded.numbers["round"]
        rows = self.recorded.doing(Activity.COMPILE, Activity.LOAD) & np.isfinite(known)
        return (
            np.concatenate([numbers, known[rows]]),
            np.concatenate([seconds, self.recorded.seconds[rows]]),
        )

    @cached_property
    def _trained(self) -> dict[int, tuple[float, float]]:
        """When buckets were trained, by row, as far as spans say."""
        trained = {} if self.recorded is None else self.recorded.trained
        keys = zip(self.numbers("round"), self.numbers("bucket_id"), strict=True)
        return {row: trained[key] for row, key in enumerate(keys) if key in trained}

    @cached_property
    def _busy(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """When the program ran: starts, ends, and which starts are recorded program starts."""
        started, compiling, _, ended = self._times
        known = np.empty((0, 2)) if self.recorded is None else self.recorded.sessions
        begins = np.concatenate([np.minimum(started, compiling), known[:, 0]])
        ends = np.concatenate([ended, known[:, 1]])
        return begins, ends, np.arange(len(begins)) >= len(self)

    @cached_property
    def _pauses(self) -> tuple[np.ndarray, np.ndarray]:
        """When the study resumed after each pause, and how long the pause was."""
        begins, ends, is_start = self._busy
        order = np.argsort(begins)
        resumed, until = begins[order][1:], np.maximum.accumulate(ends[order])[:-1]
        paused_s = resumed - until
        is_pause = (paused_s > _PAUSE_S) | ((paused_s > 0) & is_start[order][1:])
        return resumed[is_pause], paused_s[is_pause]

    def packed(self, rows: np.ndarray) -> dict[str, Packed]:
        """The columns that the page draws from, for the rows at these indices; shares in percent.

        `used` and `unused` are shares of the work, from 0 to 1; `foreseen` is the predicted end of
        training.
        """
        started, compiling, training, ended = self.spans
        times = {"started": started, "compiling": compiling, "training": training, "ended": ended}
        times["foreseen"] = training + self.numbers("predicted_train_s")
        numbers = {name: self.numbers(name) * (100 if name in _PERCENT else 1) for name in _NUMBERS}
        numbers["unused"] = np.nan_to_num(self.numbers("waste_fraction"))
        numbers["used"] = 1 - numbers["unused"]
        lane = self.places[1] + float(self.recorded is not None)
        found = {
            name: packed_numbers(np.round(values[rows], 3))
            if name in times
            else packed_numbers(values[rows])
            for name, values in {**times, **numbers, "lane": lane}.items()
        }
        for name in _TEXTS:
            of, at = self.texts(name)
            found[name] = packed_texts(of, at[rows])
        found["from_cache"] = packed_texts(["no", "yes"], self._from_cache[rows])
        # parts that spans show more exactly are not drawn from buckets
        guessed = np.where(self.is_recorded, -1, self._from_cache)
        found["guessed"] = packed_texts(["no", "yes"], guessed[rows])
        ids, at = self.texts("class_id")
        found["class"] = packed_texts([self.class_names[known] for known in ids], at[rows])
        return found

    def packed_spans(self, rows: np.ndarray) -> dict[str, Packed]:
        """What the page draws of these spans."""
        assert self.recorded is not None, "only called if there are any"
        recorded, (places, at) = self.recorded, self.recorded.texts["place"]
        lanes = np.array([self._order.index(place) for place in places], float)
        begin, end = (
            self.running(recorded.numbers[name])[rows] for name in ("started_at", "finished_at")
        )
        activities, doing = recorded.texts["activity"]
        classes, of = recorded.texts["class_id"]
        named = [self.class_names.get(known, known) for known in classes]
        return {
            "lane": packed_numbers(lanes[at][rows]),
            "begin": packed_numbers(np.round(begin, 4)),
            "end": packed_numbers(np.round(end, 4)),
            "seconds": packed_numbers(np.round(recorded.seconds[rows], 4)),
            "shade": packed_numbers(np.ones(len(rows))),  # the same for all rounds
            "round": packed_numbers(recorded.numbers["round"][rows]),
            "bucket_id": packed_numbers(recorded.numbers["bucket_id"][rows]),
            "activity": packed_texts(activities, doing[rows]),
            "doing": packed_texts([DOING.get(one, one) for one in activities], doing[rows]),
            "class": packed_texts(named, of[rows]),
        }

    @cached_property
    def _from_cache(self) -> np.ndarray:
        """Whether the program of each bucket came from the cache; -1 if none was compiled."""
        return np.nan_to_num(self.numbers("cache_hit"), nan=-1).astype(int)

    def _next_started(self) -> np.ndarray:
        """When the place of each bucket started its next one; never, for the last."""
        started, (_, places) = self.numbers("started_at"), self.places
        order = np.lexsort((started, places))
        following = np.full(len(self), np.inf)
        same = places[order][1:] == places[order][:-1]
        following[order[:-1][same]] = started[order][1:][same]
        return following


def _on(place: str, devices: list[str], codes: np.ndarray) -> str:
    """A place with the devices that it used."""
    used = sorted({devices[code] for code in codes.tolist() if code >= 0 and devices[code]})
    return f"{place} on {', '.join(used)}" if used else place
