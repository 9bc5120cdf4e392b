"""A metric that has no value on validation rows is refused before a study starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweeper.config import StudyConfig, parse
from sweeper.config.lint import file_warnings
from sweeper.data.dataset import Dataset, TableColumn
from sweeper.data.lint import data_warnings
from sweeper.data.metric_checks import check_metrics
from sweeper.data.target import transformed
from sweeper.errors import DataError
from tests.small_studies import DIGITS, bent


def study(*settings: str) -> StudyConfig:
    return parse(bent(DIGITS, "search={}", *settings), Path("study.toml"))


def classes(train: list[int], val: list[int], test: list[int], *names: str) -> Dataset:
    return rows(train, val, test, np.int32, class_names=names, one_logit=len(names) == 2)


def numbers(train: Any, val: Any, test: Any, *names: str) -> Dataset:
    columns = tuple(TableColumn(name, "target", "number", None, 0) for name in names)
    return rows(
        train, val, test, np.float32, columns=columns, y_mean=(2.0,) * 2, y_scale=(3.0,) * 2
    )


def rows(train: Any, val: Any, test: Any, dtype: Any, **others: Any) -> Dataset:
    y = [np.array(part, dtype) for part in (train, val, test)]
    x = [np.zeros((len(part), 1), np.float32) for part in y]
    return Dataset(x[0], y[0], x[1], y[1], x[2], y[2], ("a",), **others)


def refusal(config: StudyConfig, data: Dataset) -> str:
    with pytest.raises(DataError) as refused:
        check_metrics(config, data)
    return str(refused.value)


AUROC = "train.metrics=['accuracy','f1','log_loss','auroc']"


def test_auroc_without_a_row_of_the_second_class_names_that_class() -> None:
    data = classes([0, 1, 1], [0, 0], [0, 1], "usual", "rare")
    text = refusal(study(AUROC, "data.split.stratify=false"), data)
    assert "train.metrics: auroc cannot be computed: the validation part has no row of" in text
    assert "class 'rare'; write data.split.stratify = true" in text


@pytest.mark.parametrize(
    ("test", "split"),
    [
        ([0, 1], "data.split.val=0.1"),  # two rows cannot be in three parts
        ([1, 1], "data.split.time='day'"),
        ([1, 1], "data.split.group='ward'"),
    ],
)
def test_a_split_that_cannot_be_stratified_gets_no_such_advice(test: list[int], split: str) -> None:
    data = classes([0, 1, 0], [0, 0], test, "usual", "rare")
    text = refusal(study(AUROC, "data.split.stratify=false", split), data)
    assert "class 'rare'; write" in text and "stratify" not in text


def test_rows_that_a_column_splits_are_to_be_marked_otherwise() -> None:
    column = "data.split.column='part'"
    by_column = study(AUROC, "data.split.stratify=false", column)
    data = classes([0, 1, 1], [0, 0], [0, 1], "usual", "rare")
    fix = "; mark other rows as val in column 'part' or, if it marks none, write another "
    fix += "data.split.seed, or remove auroc"
    assert refusal(by_column, data).endswith(fix)

    folds = {"fold_of": np.array([0, 1, 1]), "fold_scale": np.ones((2, 1))}
    in_folds = study(AUROC, "data.split.stratify=false", column, "study.folds=2")
    fix = "; write another data.split.seed or fewer study.folds, or remove auroc"
    assert refusal(in_folds, replace(data, x_val=data.x_val[:0], **folds)).endswith(fix)


def test_auroc_of_several_classes_needs_two_of_them() -> None:
    config = study(AUROC)
    text = refusal(config, classes([0, 1, 2], [1, 1], [], "a", "b", "c"))
    assert "no row of class 'a' or 'c'" in text
    check_metrics(config, classes([0, 1, 2], [1, 2], [], "a", "b", "c"))


def test_metrics_that_always_have_a_value_are_accepted() -> None:
    one_class = classes([0, 1], [0], [], "a", "b")
    check_metrics(study("train.metrics=['accuracy','f1','log_loss']"), one_class)


def test_each_fold_is_checked() -> None:
    data = classes([0, 0, 0, 1], [], [], "a", "b")
    folds = {"fold_of": np.array([0, 1, 1, 0], np.int32), "fold_scale": np.ones((2, 1))}
    folded = rows(data.y_train, [], [], np.int32, class_names=("a", "b"), **folds)
    text = refusal(study(AUROC, "study.folds=2"), folded)
    assert "the validation part of fold 2 of 2 has no row of class 'b'" in text
    assert "fewer study.folds" in text


R2 = ("train.loss=mse", "train.metrics=['r2','mae','rmse']", "data.split.stratify=false")


def test_r2_of_a_target_that_is_constant_names_it_and_its_value() -> None:
    data = numbers([[0, 1], [1, 2]], [[0, 1], [5, 1]], [], "price", "size")
    text = refusal(study(*R2), data)
    assert "r2 cannot be computed: target 'size' is 5 in every row of the validation part" in text


def test_metrics_of_a_user_defined_program_are_its_own_whatever_their_names() -> None:
    train = "train={program='own:Program',task='numbers',metrics=['mape','accuracy'],epochs=1}"
    bound = "study.constraints=[{metric='val_accuracy',min=2.0}]"
    own = study("train={}", train, "train.batch_size=8", "data.split.stratify=false", bound)
    check_metrics(own, numbers([[1, 1], [2, 3]], [[0, 1]], [[-2 / 3, 1]], "price", "size"))
    assert not any("constraints" in one for one in file_warnings(own))


@pytest.mark.parametrize("part", ["validation", "test"])
def test_mape_is_refused_if_a_target_is_0(part: str) -> None:
    in_unit = np.array([[3, 0], [0, 2], [4, 0], [1, 1]])
    zero, other = (in_unit - 2) / 3, [[1, 2], [1, 1]]
    val, test = (zero, other) if part == "validation" else (other, zero)
    data = numbers([[1, 1], [2, 3]], val, test, "price", "size")
    mape = study("train.loss=mse", "train.metrics=['mape']", "data.split.stratify=false")
    assert refusal(mape, data).endswith(
        "train.metrics: mape cannot be computed: a target is 0, or too close to 0 for float32, in "
        f"3 rows of the {part} part; write mae instead, or remove mape; if no target is 0, write "
        'execution.precision = "float64" instead'
    )


@pytest.mark.parametrize(
    ("precision", "transform", "standardize", "least", "is_refused"),
    [
        ("float32", "none", True, 3e-4, True),
        ("float32", "none", True, 3e-2, False),
        ("float64", "none", True, 3e-4, False),
        ("float32", "none", False, 3e-4, False),
        ("float32", "log", True, 3e-4, False),
        ("float32", "log1p", True, 3e-4, False),
        *(("float64", transform, True, 0.0, True) for transform in ("none", "log1p")),
        *(("float32", transform, True, 0.0, True) for transform in ("none", "log1p")),
        ("float32", "none", False, 0.0, True),
    ],
)
def test_mape_is_only_refused_for_targets_that_are_0_in_the_precision_of_the_study(
    precision: str, transform: str, standardize: bool, least: float, is_refused: bool
) -> None:
    targets = np.linspace(1000, 1100, 40)[:, None]
    targets[::4] = least
    y = transformed(targets, transform)
    mean, scale = (y.mean(), y.std()) if standardize else (0.0, 1.0)
    y = (y - mean) / scale
    units = {"y_mean": (mean,), "y_scale": (scale,), "y_transform": transform}
    data = rows(y, y, y, precision, **units)
    settings = "train.loss=mse", "train.metrics=['mape']", "data.split.stratify=false"
    config = study(*settings, f"execution.precision={precision}")
    if is_refused:
        assert "mape cannot be computed: a target is 0" in refusal(config, data)
    else:
        check_metrics(config, data)


def test_a_study_of_edition_1_continues_if_its_judging_metrics_exist() -> None:
    data = classes([0, 1, 0], [0, 0], [], "usual", "rare")
    check_metrics(study(AUROC, "edition=1"), data)
    judged = study(AUROC, "edition=1", "study.metric=val_auroc", "study.direction=maximize")
    assert "auroc cannot be computed" in refusal(judged, data)


def test_metrics_of_validation_rows_that_are_trained_on_may_be_missing() -> None:
    data = classes([0, 1, 0, 0, 0], [0, 0], [], "usual", "rare")
    trained_on = "data.split.train_on='train+val'"
    check_metrics(study(AUROC, trained_on), data)
    judged = study(AUROC, trained_on, "study.metric=val_auroc", "study.direction=maximize")
    assert "auroc cannot be computed" in refusal(judged, data)


def test_undefined_test_metrics_are_only_a_warning() -> None:
    data = classes([0, 1, 0], [0, 1], [0], "usual", "rare")
    config = study(AUROC)
    check_metrics(config, data)
    said = "test_auroc will be empty: the test part has no row of class 'rare'"
    assert said in data_warnings(config, data)


def test_a_class_without_training_rows_gets_a_warning() -> None:
    data = classes([0] * 9, [0, 1], [1] * 4, "usual", "late")
    found = [warning for warning in data_warnings(study(), data) if "never learnt" in warning]
    assert len(found) == 1
    assert "the training rows have none of class 'late'" in found[0]
