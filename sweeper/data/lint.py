"""Warnings about data that is valid, but probably not what was meant."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from sweeper.config import StudyConfig
from sweeper.config.coupled import CoupledTable
from sweeper.config.data import CsvTable
from sweeper.config.kinds import is_function
from sweeper.config.search import ends
from sweeper.config.toml import toml_value
from sweeper.config.train import with_loss
from sweeper.data.dataset import Dataset
from sweeper.data.date_pattern import DATE
from sweeper.data.identity import means_missing, number_of
from sweeper.data.metric_checks import undefined_on
from sweeper.data.sizes import can_stratify
from sweeper.errors import counted, listed
from sweeper.results.formatting import number, percent

# a class with fewer rows is probably a typing error, and can barely be learnt in any case
_FEW_ROWS = 5
# by which factor the rows of a part may differ from its share
_UNEVEN = 2.0
# the share of the steps of a fold that it takes at least without a warning
_LEAST_STEPS = 0.9
_CLASSES_SHOWN = 5
# from this share on, one class hides how the others are predicted
_IMBALANCED = 0.79
# the skewness of a log-normal target whose logarithm has a deviation of 1
_SKEWED = 6.0
_ROWS_OF_SKEW = 100
# by which share of the largest a target may seem to be above or below 0
_ROUNDING = 1e-6
# words for nothing that are also good names of a class
_WORDS_OF_CLASSES = ("none", "null", "void", "empty", "tbd")


def data_warnings(config: StudyConfig, data: Dataset) -> tuple[str, ...]:
    """Warnings about a study's data to show before it begins; most have none."""
    return (
        *data.notes,
        *_missing_words(config, data),
        *_missing_classes(config, data),
        *_alike(config, data),
        *_rare_classes(config, data),
        *_absent_classes(config, data),
        *_imbalance(config, data),
        *_equal_weights(config, data),
        *_constant(config, data),
        *_unseen_columns(config, data),
        *_idle_encoding(config, data),
        *_skewed(config, data),
        *_untested(config, data),
        *_uneven_groups(config, data),
        *_uneven_folds(config, data),
        *_dates(data),
        *_idle_generator(config, data),
    )


def describe_missing_words(name: str, words: Mapping[str, int], in_numbers: Iterable[str]) -> str:
    """Which words of a column were read as missing values, and how to keep them as text.

    Empty if all of them are `in_numbers`: words that mean a missing number in other columns.
    """
    if not {*words}.difference(in_numbers):
        return ""
    values = [f"{counted(count, 'value')} written {word!r}" for word, count in words.items()]
    kept = toml_value(["", *sorted(in_numbers)])
    are = "is" if sum(words.values()) == 1 else "are"
    return (
        f"column '{name}': {listed(values)} {are} read as missing; "
        f"data.missing_values = {kept} keeps them as text"
    )


