"""What `plan` shows of a study's data: rows, columns, and what is to be predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from sweeper.config import StudyConfig
from sweeper.config.data import CsvTable
from sweeper.data.dataset import Dataset
from sweeper.data.identity import MISSING_WORDS

# of the mean of a mode
_NUMBERS_SHOWN = 4


def data_preview(config: StudyConfig, data: Dataset) -> dict[str, Any]:
    """What the data hold, as JSON-able values."""
    features = [column for column in data.columns if column.role == "feature"]
    return {
        "train_rows": data.train_rows,
        "val_rows": data.val_rows,
        "test_rows": len(data.x_test),
        "features": data.n_features,
        "outputs": data.out_size,
        "rows": sum(len(y) for y in (data.y_train, data.y_val, data.y_test)),
        "numbers": sum(column.kind == "number" for column in features),
        "categories": sum(column.kind == "category" for column in features),
        "missing": sum(column.missing for column in features),
        "missing_values": _missing_values(config),
        "bytes": data.nbytes,
        "columns": [asdict(column) for column in data.columns],
        "targets": list(_targets(data)),
        "modes": list(_modes(data)),
        "classes": list(_classes(data)),
    }


def _missing_values(config: StudyConfig) -> list[str]:
    """The texts that mean a missing value; none but in a CSV file."""
    if not isinstance(config.data, CsvTable):
        return []
    words = config.data.missing_values
    return [*(MISSING_WORDS if words is None else words)]


def _targets(data: Dataset) -> Iterator[dict[str, Any]]:
    """Of each number to predict, in its own unit: where it lies in the training part."""
    if data.class_names:
        return
    names = [column.name for column in data.columns if column.role == "target"]
    numbers = data.y_train * data.y_scale + data.y_mean
    for name, values in zip(names, numbers.T, strict=True):
        measures = {"mean": np.mean, "deviation": np.std, "least": np.min, "greatest": np.max}
        yield {"name": name, **{what: float(of(values)) for what, of in measures.items()}}


def _modes(data: Dataset) -> Iterator[dict[str, Any]]:
    """Of each mode of a mixture, where its training rows lie."""
    for name, mean in zip(data.mode_names, data.mode_means, strict=True):
        more = ", ..." if len(mean) > _NUMBERS_SHOWN else ""
        yield {"name": name, "mean": ", ".join(f"{x:.3g}" for x in mean[:_NUMBERS_SHOWN]) + more}


def _classes(data: Dataset) -> Iterator[dict[str, Any]]:
    """Of each class, its rows in each part, and what they count for in the loss."""
    parts = {"train": data.y_train, "val": data.y_val, "test": data.y_test}
    n_classes = len(data.class_names)
    counts = {part: np.bincount(y, minlength=n_classes) for part, y in parts.items() if n_classes}
    for place, name in enumerate(data.class_names):
        rows = {f"{part}_rows": int(count[place]) for part, count in counts.items()}
        weight = data.class_weights[place] if data.class_weights else 1.0
        yield {"name": name, **rows, "weight": weight}
