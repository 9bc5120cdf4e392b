"""The finished trials of a study as columns, under the names that the page shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sweeper.dashboard.packing import Packed, packed_numbers, packed_texts
from sweeper.results import formatting
from sweeper.results.columns import BYTES, SECONDS, UTC, unit_of
from sweeper.results.light import floats, texts
from sweeper.results.ranking import best_first, value_columns

# Useless in a table, or too long for one: errors are shown by the line that says why.
_OF_THE_STUDY = {"schema_version", "study", "objective", "direction"}  # the same in all rows
_HIDDEN = {*_OF_THE_STUDY, "params_json", "structure_id", "model_path", "error_message"}
_FIRST = ("trial_number", "state", "reason")
_TITLES = {"trial_number": "trial", "class_id": "class"}
_TELLING = 14
_MB, _SINCE = "MB", "s after the first trial"
_SHOWN_UNITS = {SECONDS: "s", BYTES: _MB, UTC: _SINCE}
CONVERTED = (_MB, _SINCE)  # units of the page that differ from those of the columns


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column of the table of trials; `unit` is None if its numbers have no unit.

    Columns with `is_in_charts` distinguish trials in charts.
    """

    name: str
    title: str
    unit: str | None
    is_text: bool
    is_in_charts: bool
    meaning: str


