"""The rows of a study as read, before anything is left out or changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from sweeper.config import StudyConfig
from sweeper.data.columns import (
    as_floats,
    with_columns,
    with_points,
    without_fractions,
    without_strays,
)
from sweeper.data.csv_file import CsvFile
from sweeper.data.text_numbers import TextNumbers, gap_words, text_numbers
from sweeper.errors import Problem, counted, did_you_mean, listed

_PLACES_SHOWN = 5


@dataclass(frozen=True, eq=False)
class RawData:
    """All columns, including those to predict and those to leave out."""

    name: str
    """What messages call the data."""
    key: str
    """The setting that names the data."""
    frame: pd.DataFrame
    targets: tuple[str, ...]
    """Empty if nothing is predicted."""
    target_key: str = "data.target"
    """The setting that names the targets."""
    drop: tuple[str, ...] = ()
    """Columns to leave out."""
    aside: tuple[str, ...] = ()
    """Columns that no model sees, such as those that only split the rows."""
    categories: frozenset[str] = frozenset()
    """Numeric columns that are treated as categories."""
    class_names: tuple[str, ...] = ()
    """Empty if classes are named by their value in the data."""
    mode: str | None = None
    """The column in `aside` that labels the components of a mixture."""
    weight: str | None = None
    """The column with the weights of rows."""
    boolean_targets: frozenset[str] = frozenset()
    """Targets of booleans, which are numbers in `frame` if some are missing."""
    csv: CsvFile | None = None
    """None if the rows do not come from a text file."""
    decimal: str = "."
    """The separator of numbers that pandas has left as text."""
    kept: NDArray[np.intp] | None = None
    """The indices of the rows of `frame` in the source, if some were left out."""
    notes: tuple[str, ...] = ()
    """Messages for the user about how the rows were read."""
    words: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """How often each word was read as a missing value, by column."""

    @cached_property
    def features(self) -> list[str]:
        """The columns that a model may use."""
        others = {*self.targets, *self.drop, *self.aside}
        return [name for name in self.frame.columns if name not in others]

    @cached_property
    def weights(self) -> list[str]:
        """The column of weights, if there is one."""
        if self.weight is None or self.weight not in self.frame or self.weight in self.targets:
            return []
        return [self.weight]

    def is_category(self, name: str) -> bool:
        """Whether a column is encoded value by value; otherwise it is a number."""
        return name in self.categories or name not in self._numeric

    @cached_property
    def numbers(self) -> list[str]:
        """The features that are numbers; they become the first model inputs."""
        return [name for name in self.features if not self.is_category(name)]

    @cached_property
    def _numeric(self) -> frozenset[str]:
        """The numeric columns, computed once, since pandas is slow column by column."""
        dtypes = self.frame.dtypes.items()
        return frozenset(str(name) for name, dtype in dtypes if is_numeric_dtype(dtype))

    @cached_property
    def has_gaps_in_numbers(self) -> bool:
        """Whether some numeric feature is missing in some row."""
        return bool(self.frame[self.numbers].isna().to_numpy().any())

    @cached_property
    def words_of_numbers(self) -> list[str]:
        """The strings that mean a missing number in some column."""
        found = {word for name in self._numeric for word in self.words.get(name, ())}
        return ["", *sorted(found)]

    @cached_property
    def gap_words(self) -> list[str]:
        """The strings that mean or may mean a missing number in some column."""
        read = self.frame[[*self.features, *self.targets, *self.weights]]
        return [*dict.fromkeys([*self.words_of_numbers, *gap_words(read, self.decimal)])]

    def text_numbers(self, name: str) -> TextNumbers | None:
        """The numbers that the text in a column means; None if it is just text."""
        return text_numbers(self.frame[name], self.decimal, has_strays=self.csv is None)

    def with_points(self, name: str) -> NDArray[np.bool_]:
        """Which numbers of a CSV file have a point although decimals are commas, as in 1.250."""
        return with_points(self.frame[name], self._point).to_numpy()

    def floats(self, *names: str) -> NDArray[np.float64]:
        """The numbers of columns, also of those that are text, shaped (rows, columns)."""
        return as_floats(self.frame[[*names]], self._point)

    @property
    def _point(self) -> str:
        """The decimal separator of the source, also of an edition that ignored it in text."""
        return "." if self.csv is None else self.csv.dialect.decimal

    def with_targets(self) -> RawData:
        """The rows with a value for every target."""
        targets = [name for name in self.targets if name in self.frame]
        kept = np.flatnonzero(self.frame[targets].notna().all(axis=1))
        frame = self.frame.iloc[kept].reset_index(drop=True)
        whole = {name: without_fractions(frame[name]) for name in targets}
        if self.csv is not None:
            names = [*self.features, *self.weights]
            names = [name for name in names if name not in self.categories]
            whole |= {
                name: without_strays(frame[name], self.frame[name], self.decimal) for name in names
            }
        return replace(self, frame=with_columns(frame, whole), kept=kept)

    def places(self, rows: Sequence[int]) -> str:
        """Where the user finds `rows`: the lines of the file, whose header is line 1."""
        places = rows if self.kept is None else self.kept[[*rows]].tolist()
        numbers = [place + 1 if self.csv is None else self._lines[place] for place in places]
        shown = ", ".join(str(number) for number in numbers[:_PLACES_SHOWN])
        word = "row" if self.csv is None else "line"
        more = ", ..." if len(numbers) > _PLACES_SHOWN else ""
        return f"{word if len(numbers) == 1 else word + 's'} {shown}{more}"

    def describe_headers(self, rows: Sequence[int]) -> str:
        """The description of `rows` that repeat the header."""
        return f"{self.places(rows)} repeat{'s' if len(rows) == 1 else ''} the column names"

    def describe_rows(self, name: str, rows: Sequence[int], what: str) -> str:
        """The description of a column whose values in `rows` are not what they should be."""
        values = counted(len(rows), "value")
        return f"column '{name}' of {self.name}: {values} {what} ({self.places(rows)})"

    def no_column(self, config: StudyConfig, key: str, name: str) -> Problem:
        """The problem of a setting that names a column which does not exist."""
        columns = list(self.frame.columns)
        hint = did_you_mean(name, columns) or f"its columns are {listed(columns)}"
        return config.problem(key, f"{self.name} has no column '{name}'", hint)

    @cached_property
    def _lines(self) -> list[int]:
        """The line on which each row starts."""
        assert self.csv is not None
        return self.csv.row_lines()
