"""The rows of a study as they were read, before anything is left out or changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from sweeper.data.csv_reader import USUAL, Dialect, row_lines
from sweeper.data.text_numbers import gap_words

_PLACES_SHOWN = 5


@dataclass(frozen=True, eq=False)
class RawData:
    """All columns, those to predict among them, and those to leave out.

    `key` is the setting that names the data, `target_key` the one that names the targets.
    `aside` are columns that only split the rows, `categories` those of numbers that are meant as
    categories; `mode` is the column aside that labels the parts of a mixture. There are no
    `targets` where nothing is predicted; `of_truth` are those of truth values, which are numbers in
    `frame` where some are missing. `class_names` is empty where classes are called by their
    value in the data; `path` is None where the rows come from no text file of the user's, and
    `dialect` says how that is written. `kept` is the place in the source of each row of `frame`, if
    some were left out; `notes` is what the user should know about how the rows were read. `words`
    counts the words that were read as missing values, by column.
    """

    name: str
    key: str
    frame: pd.DataFrame
    targets: tuple[str, ...]
    target_key: str = "data.target"
    drop: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    categories: frozenset[str] = frozenset()
    class_names: tuple[str, ...] = ()
    mode: str | None = None
    of_truth: frozenset[str] = frozenset()
    path: Path | None = None
    dialect: Dialect = USUAL
    kept: NDArray[np.intp] | None = None
    notes: tuple[str, ...] = ()
    words: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])

    @cached_property
    def features(self) -> list[str]:
        """The columns that a model may look at."""
        others = {*self.targets, *self.drop, *self.aside}
        return [name for name in self.frame.columns if name not in others]

    def is_category(self, name: str) -> bool:
        """Whether a column is encoded value by value; else it is a number."""
        return name in self.categories or name not in self._numeric

    @cached_property
    def _numeric(self) -> frozenset[str]:
        """The columns of numbers: of thousands, asked for one by one, pandas takes its time."""
        dtypes = self.frame.dtypes.items()
        return frozenset(str(name) for name, dtype in dtypes if is_numeric_dtype(dtype))

    @cached_property
    def has_gaps_in_numbers(self) -> bool:
        """Whether some feature that is a number has no value in some row."""
        numbers = [name for name in self.features if not self.is_category(name)]
        return bool(self.frame[numbers].isna().to_numpy().any())

    @cached_property
    def words_of_numbers(self) -> list[str]:
        """The texts that mean a missing number in some column."""
        found = {word for name in self._numeric for word in self.words.get(name, ())}
        return ["", *sorted(found)]

    @cached_property
    def gap_words(self) -> list[str]:
        """The texts that mean a missing number in some column, or may mean one."""
        read = self.frame[[*self.features, *self.targets]]
        return [*dict.fromkeys([*self.words_of_numbers, *gap_words(read)])]

    def places(self, rows: Sequence[int]) -> str:
        """Where the user finds `rows`: the lines of the file, whose header is line 1."""
        places = rows if self.kept is None else self.kept[[*rows]].tolist()
        numbers = [place + 1 if self.path is None else self._lines[place] for place in places]
        shown = ", ".join(str(number) for number in numbers[:_PLACES_SHOWN])
        word = "row" if self.path is None else "line"
        more = ", ..." if len(numbers) > _PLACES_SHOWN else ""
        return f"{word if len(numbers) == 1 else word + 's'} {shown}{more}"

    @cached_property
    def _lines(self) -> list[int]:
        """The line on which each row begins."""
        assert self.path is not None
        return row_lines(self.path, self.dialect)
