"""Checks that the data fits its study: every problem, each with its fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pandas.api.types import is_float_dtype, is_numeric_dtype

from sweeper.config import StudyConfig
from sweeper.config.toml import toml_value
from sweeper.config.train import WEIGHED, target_key, with_loss
from sweeper.data.columns import (
    check_kind,
    has_too_many_values,
    repeated_headers,
    strays,
    units_rows,
    without_fractions,
)
from sweeper.data.identity import NotNumbersError, floats
from sweeper.data.part_checks import part_problems
from sweeper.data.raw import RawData
from sweeper.data.remarks import WITH_POINTS, points_fix, text_fix
from sweeper.data.target import LEAST
from sweeper.data.weights import weight_problems
from sweeper.errors import Problem, counted, listed

# floats with more different values than this are measurements, not classes
_MAX_FLOAT_CLASSES = 20


def problems(config: StudyConfig, raw: RawData) -> Iterator[Problem]:
    """Everything to fix before the study can train on `raw`."""
    yield from _column_problems(config, raw)
    if units := _units_problems(config, raw):
        yield from units
        return
    for name in raw.features:
        yield from _feature_problems(config, raw, name)
    if set(raw.targets) <= set(raw.frame.columns):
        yield from _target_problems(config, raw)
    if raw.mode is not None:
        yield from _mode_problems(config, raw, raw.mode)
    yield from weight_problems(config, raw)
    if config.train.loss not in WEIGHED and config.data.class_weights != "none":
        is_of_classes = config.train.target == "classes"
        found = "does not use weights" if is_of_classes else "has no classes to weight"
        hint = 'write class_weights = "none"'
        yield config.problem("data.class_weights", f"{config.train.loss} {found}", hint)
    yield from part_problems(config, raw)


def _column_problems(config: StudyConfig, raw: RawData) -> Iterator[Problem]:
    given = config.data.categorical_columns
    wanted = [
        *((raw.target_key, name) for name in raw.targets),
        *(("data.drop", name) for name in raw.drop),
        *(("data.categorical_columns", name) for name in given),
        *(("data.weight", name) for name in (raw.weight,) if name is not None),
    ]
    for key, name in wanted:
        if name not in raw.frame:
            yield raw.no_column(config, key, name)
    for target in raw.targets:
        for key, names in (("data.drop", raw.drop), ("data.categorical_columns", given)):
            if target in names:
                yield config.problem(key, f"'{target}' is the target", f"leave it out of {key}")
    if not raw.features:
        found = f"{raw.name} has no columns besides the target and dropped ones"
        yield config.problem("data.drop", found, "keep at least one feature")


def _units_problems(config: StudyConfig, raw: RawData) -> list[Problem]:
    """Rows of units below the header, or further headers."""
    if raw.csv is None:
        return []
    names = *raw.features, *raw.targets, *raw.weights
    columns = [name for name in names if name in raw.frame]
    frame = raw.frame[columns]
    if again := repeated_headers(frame, raw.categories, raw.decimal):
        found = f"{raw.describe_headers(again)} of {raw.name}"
        return [config.problem(raw.key, found, raw.csv.without_headers(columns[0]))]
    n_rows, description = units_rows(frame, raw.categories, raw.decimal)
    if not n_rows:
        return []
    found = f"{raw.places(range(n_rows))} of {raw.name} {description}"
    return [config.problem(raw.key, found, raw.csv.without_rows(n_rows))]


def _feature_problems(config: StudyConfig, raw: RawData, name: str) -> Iterator[Problem]:
    column = raw.frame[name]
    drop = f" or add '{name}' to data.drop" if "drop" in type(config.data).model_fields else ""
    hint = f"fix {_source(config, raw)}{drop}"
    unfit = check_kind(column)
    if unfit is not None:
        found = f"column '{name}' of {raw.name} holds {unfit}"
        yield config.problem(raw.key, found, f"write numbers or text{drop}")
        return
    if not column.count():
        found = f"column '{name}' of {raw.name} has no value in any row"
        yield config.problem(raw.key, found, hint)
        return
    if config.data.impute == "none":
        yield from _gap_problems(config, raw, name, f"write {_fill_hint(raw, name)}, {hint}")
    yield from _range_problems(config, raw, name, hint)
    if not raw.is_category(name):
        yield from _changed_problems(config, raw, name, drop)
    if raw.csv is not None and name not in raw.categories:
        text = f", or to data.categorical_columns if '{name}' is meant as text" if drop else ""
        yield from _stray_problems(config, raw, name, f"{hint}{text}")
    is_asked = name in config.data.categorical_columns
    if not is_numeric_dtype(column.dtype) and not is_asked and has_too_many_values(column):
        numbers = raw.text_numbers(name)
        values = f"{column.nunique()} different values"
        found = f"column '{name}' of {raw.name} is text with {values}"
        hint = f"add '{name}' to data.drop" if drop else hint
        if numbers:
            found, hint = (
                f"{found}; it holds {numbers}",
                f"{text_fix(raw, name, numbers)}; or {hint}",
            )
        yield config.problem(raw.key, found, hint)


def _fill_hint(raw: RawData, name: str) -> str:
    """What to write for gaps in column `name`; a single setting must work for all columns."""
    if not raw.has_gaps_in_numbers:
        return 'impute = "most_frequent"'
    own = " (a missing category is then a category of its own)" if raw.is_category(name) else ""
    return f'impute = "median"{own}'


def _source(config: StudyConfig, raw: RawData) -> str:
    """Where the user can fix the rows: the file, the function or the DataFrame."""
    if config.data.source == "python":
        return "the function"
    return "the file" if config.rows is None else raw.name


def _target_problems(config: StudyConfig, raw: RawData) -> Iterator[Problem]:
    hint = f"fix {_source(config, raw)} or remove the rows"
    for name in raw.targets:
        if unfit := check_kind(raw.frame[name]):
            found = f"column '{name}' of {raw.name} holds {unfit}"
            yield config.problem(raw.key, found, "write numbers, or text as classes")
            return
        leave_out = (
            'write missing_target = "drop" in [data] to leave out these rows, or fill them in'
        )
        yield from _gap_problems(config, raw, name, leave_out)
        yield from _range_problems(config, raw, name, hint)
        if config.train.target == "numbers":
            yield from _changed_problems(config, raw, name, "")
            rows = _rows(strays(raw.frame[name], raw.decimal))
            what = f"text, but {config.train.loss} needs numbers"
            instead = "write numbers"
            if len(raw.targets) == 1 and not _has_strays(raw, name, rows):
                instead += f", or {with_loss(config.train, 'cross_entropy')}"
            if numbers := raw.text_numbers(name):
                instead = f"{text_fix(raw, name, numbers)}; or {instead}"
            yield from _cell_problem(config, raw, name, rows, what, instead)
            if dotted := _rows(raw.with_points(name)):
                fix = points_fix(raw, name)
                yield from _cell_problem(config, raw, name, dotted, WITH_POINTS, fix)
            yield from _logarithm_problems(config, raw, name)
    if config.train.target == "classes":
        yield from _class_problems(config, raw, hint)


def _mode_problems(config: StudyConfig, raw: RawData, name: str) -> Iterator[Problem]:
    """Check that every row has a mode."""
    if unfit := check_kind(raw.frame[name]):
        found = f"column '{name}' of {raw.name} holds {unfit}"
        yield config.problem("data.mode", found, "write numbers or text as labels")
    else:
        hint = f"fix {_source(config, raw)} or remove the rows"
        yield from _gap_problems(config, raw, name, hint)


def _class_problems(config: StudyConfig, raw: RawData, hint: str) -> Iterator[Problem]:
    name, *others = raw.targets
    if others:
        found = (
            f"{config.train.loss} predicts one column, not {counted(len(raw.targets), 'target')}"
        )
        are_numbers = all(is_numeric_dtype(raw.frame[name].dtype) for name in raw.targets)
        other = f", or {with_loss(config.train, 'mse')}" if are_numbers else ""
        yield config.problem(raw.target_key, found, f"write one{other}")
        return
    if raw.csv is not None:
        yield from _stray_problems(config, raw, name, hint)
    target = raw.frame[name].dropna()
    if len(target) < len(raw.frame):
        target = without_fractions(target)  # pandas makes floats of integers next to gaps
    n_values = target.nunique()
    if is_float_dtype(target.dtype) and n_values > _MAX_FLOAT_CLASSES:
        numbers = f"'{name}' has {n_values} different numbers"
        found = f"{config.train.loss} needs classes, but {numbers}"
        loss = with_loss(config.train, "mse")
        hint = f"write {loss}; or, if these are classes, write them as integers or text"
        yield config.problem(target_key(config.train), found, hint)
    elif n_values == 1:
        value = bool(target.iloc[0]) if name in raw.boolean_targets else target.iloc[0]
        found = f"column '{name}' of {raw.name} is '{value}' in every row"
        yield config.problem(raw.key, found, "add rows of another class")
    elif config.train.loss == "binary_cross_entropy" and n_values != 2:
        found = f"binary_cross_entropy needs two classes, but '{name}' has {n_values}"
        hint = f"write {with_loss(config.train, 'cross_entropy')}"
        yield config.problem(target_key(config.train), found, hint)


def _stray_problems(config: StudyConfig, raw: RawData, name: str, hint: str) -> Iterator[Problem]:
    rows = _rows(strays(raw.frame[name], raw.decimal))
    if _has_strays(raw, name, rows):
        numbers = raw.text_numbers(name)
        hint = hint if numbers is None else f"{text_fix(raw, name, numbers)}; or {hint}"
        yield from _cell_problem(config, raw, name, rows, "text among numbers", hint)


def _has_strays(raw: RawData, name: str, rows: Sequence[int]) -> bool:
    """Whether text in these `rows` is among numbers; otherwise the column is meant to be text."""
    return raw.csv is not None and len(rows) < raw.frame[name].count() / 2


def _gap_problems(config: StudyConfig, raw: RawData, name: str, hint: str) -> Iterator[Problem]:
    gaps = _rows(raw.frame[name].isna())
    what = "missing"
    if words := raw.words.get(name):
        what = f"missing, {counted_words(words)}"
        if {*words}.difference(raw.words_of_numbers):
            gaps_alone = toml_value(raw.words_of_numbers)
            hint = f"write missing_values = {gaps_alone} to keep words as text, or {hint}"
    yield from _cell_problem(config, raw, name, gaps, what, hint)


def counted_words(words: Mapping[str, int]) -> str:
    """How often each word was read as a missing value."""
    return listed([f"{count} of them written {word!r}" for word, count in words.items()])


def _range_problems(config: StudyConfig, raw: RawData, name: str, hint: str) -> Iterator[Problem]:
    column = raw.frame[name]
    if is_numeric_dtype(column.dtype):
        precision = config.execution.precision
        with np.errstate(over="ignore"):
            numbers = column.to_numpy(np.float64).astype(precision)
        what = f"infinite or too large for {precision}"
        yield from _cell_problem(config, raw, name, _rows(np.isinf(numbers)), what, hint)


def _logarithm_problems(config: StudyConfig, raw: RawData, name: str) -> Iterator[Problem]:
    """Targets that have no logarithm."""
    transform = config.data.target_transform
    if transform == "none" or strays(raw.frame[name], raw.decimal).any():
        return
    numbers, least = raw.floats(name)[:, 0], LEAST[transform]
    if without := _rows(numbers <= least):
        are = "is" if len(without) == 1 else "are"
        found = raw.describe_rows(name, without, f"{are} {least:g} or less")
        others = ["'none'"] if numbers.min() <= LEAST["log1p"] else ["'log1p'", "'none'"]
        hint = f"write target_transform = {listed(others, 'or')}"
        key = "data.target_transform"
        yield config.problem(key, f"{transform} has no value: {found}", hint)


def _changed_problems(config: StudyConfig, raw: RawData, name: str, drop: str) -> Iterator[Problem]:
    """Integers that would change as floats, which programs train on."""
    if config.edition == 1 or raw.frame[name].dtype.kind not in "iu":
        return
    try:
        floats(raw.frame[name].to_numpy())
    except NotNumbersError as error:
        places = raw.places(error.rows)
        found = f"column '{name}' of {raw.name}: {error.found} ({places})"
        hint = f"write smaller numbers, or floats if the last digits do not matter{drop}"
        yield config.problem(raw.key, found, hint)


def _cell_problem(
    config: StudyConfig, raw: RawData, name: str, rows: Sequence[int], what: str, hint: str
) -> Iterator[Problem]:
    """The problem of some rows of column `name`; nothing without rows."""
    if rows:
        are = "is" if len(rows) == 1 else "are"
        yield config.problem(raw.key, raw.describe_rows(name, rows, f"{are} {what}"), hint)


def _rows(mask: Any) -> list[int]:
    return np.flatnonzero(mask).tolist()
