"""When each bucket was trained, and where: what the execution view is drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from sweeper.dashboard.packing import Packed, packed_numbers, packed_texts
from sweeper.results.light import floats, texts

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
# where nothing ran for longer, the program itself did not: it was started again later
_PAUSE_S = 30.0
_PERCENT = ("waste_fraction", "occupancy")
_TEXTS = ("strategy", "lane_loop", "trials", "outcome")


@dataclass(frozen=True)
class Buckets:
    """The rows of buckets.parquet as columns; times in seconds since the first bucket.

    Pauses between two starts of the program are left out of them.
    """

    table: pa.Table
    _numbers: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray], repr=False)

    def __len__(self) -> int:
        return self.table.num_rows

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers, nan where null, memory in MB; all nan where there is none."""
        if name not in self._numbers:
            known = name in self.table.column_names
            values = floats(self.table[name]) if known else np.full(len(self), np.nan)
            self._numbers[name] = values / 1e6 if name.endswith("_bytes") else values
        return self._numbers[name]

    def texts(self, name: str) -> tuple[list[str], np.ndarray]:
        """A column of text: what occurs, and each row's place in it, -1 where it is null."""
        return texts(self.table[name])

    @cached_property
    def class_names(self) -> dict[str, str]:
        """Each class in words, by its id; older studies have none, and the id stands for it."""
        ids, codes = self.texts("class_id")
        if "class_name" not in self.table.column_names:
            return {known: known for known in ids}
        names, named = self.texts("class_name")
        pairs = sorted({*zip(codes.tolist(), named.tolist(), strict=True)})
        told = {ids[code]: names[name] for code, name in pairs if code >= 0 and name >= 0}
        return {known: told.get(known, known) for known in ids}

    @cached_property
    def places(self) -> tuple[list[str], np.ndarray]:
        """The threads and workers with their devices, and each bucket's among them."""
        places, at = self.texts("place")
        devices, on = self.texts("device")
        named = [
            " on ".join(filter(None, (_text(places, place), _text(devices, device))))
            for place, device in zip(at.tolist(), on.tolist(), strict=True)
        ]
        order = sorted(set(named))
        where = {name: index for index, name in enumerate(order)}
        return order, np.array([where[name] for name in named], int)

    @cached_property
    def spans(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of each bucket: taken up, compiling begun, training begun, training ended.

        A program may be compiled ahead of its bucket, on any thread: then compiling has begun
        before the bucket was taken up. Where the end is not known it is told from the next bucket.
        """
        started, compiling, began, ended = self._times
        resumed, paused_s = self._pauses
        zero = float(np.nanmin(np.minimum(started, compiling))) if len(self) else 0.0

        def running(times: np.ndarray) -> np.ndarray:
            before = np.concatenate([[0.0], np.cumsum(paused_s)])
            return times - zero - before[np.searchsorted(resumed, times, side="right")]

        return running(started), running(compiling), running(began), running(ended)

    @property
    def paused_s(self) -> float:
        """The seconds that are left out of `spans`, between the first bucket and the last."""
        return float(self._pauses[1].sum())

    @cached_property
    def _times(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What `spans` tells, in seconds since 1970."""
        started, train_s = self.numbers("started_at"), np.nan_to_num(self.numbers("train_s"))
        compile_s = np.nan_to_num(self.numbers("compile_s"))
        ended = self.numbers("finished_at")
        guess = np.minimum(started + compile_s + train_s, self._next_started())
        ended = np.where(np.isfinite(ended), ended, np.maximum(guess, started + train_s))
        began = np.maximum(ended - train_s, started)
        return started, began - compile_s, began, ended

    @cached_property
    def _pauses(self) -> tuple[np.ndarray, np.ndarray]:
        """When the study went on after each pause, and how long that was."""
        started, compiling, _, ended = self._times
        busy_from = np.minimum(started, compiling)
        order = np.argsort(busy_from)
        resumed, until = busy_from[order][1:], np.maximum.accumulate(ended[order])[:-1]
        is_pause = resumed - until > _PAUSE_S
        return resumed[is_pause], (resumed - until)[is_pause]

    def packed(self, rows: np.ndarray) -> dict[str, Packed]:
        """The columns that the page draws from, of the rows at these places; shares in percent.

        `used` and `unused` are shares of the work, from 0 to 1; `foreseen` is when training would
        have ended as it was predicted.
        """
        started, compiling, training, ended = self.spans
        times = {"started": started, "compiling": compiling, "training": training, "ended": ended}
        times["foreseen"] = training + self.numbers("predicted_train_s")
        numbers = {name: self.numbers(name) * (100 if name in _PERCENT else 1) for name in _NUMBERS}
        numbers["unused"] = np.nan_to_num(self.numbers("waste_fraction"))
        numbers["used"] = 1 - numbers["unused"]
        found = {
            name: packed_numbers(np.round(values[rows], 3))
            if name in times
            else packed_numbers(values[rows])
            for name, values in {**times, **numbers, "lane": self.places[1].astype(float)}.items()
        }
        for name in _TEXTS:
            of, at = self.texts(name)
            found[name] = packed_texts(of, at[rows])
        found["from_cache"] = packed_texts(["no", "yes"], self._from_cache[rows])
        ids, at = self.texts("class_id")
        found["class"] = packed_texts([self.class_names[known] for known in ids], at[rows])
        return found

    @cached_property
    def _from_cache(self) -> np.ndarray:
        """Whether the program of each bucket came from the cache; -1 where none was compiled."""
        return np.nan_to_num(self.numbers("cache_hit"), nan=-1).astype(int)

    def _next_started(self) -> np.ndarray:
        """When the place of each bucket took up its next one; never, of the last."""
        started, (_, places) = self.numbers("started_at"), self.places
        order = np.lexsort((started, places))
        following = np.full(len(self), np.inf)
        same = places[order][1:] == places[order][:-1]
        following[order[:-1][same]] = started[order][1:][same]
        return following


def _text(known: list[str], code: int) -> str | None:
    return known[code] if code >= 0 else None
