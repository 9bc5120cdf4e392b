"""Encodes rows into the arrays of a study, fitted on the training rows, and weights classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset, TableColumn
from sweeper.data.features import Features, check_scaled, features
from sweeper.data.identity import in_order, written
from sweeper.data.raw import RawData
from sweeper.data.split import Split
from sweeper.data.transform import Category, Scaling
from sweeper.errors import DataError, did_you_mean, listed


def class_weights(
    config: StudyConfig, class_names: tuple[str, ...], y_train: NDArray[Any]
) -> tuple[float, ...]:
    """The weight of each class, in their order; empty if all are equal.

    Raises:
        DataError: a weight names an unknown class, or a class has no training row to balance it.
    """
    weights = config.data.class_weights
    if weights == "none":
        return ()
    if weights == "balanced":
        return _balanced(config, class_names, y_train)
    unknown = [name for name in weights if name not in class_names]
    if unknown:
        raise DataError(
            config.problem(
                f"data.class_weights.{name}",
                f"no class '{name}'",
                did_you_mean(name, class_names) or f"the classes are {listed(class_names)}",
            )
            for name in unknown
        )
    return tuple(weights.get(name, 1.0) for name in class_names)


def _balanced(
    config: StudyConfig, class_names: tuple[str, ...], y_train: NDArray[Any]
) -> tuple[float, ...]:
    """Like scikit-learn's `compute_class_weight`, on the training rows."""
    counts = np.bincount(y_train, minlength=len(class_names))
    absent = [f"'{name}'" for name, count in zip(class_names, counts, strict=True) if not count]
    if absent:
        found = f"no training row is of class {listed(absent)}"
        hint = "write split.stratify = true, or a weight for each class"
        raise DataError(config.problem("data.class_weights", found, hint))
    return tuple((len(y_train) / (len(class_names) * counts)).tolist())


def encode(
    config: StudyConfig, raw: RawData, parts: Split, categories: Sequence[Category]
) -> Dataset:
    """The dataset of `raw`: every row transformed as fitted on the training rows.

    `categories` are those of this split.
    """
    x = features(config, raw, parts, categories)
    y_mean, y_scale = (0.0,), (1.0,)
    classes, class_names, weights = (), (), ()
    if config.train.target == "classes":
        y, classes = _classes(config, raw)
        named = _class_name if config.edition == 1 else written
        class_names = raw.class_names or tuple(map(named, classes))
        weights = class_weights(config, class_names, y[parts.train])
    elif config.train.target == "numbers":
        y, y_mean, y_scale = _numbers(config, raw, parts)
    else:
        y, y_mean, y_scale = np.empty((len(raw.frame), 0), x.train.dtype), (), ()
    of_rows = _of_rows(config, raw, parts, x)
    return Dataset(
        x_train=x.train,
        y_train=y[parts.train],
        x_val=x.val,
        y_val=y[parts.val],
        x_test=x.test,
        y_test=y[parts.test],
        feature_names=x.names,
        class_names=class_names,
        y_mean=y_mean,
        y_scale=y_scale,
        class_weights=weights,
        one_logit=config.train.loss == "binary_cross_entropy",
        columns=tuple(_column(config, raw, name) for name in (*raw.features, *raw.targets)),
        transform=replace(x.transform, classes=classes).body,
        **of_rows,
    )


def scaled_features(config: StudyConfig, raw: RawData, data: Dataset) -> NDArray[np.bool_]:
    """Which features are scaled: numbers, which come first, and ordinal positions."""
    numbers = sum(not raw.is_category(name) for name in raw.features)
    return (np.arange(data.n_features) < numbers) | (config.data.categorical == "ordinal")


