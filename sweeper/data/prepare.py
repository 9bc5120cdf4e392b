"""Prepares a study's data: read, check, split and encode its rows.

Rows come from scikit-learn, a file, or a user-defined function. Whether they fit into memory is
checked before anything large is created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import datasets

from sweeper.config import StudyConfig
from sweeper.config.data import CsvTable, FunctionTable, NpzTable, ParquetTable, SklearnTable
from sweeper.data import first_edition
from sweeper.data.bins import bins_of
from sweeper.data.checks import problems
from sweeper.data.columns import (
    declared_categories,
    holds_booleans,
    native,
    plain,
)
from sweeper.data.csv_file import CsvFile, Dialect, format_settings
from sweeper.data.csv_reader import read_csv_table
from sweeper.data.dataset import Dataset
from sweeper.data.encode import categories_of, encode, feature_names, scaled_features
from sweeper.data.files import UnfitTableError, find_file
from sweeper.data.folds import with_folds
from sweeper.data.memory import block_bytes, check_host
from sweeper.data.npz import read_npz
from sweeper.data.parquet import read_parquet
from sweeper.data.part_checks import fold_notes, fold_problems, split_notes
from sweeper.data.raw import RawData
from sweeper.data.remarks import notes
from sweeper.data.split import Split, groups_of, split_rows
from sweeper.data.transform import Category
from sweeper.data.user_rows import read_function
from sweeper.data.weights import weightless_parts
from sweeper.errors import DataError, Problem, listed

# columns are filled, scaled and measured in copies of one block at a time
_BLOCKS_AT_ONCE = 6
# per row, while a target or a category is encoded: codes, indices, a string
_ROW_BYTES = 96


def check_preparation_memory(
    config: StudyConfig, raw: RawData, categories: Sequence[Category]
) -> None:
    """Refuse data that needs more than this machine's share of memory while it is prepared.

    Raises:
        DataError: with both sizes, and the category that causes most features.
    """
    widest = max(categories, key=lambda one: len(one.values), default=None)
    hints: list[str] = []
    why = "while it is prepared"
    n_features = len(feature_names(config, raw, categories))
    if config.data.categorical == "onehot" and widest and len(widest.values) > n_features / 2:
        why += f", most of it for the columns of {len(widest.values)} values of '{widest.name}'"
        hints.append('write data.categorical = "ordinal"')
    check_host(config, peak_bytes(config, raw, categories), why, hints)


def peak_bytes(config: StudyConfig, raw: RawData, categories: Sequence[Category]) -> int:
    """The peak memory: the rows as read, the arrays they become, and the columns in between."""
    n_features = len(feature_names(config, raw, categories))
    size = np.dtype(config.execution.precision).itemsize
    becomes = len(raw.frame) * n_features * size
    read = int(raw.frame.memory_usage(deep=True).sum())
    n_rows, n_wholes = len(raw.frame), len(raw.targets) + bool(categories) + len(raw.weights)
    block = block_bytes(n_rows, max(len(raw.numbers), len(categories)))
    return read + becomes + _BLOCKS_AT_ONCE * block + _ROW_BYTES * n_rows * n_wholes


def read_csv(config: StudyConfig, data: CsvTable) -> RawData:
    """The rows of a CSV file with a header.

    Raises:
        DataError: the file does not exist or cannot be read as a table.
    """
    path = find_file(config, data.path, "data.path", ".csv")
    dialect = Dialect(data.separator, data.decimal, data.encoding, data.skip_rows)
    file = CsvFile(path, dialect)
    of_classes = data.target if config.train.target == "classes" else ()
    categories = None if config.edition == 1 else {*of_classes, *data.categorical_columns}
    try:
        frame = read_csv_table(
            file,
            missing=data.missing_values,
            categories=categories,
            strict=config.edition > 1,
            edition=config.edition,
        )
        words = file.missing_words(frame, data.missing_values)
    except UnfitTableError as error:
        found = f"{path.name} {error.found}"
        hint = error.hint
        if error.likely is not None:
            settings = error.likely.instead_of(dialect)
            again = f"rewrite the file with {dialect}"
            hint = f"write {format_settings(settings)}" if settings else again
        raise DataError(config.problem("data.path", found, hint)) from error
    return RawData(
        name=path.name,
        key="data.path",
        frame=frame,
        targets=data.target,
        drop=data.drop,
        csv=file,
        decimal=data.decimal if config.edition > 3 else ".",
        words=words,
    )


_LOADERS: dict[str, Callable[..., Any]] = {
    "breast_cancer": datasets.load_breast_cancer,
    "diabetes": datasets.load_diabetes,
    "digits": datasets.load_digits,
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
}


def read(config: StudyConfig) -> RawData:
    """The rows that the study names.

    Raises:
        DataError: there are none, or they are not a table.
    """
    raw = _read(config)
    twice = raw.frame.columns[raw.frame.columns.duplicated()].unique()
    if len(twice):
        found = f"{raw.name} has several columns {listed([repr(name) for name in twice])}"
        raise DataError(config.problem(raw.key, found, "give each column its own name"))
    raw = replace(raw, frame=native(raw.frame))
    ways = config.data.split
    splitting = (ways.column, *(() if ways.as_feature else (ways.group, ways.time)))
    weight = config.data.weight_column
    aside = tuple(name for name in (*splitting, raw.mode, weight) if name)
    listed_ones = config.data.categorical_columns
    classes = raw.targets if config.train.target == "classes" else ()
    if config.edition == 1:
        frame, declared = first_edition.plain(raw.frame), declared_categories(raw.frame)
    else:
        frame, declared = plain(raw.frame, (*listed_ones, *classes))
    categories = declared.union(listed_ones)
    boolean_targets = frozenset(
        n for n in raw.targets if n in raw.frame and holds_booleans(raw.frame[n])
    )
    raw = replace(raw, frame=frame, aside=aside, weight=weight)
    raw = replace(raw, categories=categories, boolean_targets=boolean_targets)
    return _with_targets(config, raw) if config.data.missing_target == "drop" else raw


def _with_targets(config: StudyConfig, raw: RawData) -> RawData:
    """Only the rows with a value for every target, with a note on how many were left out."""
    names = listed([f"'{name}'" for name in raw.targets if name in raw.frame], "or")
    left = raw.with_targets()
    n_rows, n_gaps = len(raw.frame), len(raw.frame) - len(left.frame)
    if n_rows and n_gaps == n_rows:
        found = f"{raw.name} has no row with a value for the target {names}"
        raise DataError(config.problem(raw.target_key, found, "use another column, or fill it in"))
    if not n_gaps:
        note = f'data.missing_target = "drop" leaves out no rows: all {n_rows} have a target'
        return replace(raw, notes=(*raw.notes, note))
    note = f"left out {n_gaps} of {n_rows} rows, without a value for the target {names}"
    return replace(left, notes=(*raw.notes, note))


def _read(config: StudyConfig) -> RawData:
    match config.data:
        case SklearnTable() as data:
            return _read_sklearn(data)
        case CsvTable() as data:
            return read_csv(config, data)
        case ParquetTable() as data:
            return read_parquet(config, data)
        case NpzTable() as data:
            return read_npz(config, data)
        case FunctionTable() as data:
            return read_function(config, data)


def _read_sklearn(data: SklearnTable) -> RawData:
    bunch = _LOADERS[data.name](as_frame=True)
    class_names = tuple(str(name) for name in getattr(bunch, "target_names", ()))
    return RawData(data.name, "data.name", bunch.frame, ("target",), class_names=class_names)


def prepare(config: StudyConfig) -> Dataset:
    """The dataset that every trial of the study trains on; depends only on the file and its seed.

    Raises:
        DataError: the data is missing, unusable or too large; the message has every problem with
        its fix.
    """
    raw = read(config)
    _refuse(problems(config, raw))
    split = split_rows(config, raw)
    _refuse(iter([*_untrained_columns(config, raw, split), *fold_problems(config, raw, split)]))
    categories = categories_of(config, raw, split)
    check_preparation_memory(config, raw, categories)
    data, groups = encode(config, raw, split, categories), groups_of(config, raw)
    of_split = *split_notes(config, raw), *fold_notes(config, raw, split)
    data = replace(data, notes=(*raw.notes, *notes(config, raw), *of_split))
    data = replace(data, bins=bins_of(config, raw, data))
    of_training = None if groups is None else groups[split.train]
    scaled = scaled_features(config, raw, data)
    if config.edition > 3 and "ple" in config.number_encodings:
        scaled[: len(raw.numbers)] = False  # the edges of their bins are those of all folds
    data = with_folds(config, data, scaled, of_training)
    _refuse(weightless_parts(config, data))
    return data


def _refuse(found: Iterator[Problem]) -> None:
    if every := tuple(found):
        raise DataError(every)


def _untrained_columns(config: StudyConfig, raw: RawData, split: Split) -> Iterator[Problem]:
    """Columns that are missing in every training row, so that gaps cannot be filled."""
    # otherwise a missing category is a category of its own
    every = config.data.impute == "most_frequent"
    for name in raw.features:
        is_filled = every or not raw.is_category(name)
        if not is_filled or raw.frame[name].iloc[split.train].count():
            continue
        found = f"column '{name}' of {raw.name} has no value in the training rows"
        yield config.problem(raw.key, found, "add rows, or leave the column out")
