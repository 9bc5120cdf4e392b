"""The weights of rows: what is wrong with them, and their scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.config import StudyConfig
from sweeper.data.columns import check_kind, strays
from sweeper.data.dataset import Dataset
from sweeper.data.raw import RawData
from sweeper.data.remarks import WITH_POINTS, points_fix, text_fix
from sweeper.data.split import RowIndices
from sweeper.errors import DataError, Problem

_KEY = "data.weight"


def row_weights(config: StudyConfig, raw: RawData, training: RowIndices) -> NDArray[Any] | None:
    """The weight of every row, or None; their mean over the `training` rows is 1.

    Only the ratios of weights count, and with this mean they stay within the range of the
    precision.

    Raises:
        DataError: with the rows whose weight is lost in the precision, as they differ too much.
    """
    if raw.weight is None:
        return None
    given, precision = raw.floats(raw.weight)[:, 0], config.execution.precision
    relative = given / (given.max() or 1.0)  # so that their sum is finite
    with np.errstate(over="ignore"):
        weights = (relative / (relative[training].mean() or 1.0)).astype(precision)
    is_lost = (given > 0) & ~((weights >= np.finfo(precision).tiny) & np.isfinite(weights))
    if is_lost.any():
        rows = np.flatnonzero(is_lost).tolist()
        what = f"too far from the mean of the training rows to count in {precision}"
        found = raw.describe_rows(raw.weight, rows, f"{'is' if len(rows) == 1 else 'are'} {what}")
        hint = f"the largest is {given.max():g}: write weights that differ by less, or 0"
        raise DataError(config.problem(_KEY, found, hint))
    return weights


def weight_problems(config: StudyConfig, raw: RawData) -> Iterator[Problem]:
    """Problems with the column of weights, with the rows that they are in."""
    name = raw.weight
    if name is None:
        return
    if role := _other_role(config, raw, name):
        yield config.problem(_KEY, f"'{name}' is {role}", "name another column")
    elif name in raw.frame:
        yield from _value_problems(config, raw, name)


def _other_role(config: StudyConfig, raw: RawData, name: str) -> str:
    """What else the study uses the column for; empty if nothing."""
    split = config.data.split
    roles = {
        "the target": raw.targets,
        "in data.drop": raw.drop,
        "in data.categorical_columns": config.data.categorical_columns,
        "the column of data.split.group": (split.group,),
        "the column of data.split.time": (split.time,),
        "the column of data.split.column": (split.column,),
        "the array of data.mode": (raw.mode,),
    }
    return next((role for role, names in roles.items() if name in names), "")


def _value_problems(config: StudyConfig, raw: RawData, name: str) -> Iterator[Problem]:
    column = raw.frame[name]
    if unfit := check_kind(column):
        found = f"column '{name}' of {raw.name} holds {unfit}"
        yield config.problem(_KEY, found, "write numbers, 0 or more")
        return
    texts = strays(column, raw.decimal).to_numpy()
    numbers = np.zeros(len(column)) if texts.any() else raw.floats(name)[:, 0]
    what_to_write = "write 1 for rows that count as usual, or 0 for rows that do not count"
    to_read = what_to_write
    if texts.any() and (written := raw.text_numbers(name)):
        to_read = f"{text_fix(raw, name, written)}; or {what_to_write}"
    wrong = {
        "text, but weights are numbers": (texts, to_read),
        WITH_POINTS: (raw.with_points(name), points_fix(raw, name)),
        "missing": (column.isna().to_numpy(), what_to_write),
        "negative": (numbers < 0, "write 0 or more"),
        "infinite": (np.isinf(numbers), "write finite numbers"),
    }
    found = {what: (np.flatnonzero(mask), hint) for what, (mask, hint) in wrong.items()}
    for what, (rows, hint) in found.items():
        if len(rows):
            are = "is" if len(rows) == 1 else "are"
            message = raw.describe_rows(name, rows.tolist(), f"{are} {what}")
            yield config.problem(_KEY, message, hint)


def weightless_parts(config: StudyConfig, data: Dataset) -> Iterator[Problem]:
    """Splits, or the parts of a fold, in which no row counts."""
    for part, weights in _parts(data) if data.is_weighted else ():
        if len(weights) and not weights.any():
            found = f"all weights of the {part} are 0, so nothing can be computed from them"
            hint = "write weights above 0, or split the rows in another way"
            yield config.problem(_KEY, found, hint)


def _parts(data: Dataset) -> Iterator[tuple[str, NDArray[Any]]]:
    yield "training rows", data.w_train
    yield "validation rows", data.w_val
    yield "test rows", data.w_test
    for fold in range(data.n_folds):
        of_fold = f"rows of fold {fold + 1} of {data.n_folds}"
        yield f"training {of_fold}", data.w_train[data.fold_of != fold]
        yield f"validation {of_fold}", data.w_train[data.fold_of == fold]