def _of_rows(config: StudyConfig, raw: RawData, parts: Split, x: Features) -> dict[str, Any]:
    """What a program that generates rows needs: their units, and the modes of the data."""
    if config.train.program != "coupled":
        return {}
    mean, scale = _units(len(x.names), x.transform.scaling)
    found = {"x_mean": mean, "x_scale": scale}
    if raw.mode is None:
        return found
    labels = raw.frame[raw.mode].to_numpy()[parts.train]
    names = np.unique(labels)
    rows = (x.train[labels == name].astype(np.float64) for name in names)
    return {
        **found,
        "mode_names": tuple(str(name) for name in names),
        "mode_means": np.stack([(of_mode * scale + mean).mean(axis=0) for of_mode in rows]),
    }


def _units(n_features: int, scaling: Scaling | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The shift of each feature after multiplying, so that numbers are in the data's units.

    Encoded categories stay unchanged.
    """
    mean, scale = np.zeros(n_features), np.ones(n_features)
    if scaling is not None:
        count, by, shift = len(scaling.scale), np.array(scaling.scale), np.array(scaling.shift)
        scale[:count] = 1 / by if scaling.to_range else by
        mean[:count] = -shift / by if scaling.to_range else shift
    return mean, scale


def _classes(config: StudyConfig, raw: RawData) -> tuple[NDArray[np.int32], tuple[Any, ...]]:
    """The class of every row as an index into the sorted classes, and these classes."""
    values, indices = np.unique(raw.frame[raw.targets[0]].to_numpy(), return_inverse=True)
    classes = values.tolist()
    if config.edition == 1:
        return indices.astype(np.int32), tuple(classes)
    ordered = in_order(classes)
    place = {value: place for place, value in enumerate(ordered)}
    places = np.array([place[value] for value in classes], np.int32)
    return places[indices], tuple(ordered)


def _class_name(value: Any) -> str:
    """The name of a class; integers that pandas has as floats are written without decimals."""
    return value if isinstance(value, str) else str(value).removesuffix(".0")


def _numbers(
    config: StudyConfig, raw: RawData, parts: Split
) -> tuple[NDArray[Any], tuple[float, ...], tuple[float, ...]]:
    """The targets of every row, with the mean and deviation they were standardised by."""
    target = raw.frame[list(raw.targets)].to_numpy(np.float64)
    n_targets = len(raw.targets)
    if config.data.scale == "none":
        return target.astype(config.execution.precision), (0.0,) * n_targets, (1.0,) * n_targets
    # also if features are scaled to [0, 1], since losses expect targets of deviation 1
    scaler: Any = StandardScaler()
    with np.errstate(over="ignore", invalid="ignore"):
        y = scaler.fit(target[parts.train]).transform(target)
    check_scaled(config, raw, raw.targets, y, [scaler])
    _refuse_unsquared(config, raw, scaler.scale_)
    return (
        np.asarray(y, config.execution.precision),
        tuple(scaler.mean_.tolist()),
        tuple(scaler.scale_.tolist()),
    )


def _refuse_unsquared(config: StudyConfig, raw: RawData, scale: NDArray[np.float64]) -> None:
    """Refuse targets whose squared errors are too large in their own unit.

    Raises:
        DataError: with each of these targets.
    """
    precision = config.execution.precision
    with np.errstate(over="ignore"):
        is_fit = np.isfinite(np.square(scale).astype(precision))
    unfit = [name for name, fits in zip(raw.targets, is_fit.tolist(), strict=True) if not fits]
    if unfit:
        hint = "write them in a larger unit"
        raise DataError(
            config.problem(
                raw.key, f"column '{name}' of {raw.name}: squares too large for {precision}", hint
            )
            for name in unfit
        )


def _column(config: StudyConfig, raw: RawData, name: str) -> TableColumn:
    values = raw.frame[name]
    is_target = name in raw.targets
    is_category = raw.is_category(name)
    return TableColumn(
        name=name,
        role="target" if is_target else "feature",
        kind="category" if is_category else "number",
        values=int(values.nunique()) if is_category else None,
        missing=int(values.isna().sum()),
        words=raw.words.get(name, {}) if config.edition > 1 else {},
    )
