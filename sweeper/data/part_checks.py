"""What does not fit into the training, validation and test parts that a study asks for."""

from __future__ import annotations

from collections.abc import Iterator

from sweeper.config import StudyConfig
from sweeper.data.naming import counted, listed
from sweeper.data.raw import RawData
from sweeper.data.sizes import Sizes, part_sizes
from sweeper.errors import Problem

_CLASSES_SHOWN = 5


def part_problems(config: StudyConfig, raw: RawData) -> Iterator[Problem]:
    """A training part without rows, batches that are larger, classes that cannot be shared out."""
    n_rows = len(raw.frame)
    sizes = part_sizes(config, n_rows)
    if sizes.folds > sizes.train > 0:
        found = f"{sizes.folds} folds of {counted(sizes.train, 'row')}"
        yield config.problem("study.folds", found, f"write {sizes.train} at most")
    elif sizes.train < 1:
        found = (
            f"of {counted(n_rows, 'row')} validation takes {sizes.val} and testing {sizes.test}, "
            "so none are left to train on"
        )
        yield config.problem("data.split", found, "add rows or write smaller shares")
    else:
        yield from _batch_problems(config, sizes)
    if config.data.split.stratify:
        yield from _stratify_problems(config, raw, sizes)


def _batch_problems(config: StudyConfig, sizes: Sizes) -> Iterator[Problem]:
    searched = config.search.get("train.batch_size")
    key = "search.train.batch_size" if searched else "train.batch_size"
    values = searched.values() if searched else (config.train.batch_size,)
    largest = max(int(value) for value in values or ())
    least = sizes.least_train
    if largest > least:
        whose = "a fold trains on" if sizes.folds else "the training part has"
        found = f"a batch of {counted(largest, 'row')}, and {whose} {least}"
        yield config.problem(key, found, f"write {least} at most")


def _stratify_problems(config: StudyConfig, raw: RawData, sizes: Sizes) -> Iterator[Problem]:
    if config.train.target == "numbers":
        found = f"{config.train.loss} has no classes to keep in proportion"
        yield config.problem("data.split.stratify", found, "write stratify = false")
    elif raw.target in raw.frame:
        yield from _rare_class_problems(config, raw, sizes)
        yield from _small_part_problems(config, raw, sizes)


def _rare_class_problems(config: StudyConfig, raw: RawData, sizes: Sizes) -> Iterator[Problem]:
    rows_of = raw.frame.groupby(raw.target).indices
    rare = [
        f"'{name}' has {len(rows)} ({raw.places([int(row) for row in rows])})"
        for name, rows in rows_of.items()
        if len(rows) < sizes.n_parts
    ]
    if rare:
        more = f" and {len(rare) - _CLASSES_SHOWN} more" if len(rare) > _CLASSES_SHOWN else ""
        found = (
            f"a class needs {sizes.n_parts} rows to be in each part, and class "
            f"{listed(rare[:_CLASSES_SHOWN])}{more}"
        )
        mend = "add rows, remove the class or write stratify = false"
        yield config.problem("data.split.stratify", found, mend)


def _small_part_problems(config: StudyConfig, raw: RawData, sizes: Sizes) -> Iterator[Problem]:
    n_classes = raw.frame[raw.target].nunique()
    parts = (
        ("training", "data.split", sizes.train),
        ("validation", "data.split.val", sizes.val),
        ("test", "data.split.test", sizes.test),
    )
    for name, key, size in parts:
        if 0 < size < n_classes:
            found = f"the {name} part has {counted(size, 'row')} for {n_classes} classes"
            mend = "write another share, add rows or write stratify = false"
            yield config.problem(key, found, mend)
