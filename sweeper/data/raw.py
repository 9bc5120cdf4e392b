"""The rows of a study as they were read, before anything is left out or changed."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

_PLACES_SHOWN = 5


@dataclass(frozen=True, eq=False)
class RawData:
    """All columns, the one to predict among them, and those to leave out.

    `key` is the setting that names the data. `class_names` is empty where classes are called by
    their value in the data; `path` is None where the rows come from no file of the user's.
    """

    name: str
    key: str
    frame: pd.DataFrame
    target: str
    drop: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    path: Path | None = None

    @property
    def features(self) -> list[str]:
        """The columns that a model may look at."""
        return [name for name in self.frame.columns if name not in (self.target, *self.drop)]

    def places(self, rows: Sequence[int]) -> str:
        """Where the user finds `rows`: the lines of the file, whose header is line 1."""
        numbers = [row + 1 if self.path is None else self._lines[row] for row in rows]
        shown = ", ".join(str(number) for number in numbers[:_PLACES_SHOWN])
        word = "row" if self.path is None else "line"
        more = ", ..." if len(numbers) > _PLACES_SHOWN else ""
        return f"{word if len(numbers) == 1 else word + 's'} {shown}{more}"

    @cached_property
    def _lines(self) -> list[int]:
        """The line on which each row begins."""
        assert self.path is not None
        begins: list[int] = []
        with self.path.open(encoding="utf-8-sig", newline="") as file:
            reader, line = csv.reader(file), 1
            for record in reader:
                # a blank line is no row, and a quoted field may run over several lines
                if len(record) > 1 or any(field.strip() for field in record):
                    begins.append(line)
                line = reader.line_num + 1
        return begins[1:]


def is_number(column: pd.Series[Any]) -> bool:
    """Whether the column goes into a model as it is; else it is text, one column a value."""
    return is_numeric_dtype(column.dtype)
