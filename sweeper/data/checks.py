"""What in the data is unfit for the study that names it: every problem, each with its mend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype

from sweeper.config import StudyConfig
from sweeper.data.naming import counted, did_you_mean, listed
from sweeper.data.part_checks import part_problems
from sweeper.data.raw import RawData, is_number
from sweeper.errors import Problem

# text with more values than these that seldom come twice is a name or a date, not a category
_MOST_TEXT_VALUES = 100
# a number with decimals and more values than these is a measurement, not a class
_MOST_FLOAT_CLASSES = 20


def problems(config: StudyConfig, raw: RawData) -> Iterator[Problem]:
    """Everything that has to be mended before the study can train on `raw`."""
    yield from _column_problems(config, raw)
    for name in raw.features:
        yield from _feature_problems(config, raw, name)
    if raw.target in raw.frame:
        yield from _target_problems(config, raw)
    yield from part_problems(config, raw)


def _column_problems(config: StudyConfig, raw: RawData) -> Iterator[Problem]:
    wanted = [("data.target", raw.target), *(("data.drop", name) for name in raw.drop)]
    columns = list(raw.frame.columns)
    for key, name in wanted:
        if name not in raw.frame:
            mend = did_you_mean(name, columns) or f"its columns are {listed(columns)}"
            yield config.problem(key, f"{raw.name} has no column '{name}'", mend)
    if raw.target in raw.drop:
        mend = "leave it out of data.drop"
        yield config.problem("data.drop", f"'{raw.target}' is the target", mend)
    if not raw.features:
        found = f"{raw.name} has no column but the target and what is dropped"
        yield config.problem("data.drop", found, "leave at least one to learn from")


def _feature_problems(config: StudyConfig, raw: RawData, name: str) -> Iterator[Problem]:
    mend = f"mend the file or add '{name}' to data.drop"
    yield from _gap_problems(config, raw, name, mend)
    yield from _stray_problems(config, raw, name, mend)
    column = raw.frame[name]
    n_values = column.nunique()
    if not is_number(column) and n_values > max(_MOST_TEXT_VALUES, column.count() / 2):
        found = f"column '{name}' of {raw.name} is text with {n_values} different values"
        yield config.problem(raw.key, found, f"add '{name}' to data.drop")


def _target_problems(config: StudyConfig, raw: RawData) -> Iterator[Problem]:
    mend = "mend the file or remove the rows"
    yield from _gap_problems(config, raw, raw.target, mend)
    if config.train.target == "numbers":
        rows, what = _strays(raw.frame[raw.target]), f"text, and {config.train.loss} needs numbers"
        mend = "write numbers, or train.loss = 'cross_entropy'"
        yield from _cell_problem(config, raw, raw.target, rows, what, mend)
    else:
        yield from _stray_problems(config, raw, raw.target, mend)
        yield from _class_problems(config, raw)


def _class_problems(config: StudyConfig, raw: RawData) -> Iterator[Problem]:
    target = raw.frame[raw.target].dropna()
    n_values = target.nunique()
    if is_float_dtype(target.dtype) and n_values > _MOST_FLOAT_CLASSES:
        numbers = f"'{raw.target}' has {n_values} different numbers"
        found = f"{config.train.loss} needs classes, and {numbers}"
        mend = "write train.loss = 'mse', or whole numbers or text as classes"
        yield config.problem("train.loss", found, mend)
    elif n_values == 1:
        found = f"column '{raw.target}' of {raw.name} is '{target.iloc[0]}' in every row"
        yield config.problem(raw.key, found, "add rows of another class")
    elif config.train.loss == "binary_cross_entropy" and n_values != 2:
        found = f"binary_cross_entropy needs two classes, and '{raw.target}' has {n_values}"
        yield config.problem("train.loss", found, "write train.loss = 'cross_entropy'")


def _stray_problems(config: StudyConfig, raw: RawData, name: str, mend: str) -> Iterator[Problem]:
    rows = _strays(raw.frame[name])
    if len(rows) < raw.frame[name].count() / 2:
        # else the column is meant as text
        yield from _cell_problem(config, raw, name, rows, "text among numbers", mend)


def _gap_problems(config: StudyConfig, raw: RawData, name: str, mend: str) -> Iterator[Problem]:
    column = raw.frame[name]
    yield from _cell_problem(config, raw, name, _rows(column.isna()), "missing", mend)
    if is_number(column):
        precision = config.execution.precision
        with np.errstate(over="ignore"):
            numbers = column.to_numpy(np.float64).astype(precision)
        what = f"infinite or too large for {precision}"
        yield from _cell_problem(config, raw, name, _rows(np.isinf(numbers)), what, mend)


def _cell_problem(
    config: StudyConfig, raw: RawData, name: str, rows: Sequence[int], what: str, mend: str
) -> Iterator[Problem]:
    """The one problem that some rows of column `name` have; none where there are no rows."""
    if rows:
        values = f"{counted(len(rows), 'value')} {'is' if len(rows) == 1 else 'are'}"
        found = f"column '{name}' of {raw.name}: {values} {what} ({raw.places(rows)})"
        yield config.problem(raw.key, found, mend)


def _strays(column: pd.Series[Any]) -> list[int]:
    """The rows in which there is text that is no number."""
    return _rows(pd.to_numeric(column, errors="coerce").isna() & column.notna())


def _rows(mask: Any) -> list[int]:
    return np.flatnonzero(mask).tolist()