def _missing_words(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Words read as missing values that may be categories, unless the study lists them."""
    if not isinstance(config.data, CsvTable) or config.data.missing_values is not None:
        return
    in_numbers = {word for one in data.columns if one.kind == "number" for word in one.words}
    for column in data.columns:
        if column.kind == "category" and column.words:
            yield from filter(None, [describe_missing_words(column.name, column.words, in_numbers)])


def missing_classes(rows_of: Mapping[str, int], words: Iterable[str], *, is_text_file: bool) -> str:
    """Which classes look like missing values, and how to leave out their rows; empty if none do.

    `rows_of` counts the rows of each class; `words` already mean a missing value.
    """
    found = {
        name: rows
        for name, rows in rows_of.items()
        if means_missing(name) and name.strip().lower() not in _WORDS_OF_CLASSES
    }
    if not found or len(found) == len(rows_of):
        return ""
    named = listed([f"{name!r} in {counted(rows, 'row')}" for name, rows in found.items()])
    listed_words = toml_value([*dict.fromkeys(["", *words, *found])])
    fix = f'missing_values = {listed_words} and missing_target = "drop" in [data] leave them out'
    return (
        f"has {named}, which may mean a missing value: "
        f"{fix if is_text_file else 'remove these rows if so'}"
    )


def _missing_classes(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Classes that may be missing values, unless the study lists the words for those."""
    table = config.data
    if isinstance(table, CsvTable) and table.missing_values is not None:
        return
    kept = {
        w for one in data.columns if one.kind == "number" or one.role == "target" for w in one.words
    }
    is_text_file = isinstance(table, CsvTable)
    rows_of = _rows_of_classes(config, data)
    if found := missing_classes(rows_of, sorted(kept), is_text_file=is_text_file):
        yield f"the target {found}"


def _alike(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Classes and categories whose texts differ only in details that are easily overlooked."""
    rows_of = _rows_of_classes(config, data)
    common = {_bare(name) for name, rows in rows_of.items() if rows >= _FEW_ROWS}
    # a rare class that resembles a common one is reported with the rare ones
    classes = [
        name for name, rows in rows_of.items() if rows >= _FEW_ROWS or _bare(name) not in common
    ]
    if names := same_but_for_looks(classes):
        yield f"classes {names}, but count as different ones; write them alike"
    for column in data.transform.get("categories", ()):
        if names := same_but_for_looks(column["values"]):
            yield (
                f"column '{column['name']}' has categories {names}, but count as different ones; "
                "write them alike"
            )


def same_but_for_looks(names: Iterable[Any]) -> str:
    """Texts that differ only in case, blanks and punctuation; empty if there are none."""
    groups: dict[str, list[str]] = {}
    for name in names:
        if isinstance(name, str):
            groups.setdefault(_bare(name), []).append(name)
    alike = [group for bare, group in groups.items() if bare and len(group) > 1]
    if not alike:
        return ""
    shown = [listed(_in_quotes(group)) for group in alike[:_CLASSES_SHOWN]]
    more = f" and {len(alike) - _CLASSES_SHOWN} more" if len(alike) > _CLASSES_SHOWN else ""
    return f"{'; '.join(shown)}{more} differ only in case, blanks or punctuation"


def _in_quotes(names: list[str]) -> list[str]:
    """The texts in quotes, with escapes if they would look the same."""
    composed = {unicodedata.normalize("NFC", name) for name in names}
    return [repr(name) if len(composed) == len(names) else ascii(name) for name in names]


def _rare_classes(config: StudyConfig, data: Dataset) -> Iterator[str]:
    rows_of = _rows_of_classes(config, data)
    rare = {name: rows for name, rows in rows_of.items() if rows < _FEW_ROWS}
    if not rare:
        return
    # common classes whose names differ only in details that are easily overlooked
    common = {_bare(n): f" (did you mean {n!r}?)" for n in rows_of if n not in rare}
    shown = [
        f"{name!r} has {rows}{common.get(_bare(name), '')}"
        for name, rows in list(rare.items())[:_CLASSES_SHOWN]
    ]
    if others := len(rare) - len(shown):
        shown.append(f"there {'is' if others == 1 else 'are'} {others} more")
    what = "a class" if len(rare) == 1 else "classes"
    few = f"{what} with fewer than {_FEW_ROWS} rows, too few to learn from"
    yield f"{few}: {listed(shown)}; fix the labels, or add rows"


def _rows_of_classes(config: StudyConfig, data: Dataset) -> dict[str, int]:
    return data.rows_of_classes(config.data.split.train_on)


def _absent_classes(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Classes with enough rows that have none in the training split, or in that of a fold."""
    rows_of = _rows_of_classes(config, data)
    enough = [rows >= _FEW_ROWS for rows in rows_of.values()]
    for fold in range(max(1, data.n_folds)) if any(enough) else ():
        absent = np.array(enough)
        rows = data.training_rows(fold)
        absent[data.y_train[rows][data.counting("train")[rows]]] = False
        if absent.any():
            missing = [repr(data.class_names[place]) for place in np.flatnonzero(absent)]
            of_fold = f" of fold {fold + 1}" if data.n_folds else ""
            way = (
                "write data.split.stratify = true, or "
                if can_stratify(config, rows_of.values())
                else ""
            )
            hint = f"{way}add rows"
            yield (
                f"the training rows{of_fold} have none of class "
                f"{listed(missing[:_CLASSES_SHOWN], 'or')}, so it is never learnt; {hint}"
            )
            return


def _imbalance(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Most rows have the same class, and nothing makes the others count."""
    unfair = {"val_accuracy", "val_loss", "val_log_loss", "train_loss"}
    is_weighted = bool(data.class_weights) or is_function(config.train.loss)
    if not data.class_names or is_weighted or not unfair.issuperset(config.study.objectives):
        return
    counts = np.bincount(data.y_train, data.weights("train"), minlength=len(data.class_names))
    share = counts.max() / counts.sum()
    if share < _IMBALANCED or np.count_nonzero(counts) < 2:
        return
    most = data.class_names[counts.argmax()]
    of_rows = "the weighted training rows" if data.is_weighted else "the training rows"
    metrics = toml_value(list(dict.fromkeys([*config.train.metrics, "auroc"])))
    yield (
        f"{percent(share)} of {of_rows} have the class '{most}', so a model that always "
        f"predicts it has an accuracy of about {share:.2f}; to find the others, too, write "
        'data.class_weights = "balanced", or study.metric = "val_auroc" '
        f'(with study.direction = "maximize" and train.metrics = {metrics})'
    )


def _constant(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Targets of numbers that have the same value in all training rows."""
    names = [column.name for column in data.columns if column.role == "target"]
    if config.train.target != "numbers":
        return
    for index, name in enumerate(names[: data.y_train.shape[1]]):
        if (data.y_train[:, index] == data.y_train[0, index]).all():
            yield f"the target '{name}' has the same value in all training rows: nothing is learnt"


def _unseen_columns(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Settings of columns that no model sees."""
    seen = {column.name for column in data.columns}
    split = config.data.split
    for name in config.data.categorical_columns:
        if name not in seen:
            yield f"data.categorical_columns changes nothing for '{name}', which no model sees"
    dropped = {split.group, split.time}.intersection(getattr(config.data, "drop", ()))
    if split.as_feature and dropped:
        yield (
            f"data.split.as_feature changes nothing: '{dropped.pop()}' is in data.drop; remove one "
            "of them"
        )


def _idle_encoding(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Settings for a kind of feature that the data does not have."""
    if config.trial is not None:  # its file names all settings
        return
    kinds = {column.kind for column in data.columns if column.role == "feature"}
    if config.data.categorical == "ordinal" and "category" not in kinds:
        yield (
            'data.categorical = "ordinal" changes nothing: no feature is a category; remove it, or '
            "name numbers that are categories in data.categorical_columns"
        )
    scale, has_no_number = config.data.scale, kinds == {"category"}
    if has_no_number and config.data.categorical == "onehot" and scale not in ("standard", "none"):
        yield f'data.scale = "{scale}" changes nothing: all features are categories; remove it'


def _equal_weights(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Weights of rows or classes that change nothing."""
    given = () if config.data.class_weights == "balanced" else data.class_weights
    if given and min(given) == max(given):
        yield "all data.class_weights are equal, so they change nothing; remove them"
    weights = np.concatenate([data.w_train, data.w_val, data.w_test])
    if data.is_weighted and weights.min() == weights.max():
        yield (
            f"all weights in column '{config.data.weight_column}' are equal, so they change "
            "nothing; remove data.weight"
        )


def _skewed(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Targets that are never negative, of which a few large values decide the squared error."""
    is_squared = config.train.loss == "mse" and data.y_transform == "none"
    if data.class_names or not is_squared or len(data.y_train) < _ROWS_OF_SKEW:
        return
    import pandas as pd  # slow to import, and most commands read no data

    names = [column.name for column in data.columns if column.role == "target"]
    logarithm = _logarithm(data)
    ways = f"data.target_transform = '{logarithm}', or " if logarithm else ""
    for index, name in enumerate(names[: data.y_train.shape[1]]):
        values = data.targets_in_unit(data.y_train.astype(np.float64))[:, index]
        is_positive = values.min() >= -_ROUNDING * values.max()
        if is_positive and float(pd.Series(values).skew()) > _SKEWED:  # type: ignore[arg-type]
            middle, most = number(float(np.median(values)), 3), number(float(values.max()), 3)
            yield (
                f"the target '{name}' is skewed: half of its values are below {middle}, but the "
                f"greatest is {most}, so a few rows decide the loss; write {ways}"
                f"{with_loss(config.train, 'huber')}"
            )


def _logarithm(data: Dataset) -> str | None:
    """A logarithm that each target has in every row; None if there is none."""
    values = data.targets_in_unit(data.all_targets("train").astype(np.float64))
    least, rounding = values.min(axis=0), _ROUNDING * np.abs(values).max(axis=0)
    if (least > rounding).all():
        return "log"
    return "log1p" if (least >= -rounding).all() else None


def _untested(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Metrics that have no value on the test rows."""
    if len(data.y_test):
        y = data.y_test[data.counting("test")]
        for metric, reason in undefined_on(config, data, y, "the test part"):
            yield f"test_{metric} will be empty: {reason}"


def _uneven_groups(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Splits by group whose shares of rows are far from those that the study asks for."""
    split = config.data.split
    if split.group is None or split.train_on != "train":
        return
    n_rows = len(data.all_targets("train"))
    asked = {"test": (split.test, len(data.y_test))}
    if not data.n_folds:
        asked["val"] = split.val, len(data.y_val)
    far = [
        f"{percent(rows / n_rows)} of the rows are in {part}, not {percent(share)}"
        for part, (share, rows) in asked.items()
        if share and not 1 / _UNEVEN <= rows / n_rows / share <= _UNEVEN
    ]
    if far:
        yield (
            f"the groups in '{split.group}' differ in size: {listed(far)}; write other shares or "
            "another data.split.seed"
        )


def _uneven_folds(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """Folds with fewer steps per epoch than their rows are enough for, since one has few rows."""
    if not data.n_folds:
        return
    few, many = data.train_rows, max(train for train, _ in data.rows_of_folds)
    batch = min(
        _values(config, "train.batch_size"), key=lambda size: (few // size) / max(1, many // size)
    )
    steps, most = few // batch, many // batch
    if steps >= _LEAST_STEPS * most:
        return
    fix = "write a smaller train.batch_size"
    if few < _LEAST_STEPS * many and (group := config.data.split.group) is not None:
        fix = f"smaller groups in '{group}' (data.split.group) would make the folds more even"
    yield (
        f"with train.batch_size = {batch}, every fold takes only {counted(steps, 'step')} per "
        f"epoch, because one of them has only {few} training rows; with up to {many}, others have "
        f"enough for {most}; {fix}"
    )


def _dates(data: Dataset) -> Iterator[str]:
    """Columns with dates as text, each of which would be a category or a class."""
    if data.class_names and all(re.fullmatch(DATE, name) for name in data.class_names):
        yield (
            f"the target holds dates or times as text, such as '{data.class_names[0]}', and each "
            f"of the {len(data.class_names)} is a class: write numbers, and predict them with a "
            'loss such as "mse"'
        )
    for column in data.transform.get("categories", ()):
        texts = [value for value in column["values"] if value is not None]
        if texts and all(isinstance(text, str) and re.fullmatch(DATE, text) for text in texts):
            yield (
                f"column '{column['name']}' holds dates or times as text, such as '{texts[0]}', "
                f"and each of the {len(texts)} is a category: write numbers, or leave it out with "
                "data.drop"
            )


def _idle_generator(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """A generator that waits for more steps of its critic than a trial has."""
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
    """The values that trials have for an integer setting, or the bounds if there are many."""
    entry = config.entry(key)
    values = config.drawn_values(key) or (ends(entry) if entry else ())
    return tuple(value for value in values if isinstance(value, int))


def _bare(name: str) -> str:
    """A text without easily overlooked details: case, blanks, and punctuation between words.

    Signs stay, since A+ and A- differ, and numbers are compared as such.
    """
    number = number_of(name)
    if number is not None:
        return str(number.normalize())
    seen = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    folded = unicodedata.normalize("NFKC", seen).casefold()
    without = re.sub(r"[.,;:!?'\"`](?!\d)", "", folded)
    return " ".join(re.sub(r"(?<=\w)[-_/](?=\w)|_", " ", without).split())
