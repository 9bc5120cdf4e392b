"""What data may hold, and hardly anybody means."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from sweeper.config import StudyConfig
from sweeper.config.coupled import CoupledTable
from sweeper.config.search import ends
from sweeper.data.dataset import Dataset
from sweeper.data.metric_checks import undefined_on
from sweeper.naming import counted, listed

_MONTH = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
DATE = (
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
    rf"|\d{{1,2}}[-/. ]+{_MONTH}[-/., ]+\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}})([ T].*)?"
)
"""A day as text: 2026-01-31, 31.1.2026 or 31 Jan 2026, and maybe a time."""

# of fewer rows a class is more likely a slip of the pen, and is hardly learnt in any case
_FEW_ROWS = 5
_CLASSES_SHOWN = 5


def data_doubts(config: StudyConfig, data: Dataset) -> tuple[str, ...]:
    """What to say of a study on its data before it begins; nothing of most."""
    return (
        *data.notes,
        *_rare_classes(data),
        *_absent_classes(data),
        *_untested(config, data),
        *_dates(data),
        *_idle_generator(config, data),
    )


def _rare_classes(data: Dataset) -> Iterator[str]:
    rows_of = _rows_of_classes(data)
    rare = {name: rows for name, rows in rows_of.items() if rows < _FEW_ROWS}
    if not rare:
        return
    # by what nobody sees in a table
    common = {_bare(name): name for name in rows_of if name not in rare}
    told = [
        f"{name!r} has {rows}{_meant(common.get(_bare(name)))}"
        for name, rows in list(rare.items())[:_CLASSES_SHOWN]
    ]
    more = f" and {len(rare) - _CLASSES_SHOWN} more" if len(rare) > _CLASSES_SHOWN else ""
    what, are = ("a class", "is") if len(rare) == 1 else ("classes", "are")
    few = f"{what} of fewer than {_FEW_ROWS} rows, which {are} hardly learnt"
    yield f"{few}: {listed(told)}{more}; mend the labels, or add rows"


def _rows_of_classes(data: Dataset) -> dict[str, int]:
    """How many rows each class has in all parts; of numbers nothing."""
    if not data.class_names:
        return {}
    parts = np.concatenate([data.y_train, data.y_val, data.y_test])
    counts = np.bincount(parts, minlength=len(data.class_names))
    return dict(zip(data.class_names, counts.tolist(), strict=True))


def _absent_classes(data: Dataset) -> Iterator[str]:
    """Classes of enough rows that the training part, or that of a fold, has none of."""
    enough = [rows >= _FEW_ROWS for rows in _rows_of_classes(data).values()]
    for fold in range(max(1, data.n_folds)) if any(enough) else ():
        absent = np.array(enough)
        absent[data.y_train[data.training_rows(fold)]] = False
        if absent.any():
            missing = [repr(data.class_names[place]) for place in np.flatnonzero(absent)]
            of_fold = f" of fold {fold + 1}" if data.n_folds else ""
            yield (
                f"the training part{of_fold} has no row of class "
                f"{listed(missing[:_CLASSES_SHOWN], 'or')}, so it is never learnt; "
                "write data.split.stratify = true, or add rows"
            )
            return


def _untested(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Metrics that have no value on the test rows."""
    if len(data.y_test):
        for metric, reason in undefined_on(config, data, data.y_test, "the test part"):
            yield f"test_{metric} will be empty: {reason}"


def _dates(data: Dataset) -> Iterator[str]:
    """Columns of dates as text, which are encoded as any other text: day by day."""
    for column in data.transform.get("categories", ()):
        texts = [value for value in column["values"] if value is not None]
        if texts and all(isinstance(text, str) and re.fullmatch(DATE, text) for text in texts):
            yield (
                f"column '{column['name']}' holds dates as text, such as '{texts[0]}', and each of "
                f"the {len(texts)} is a category: write numbers, or leave it out with data.drop"
            )


def _idle_generator(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """A generator that is to wait for more steps of its critic than a trial has."""
    if not isinstance(config.train, CoupledTable):
        return
    longest = max(_values(config, "train.critic_steps"))
    batch = min(_values(config, "train.batch_size"))
    steps = max(_values(config, "train.epochs")) * (data.train_rows // batch)
    if longest > steps:
        yield (
            f"train.critic_steps = {longest} is more than the {counted(steps, 'step')} of a trial, "
            "whose generator is then never trained"
        )


def _values(config: StudyConfig, key: str) -> tuple[int, ...]:
    """The values that trials have of a setting of whole numbers, or the ends of many."""
    entry = config.entry(key)
    values = config.drawn_values(key) or (ends(entry) if entry else ())
    return tuple(value for value in values if isinstance(value, int))


def _bare(name: str) -> str:
    return " ".join(name.split()).casefold()


def _meant(name: str | None) -> str:
    return "" if name is None else f" (did you mean {name!r}?)"
