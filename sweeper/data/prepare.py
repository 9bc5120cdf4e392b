"""Where the rows of a study come from: scikit-learn, a file, or a function of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import datasets

from sweeper.config import StudyConfig
from sweeper.config.data import CsvTable, FunctionTable, NpzTable, ParquetTable, SklearnTable
from sweeper.data import first_edition
from sweeper.data.columns import (
    declared_categories,
    is_of_truth,
    plain,
    without_fractions,
    without_strays,
)
from sweeper.data.csv_file import read_csv
from sweeper.data.npz import read_npz
from sweeper.data.parquet import read_parquet
from sweeper.data.raw import RawData
from sweeper.data.user_rows import read_function
from sweeper.errors import DataError
from sweeper.naming import listed

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
        DataError: there is none, or it cannot be read as a table.
    """
    raw = _read(config)
    twice = raw.frame.columns[raw.frame.columns.duplicated()].unique()
    if len(twice):
        found = f"{raw.name} has several columns {listed([repr(name) for name in twice])}"
        raise DataError(config.problem(raw.key, found, "give each column its own name"))
    ways = config.data.split
    splitting = () if ways.as_feature else (ways.group, ways.time)
    aside = tuple(name for name in (*splitting, raw.mode) if name)
    listed_ones = config.data.categorical_columns
    classes = raw.targets if config.train.target == "classes" else ()
    if config.edition == 1:
        frame, declared = first_edition.plain(raw.frame), declared_categories(raw.frame)
    else:
        frame, declared = plain(raw.frame, (*listed_ones, *classes))
    categories = declared.union(listed_ones)
    of_truth = frozenset(n for n in raw.targets if n in raw.frame and is_of_truth(raw.frame[n]))
    raw = replace(raw, frame=frame, aside=aside, categories=categories, of_truth=of_truth)
    return _with_targets(config, raw) if config.data.missing_target == "drop" else raw


def _with_targets(config: StudyConfig, raw: RawData) -> RawData:
    """Only the rows that have a value of every target, with a note on how many were left out."""
    targets = [name for name in raw.targets if name in raw.frame]
    has_gap = raw.frame[targets].isna().any(axis=1).to_numpy()
    n_rows, n_gaps = len(has_gap), int(has_gap.sum())
    names = listed([f"'{name}'" for name in targets], "or")
    if n_rows and n_gaps == n_rows:
        found = f"{raw.name} has no row with a value of the target {names}"
        raise DataError(config.problem(raw.target_key, found, "name another column, or fill it in"))
    if not n_gaps:
        note = (
            f'data.missing_target = "drop" leaves out no rows: none of the {n_rows} lacks a target'
        )
        return replace(raw, notes=(*raw.notes, note))
    have = "has" if n_gaps == 1 else "have"
    note = f"{n_gaps} of {n_rows} rows {have} no value of the target {names}: left out"
    kept = np.flatnonzero(~has_gap)
    frame = raw.frame.iloc[kept].reset_index(drop=True)
    whole = {name: without_fractions(frame[name]) for name in targets}
    if raw.path is not None:
        names = [name for name in raw.features if name not in raw.categories]
        whole |= {name: without_strays(frame[name], raw.frame[name]) for name in names}
    frame = frame.assign(**whole)
    return replace(raw, frame=frame, kept=kept, notes=(*raw.notes, note))


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
