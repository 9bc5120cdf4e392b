from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from sweeper.data.dataset import Dataset, TableColumn

DATASET = Dataset(
    x_train=np.array([[1.0, 2.0], [3.0, 4.0]], np.float32),
    y_train=np.array([0, 1], np.int32),
    x_val=np.array([[5.0, 6.0]], np.float32),
    y_val=np.array([1], np.int32),
    x_test=np.empty((0, 2), np.float32),
    y_test=np.empty(0, np.int32),
    feature_names=("größe", "weight"),
    class_names=("no", "yes"),
)
COLUMNS = (
    TableColumn("größe", "feature", "number", None, 2),
    TableColumn("y", "target", "category", 2, 0),
)


def test_a_dataset_survives_its_file_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "dataset"
    expected = replace(DATASET, y_mean=(0.1 + 0.2, 1.0), y_scale=(1 / 3, 2.0), columns=COLUMNS)
    expected.save(path)
    actual = Dataset.load(path)

    assert actual.digest == expected.digest
    for field in fields(Dataset):
        a, b = getattr(actual, field.name), getattr(expected, field.name)
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b, strict=True)


def test_its_sizes_are_those_of_the_model() -> None:
    regression = replace(DATASET, class_names=(), y_train=np.zeros((2, 3)))

    assert (DATASET.n_features, DATASET.out_size) == (2, 2)
    assert (regression.n_features, regression.out_size) == (2, 3)


def test_each_fold_counts_its_own_rows() -> None:
    rows = np.zeros((6, 2))
    folds = {"fold_of": np.array([1, 0, 1, 2, 1, 0]), "fold_scale": np.ones((3, 2))}
    of_folds = replace(DATASET, x_train=rows, x_val=rows[:0], **folds)

    assert DATASET.rows_of_folds == ((2, 1),)
    assert of_folds.rows_of_folds == ((4, 2), (3, 3), (5, 1))
    assert (of_folds.train_rows, of_folds.val_rows) == (3, 3)
    assert [len(of_folds.training_rows(fold)) for fold in range(3)] == [4, 3, 5]


@pytest.mark.parametrize(
    "change",
    [
        {"x_train": np.array([[1.0, 2.0], [3.0, np.nextafter(np.float32(4), 5)]], np.float32)},
        {"x_train": DATASET.x_train.astype(np.float64)},
        {"x_test": np.empty((0, 3), np.float32)},
        {"x_train": DATASET.x_val, "x_val": DATASET.x_train},
        {"class_names": ("yes", "no")},
        {"y_mean": (1e-300,)},
        {"class_weights": (1.0, 2.0)},
        {"columns": COLUMNS},
    ],
)
def test_the_digest_changes_with_anything(change: dict[str, object]) -> None:
    assert replace(DATASET, **change).digest != DATASET.digest


def test_loading_imports_neither_pandas_nor_scikit_learn(tmp_path: Path) -> None:
    path = tmp_path / "dataset.npz"
    DATASET.save(path)
    program = (
        "import sys; from pathlib import Path; from sweeper.data.dataset import Dataset;"
        f"Dataset.load(Path({str(path)!r}));"
        "print({'pandas', 'sklearn', 'jax', 'optuna'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (run.stdout, run.stderr) == ("set()\n", "")
