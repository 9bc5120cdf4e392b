"""Problems with the train, validation and test splits that a study asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sweeper.config import StudyConfig
from sweeper.data.columns import check_kind
from sweeper.data.folds import grouped_folds
from sweeper.data.given_split import (
    PARTS_HINT,
    given_notes,
    given_problems,
    given_sizes,
    given_split,
)
from sweeper.data.lint import same_but_for_looks
from sweeper.data.raw import RawData
from sweeper.data.sizes import SplitSizes, split_sizes
from sweeper.data.split import Split, describe_misordered, groups_of, split_rows, times
from sweeper.errors import Problem, counted, listed

_CLASSES_SHOWN = 5


def part_problems(config: StudyConfig, raw: RawData) -> Iterator[Problem]:
    """Problems such as no training rows, too large batches, or too small classes."""
    unfit = [*_way_problems(config, raw)]
    yield from unfit
    group = config.data.split.group
    if unfit:
        return
    given = given_split(config, raw)
    n_wholes = len(raw.frame) if group is None else raw.frame[group].nunique()
    whole = "row" if group is None else "group"
    sizes = split_sizes(config, n_wholes)
    if given is not None:
        n_wholes, sizes = len(given.train), given_sizes(config, given)
    if sizes.folds > sizes.train > 0:
        found = f"{sizes.folds} folds of {counted(sizes.train, whole)}"
        yield config.problem("study.folds", found, f"write {sizes.train} at most")
    elif sizes.train < 1 and given is not None:
        found = f"column '{config.data.split.column}' of {raw.name} has {counted(n_wholes, 'row')} "
        found += f"for training, and validation takes {'it' if n_wholes == 1 else 'all of them'}"
        hint = "mark more rows as train, or some as val"
        hint += "" if n_wholes == 1 else ", or write a smaller data.split.val"
        yield config.problem("data.split.column", found, hint)
    elif sizes.train < 1:
        found = (
            f"of {counted(n_wholes, whole)}, validation takes {sizes.val} and testing "
            f"{sizes.test}, so none are left for training"
        )
        yield config.problem("data.split", found, f"add {whole}s or write smaller shares")
    else:
        least = sizes.least_train if group is None else _least_train(config, raw)
        yield from _batch_problems(config, least)
    rows = np.arange(len(raw.frame)) if given is None else given.validation_pool(config)
    if config.data.split.stratify and len(rows):
        yield from _stratify_problems(config, raw, sizes, rows)


def split_notes(config: StudyConfig, raw: RawData) -> Iterator[str]:
    """Warnings about groups that differ only in how they are written, and idle settings."""
    name = config.data.split.group
    if name is not None and (alike := same_but_for_looks(raw.frame[name].unique())):
        yield f"column '{name}' has groups {alike}, but count as different ones; write them alike"
    yield from given_notes(config, raw)


def fold_problems(config: StudyConfig, raw: RawData, split: Split) -> Iterator[Problem]:
    """Stratified folds for which the draw of the test rows leaves too few rows of every class."""
    found, is_every = _too_rare_for_folds(config, raw, split)
    if found and is_every:
        hint = "write fewer study.folds, a smaller data.split.test or stratify = false, or add rows"
        yield config.problem("data.split.stratify", found, hint)


def fold_notes(config: StudyConfig, raw: RawData, split: Split) -> Iterator[str]:
    """A warning about classes of which some stratified folds validate no row."""
    found, is_every = _too_rare_for_folds(config, raw, split)
    if found and not is_every:
        hint = "write fewer study.folds or a smaller data.split.test, or add rows"
        yield f"{found}: some folds validate none of it; {hint}"


def _too_rare_for_folds(config: StudyConfig, raw: RawData, split: Split) -> tuple[str, bool]:
    """The classes with fewer rows than stratified folds, and whether these are all classes."""
    if not config.data.split.stratify or config.study.folds is None:
        return "", False
    rows = np.sort(split.train)
    rare = _rare_classes(raw, rows, config.study.folds)
    needed = f"a class needs {config.study.folds} rows that are not for testing to be in each fold"
    is_every = len(rare) == raw.frame[raw.targets[0]].iloc[rows].nunique()
    return (f"{needed}, but class {_shown(rare)}" if rare else ""), is_every


def _way_problems(config: StudyConfig, raw: RawData) -> Iterator[Problem]:
    """Problems with the column that splits the rows by group, by time or by name."""
    ways = config.data.split
    if ways.train_on != "train" and config.study.folds is not None:
        found = f"{ways.train_on}, but each training leaves out a fold"
        yield config.problem("data.split.train_on", found, "remove it, or remove study.folds")
    for way, name in (("group", ways.group), ("time", ways.time), ("column", ways.column)):
        if name is None:
            continue
        key = f"data.split.{way}"
        if way == "time" and config.study.folds is not None:
            found = "folds draw rows at random, but data.split.time orders them"
            yield config.problem("study.folds", found, "remove one of them")
        if name not in raw.frame:
            yield raw.no_column(config, key, name)
        elif name in raw.targets:
            yield config.problem(key, f"'{name}' is the target", "name another column")
        elif gaps := np.flatnonzero(raw.frame[name].isna()).tolist():
            hint = PARTS_HINT if way == "column" else "write them"
            yield config.problem(key, raw.describe_rows(name, gaps, "missing"), hint)
        elif way == "column":
            yield from given_problems(config, raw, name)
        elif way == "group" and not _has_order(raw.frame[name]):
            found = f"column '{name}' of {raw.name} holds {check_kind(raw.frame[name])}"
            yield config.problem(key, found, "write numbers or text")
        elif way == "time" and (rows := np.flatnonzero(times(raw.frame[name]).isna()).tolist()):
            are = "is" if len(rows) == 1 else "are"
            hint = "write numbers, or times as 2026-01-31T12:00"
            yield config.problem(key, raw.describe_rows(name, rows, f"{are} not a time"), hint)
        elif (
            way == "time" and config.edition > 1 and (wrong := describe_misordered(raw.frame[name]))
        ):
            found = f"column '{name}' of {raw.name} holds {wrong}, which numbers sort wrongly"
            yield config.problem(key, found, "write dates as 2026-01-31, or months as 2026-01")


def _has_order(column: pd.Series[Any]) -> bool:
    """Whether its values can be compared and sorted, as groups need."""
    try:
        pd.factorize(column, sort=True)
    except TypeError:
        return False
    return True


def _least_train(config: StudyConfig, raw: RawData) -> int:
    """The fewest rows that any training uses, given the sizes of the groups."""
    split, groups = split_rows(config, raw), groups_of(config, raw)
    if config.study.folds is None or groups is None:
        return len(split.train)
    fold_of = grouped_folds(config, groups[split.train], config.study.folds)
    return len(fold_of) - int(np.bincount(fold_of).max())


def _batch_problems(config: StudyConfig, least: int) -> Iterator[Problem]:
    searched = config.entry("train.batch_size")
    key = "search.train.batch_size" if searched else "train.batch_size"
    largest = max(int(value) for value in config.drawn_values("train.batch_size") or ())
    if largest > least:
        whose = "a fold trains on" if config.study.folds else "the training part has"
        found = f"a batch of {counted(largest, 'row')}, but {whose} {least}"
        yield config.problem(key, found, f"write {least} at most")


def _stratify_problems(
    config: StudyConfig, raw: RawData, sizes: SplitSizes, rows: NDArray[np.intp]
) -> Iterator[Problem]:
    """Problems with keeping classes in proportion in the splits that are drawn from `rows`."""
    if config.train.target != "classes":
        found = f"{config.train.loss} has no classes to keep in proportion"
        yield config.problem("data.split.stratify", found, "write stratify = false")
    elif (
        len(raw.targets) == 1
        and raw.targets[0] in raw.frame
        and check_kind(raw.frame[raw.targets[0]]) is None
    ):
        yield from _rare_class_problems(config, raw, sizes, rows)
        if not config.is_refit:
            yield from _small_part_problems(config, raw, sizes, rows)


def _rare_class_problems(
    config: StudyConfig, raw: RawData, sizes: SplitSizes, rows: NDArray[np.intp]
) -> Iterator[Problem]:
    if rare := _rare_classes(raw, rows, sizes.n_splits):
        needed = f"a class needs {sizes.n_splits} rows to be in each part"
        hint = "add rows, remove the class or write stratify = false"
        yield config.problem("data.split.stratify", f"{needed}, but class {_shown(rare)}", hint)


def _rare_classes(raw: RawData, rows: NDArray[np.intp], least: int) -> list[str]:
    """The classes with fewer than so many of these `rows`, each with those that it has."""
    rows_of = raw.frame.iloc[rows].groupby(raw.targets[0]).indices
    return [
        f"'{name}' has {len(found)} ({raw.places(rows[found].tolist())})"
        for name, found in rows_of.items()
        if len(found) < least
    ]


def _shown(classes: Sequence[str]) -> str:
    """The first of these classes, and how many more there are."""
    more = len(classes) - _CLASSES_SHOWN
    return f"{listed(classes[:_CLASSES_SHOWN])}{f' and {more} more' if more > 0 else ''}"


def _small_part_problems(
    config: StudyConfig, raw: RawData, sizes: SplitSizes, rows: NDArray[np.intp]
) -> Iterator[Problem]:
    n_classes = raw.frame[raw.targets[0]].iloc[rows].nunique()
    splits = (
        ("training", "data.split", sizes.train),
        ("validation", "data.split.val", sizes.val),
        ("test", "data.split.test", sizes.test),
    )
    for name, key, size in splits:
        if 0 < size < n_classes:
            found = f"the {name} part has {counted(size, 'row')} for {n_classes} classes"
            hint = "write another share, add rows or write stratify = false"
            yield config.problem(key, found, hint)