@dataclass(frozen=True)
class PublishedTrials:
    """The rows of trials.parquet, by number; `said` is the file's metadata about the study.

    `class_names` are names of classes by id. `first_round_at` is when the first round started, if
    it is known: a trial may end before others that started earlier.
    """

    table: pa.Table
    said: Mapping[str, Any]
    class_names: Mapping[str, str] = field(default_factory=dict[str, str])
    first_round_at: float | None = None
    _numbers: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray], repr=False)
    _ranked: dict[int, np.ndarray] = field(default_factory=dict[int, np.ndarray], repr=False)

    def __len__(self) -> int:
        return self.table.num_rows

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The objectives."""
        return formatting.names(self.said["metric"])

    @cached_property
    def directions(self) -> tuple[str, ...]:
        """minimize or maximize, of each objective."""
        return formatting.names(self.said["direction"])

    @cached_property
    def objectives(self) -> tuple[str, ...]:
        """The columns of the objectives."""
        return value_columns(len(self.metrics))

    @cached_property
    def keys(self) -> dict[str, str]:
        """The keys of searched settings in the study file, by column name."""
        found: dict[str, str] = {}
        for key, entry in self.said["search"].items():
            name = f"params_{entry.get('name') or key.rpartition('.')[2]}"
            if name in self.table.column_names:
                found[name] = key
        return found

    @cached_property
    def parameters(self) -> dict[str, Mapping[str, Any]]:
        """The searched settings by column name, each as in the study file."""
        found = {name: self.said["search"][key] for name, key in self.keys.items()}
        left = [n for n in self.table.column_names if n.startswith("params_") and n not in found]
        return {**found, **{name: {} for name in left if name != "params_json"}}

    @cached_property
    def first_run(self) -> str | None:
        """The `run_id` of the trials that ended first; None if it is not known."""
        if not len(self) or "run_id" not in self.table.column_names:
            return None
        ids, at = self.texts("run_id")
        code = at[np.argmin(np.nan_to_num(self.numbers("last_round"), nan=np.inf))]
        return ids[code] if code >= 0 else None

    @cached_property
    def began_at(self) -> float:
        """When the first trial started, in seconds since 1970."""
        if self.first_round_at is not None:
            return self.first_round_at
        began = self._of("started_at")
        return float(np.nanmin(began)) if np.isfinite(began).any() else 0.0

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers: times in seconds since the first trial, memory in MB."""
        values, unit = self._of(name), unit_on_page(name)
        return values - self.began_at if unit == _SINCE else values / 1e6 if unit == _MB else values

    def texts(self, name: str) -> tuple[list[str], np.ndarray]:
        """A column of text: its different values, and each row's index among them, -1 for null."""
        if name == "error":
            messages, codes = texts(self.table["error_message"])
            return [formatting.reason_line(message) for message in messages], codes
        if pa.types.is_boolean(self.table.schema.field(name).type):
            return ["false", "true"], np.nan_to_num(self._of(name), nan=-1).astype(int)
        found, codes = texts(self.table[name])
        if name == "class_id":
            return [self.class_names.get(known, known) for known in found], codes
        return found, codes

    def is_text(self, name: str) -> bool:
        """Whether the column holds text."""
        if name == "error":
            return True
        kind = self.table.schema.field(name).type
        return pa.types.is_dictionary(kind) or pa.types.is_boolean(kind)

    def are(self, state: str, column: str = "state") -> np.ndarray:
        """Which trials ended in this state."""
        found, codes = self.texts(column)
        return codes == found.index(state) if state in found else np.zeros(len(self), bool)

    @cached_property
    def diverged(self) -> np.ndarray:
        """Which trials ended because their loss or objective was not finite."""
        return self.are(formatting.DIVERGED, "reason")

    def params(self, place: int) -> dict[str, Any]:
        """The exact parameters of the trial at this index."""
        return json.loads(self.table["params_json"][place].as_py())

    @cached_property
    def feasible(self) -> np.ndarray:
        """Which trials are complete and meet the constraints, if there are any."""
        has_limits = "feasible" in self.table.column_names
        complete = self.are("COMPLETE")
        return complete & (self.numbers("feasible") != 0) if has_limits else complete

    def best(self, n: int) -> np.ndarray:
        """The indices of the best feasible complete trials, the best first.

        With several objectives, they are ranked front by front, then by the first.
        """
        if len(self.objectives) > 1:
            return self._best_of_fronts(n)
        value = self.numbers("value")
        places = np.flatnonzero(self.feasible & np.isfinite(value))
        cost = value[places] if self.directions[0] == "minimize" else -value[places]
        return places[np.lexsort((self.numbers("trial_number")[places], cost))][:n]

    def _best_of_fronts(self, n: int) -> np.ndarray:
        if n not in self._ranked:
            values = np.stack([self.numbers(name) for name in self.objectives], axis=1)
            places = np.flatnonzero(self.feasible & np.isfinite(values).all(axis=1))
            numbers = self.numbers("trial_number")
            rows = [
                {
                    "place": place,
                    "trial_number": numbers[place],
                    "state": "COMPLETE",
                    **dict(zip(self.objectives, values[place].tolist(), strict=True)),
                }
                for place in places.tolist()
            ]
            best = best_first(rows, self.directions, n)
            self._ranked[n] = np.array([row["place"] for row in best], int)
        return self._ranked[n]

    def tested(self, number: int) -> dict[str, float]:
        """The test metrics of one trial; empty if it has not been published or has none."""
        columns = [name for name in self.table.column_names if name.startswith("test_")]
        places = np.flatnonzero(self.numbers("trial_number") == number)
        found = {name: float(self.numbers(name)[place]) for name in columns for place in places}
        return {name: value for name, value in found.items() if np.isfinite(value)}

    def tied(self) -> list[int]:
        """The numbers of the best trials by one objective, if several have the best value."""
        if len(self.objectives) > 1 or not len(best := self.best(len(self))):
            return []
        value = self.numbers("value")
        tied = best[value[best] == value[best[0]]]
        return self.numbers("trial_number")[tied].astype(int).tolist() if len(tied) > 1 else []

    @cached_property
    def columns(self) -> list[ShownColumn]:
        """The columns of the table of trials, the most important first."""
        names = [name for name in self.table.column_names if name not in _HIDDEN]
        own = [*_FIRST, *self.objectives, *self.parameters]
        rest = [name for name in names if name not in own]
        if "error_message" in self.table.column_names:
            rest.insert(rest.index("error_type") + 1 if "error_type" in rest else 0, "error")
        return [self._shown(name) for name in [*own, *rest]]

    def packed(self, rows: np.ndarray) -> dict[str, Packed]:
        """The shown columns of the rows at these indices."""
        packed: dict[str, Packed] = {}
        for column in self.columns:
            if column.is_text:
                found, codes = self.texts(column.name)
                packed[column.name] = packed_texts(found, codes[rows])
            else:
                packed[column.name] = packed_numbers(self.numbers(column.name)[rows], None)
        return packed

    def _of(self, name: str) -> np.ndarray:
        if name not in self._numbers:
            self._numbers[name] = floats(self.table[name])
        return self._numbers[name]

    def _shown(self, name: str) -> ShownColumn:
        said = self.said["columns"].get(name, {})
        meaning = "why it failed" if name == "error" else said.get("meaning", "")
        telling = (
            *_FIRST,
            *self.objectives,
            *list(self.parameters)[:_TELLING],
            "epochs_done",
        )
        is_text = self.is_text(name)
        return ShownColumn(
            name, self.title(name), unit_on_page(name), is_text, name in telling, meaning
        )

    def title(self, name: str) -> str:
        """The title of a column on the page."""
        if name in self.objectives:
            return self.metrics[self.objectives.index(name)]
        if name in self.parameters:
            return name.removeprefix("params_")
        if name in _TITLES:
            return _TITLES[name]
        if name.startswith("final_"):
            return f"last {name.removeprefix('final_')}"
        if unit_of(name):
            for end in ("_s", "_bytes", "_at"):
                name = name.removesuffix(end)
        return name.replace("_", " ")


def unit_on_page(name: str) -> str | None:
    """The unit of a column on the page."""
    return _SHOWN_UNITS.get(unit_of(name) or "")
