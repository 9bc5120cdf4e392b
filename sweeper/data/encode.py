"""From rows as read to arrays: filled, encoded and scaled, fitted on the training part alone."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

from sweeper.config import StudyConfig
from sweeper.config.data_values import Constant
from sweeper.data.class_weights import class_weights
from sweeper.data.dataset import Column, Dataset
from sweeper.data.raw import RawData
from sweeper.data.split import Parts
from sweeper.data.transform import MISSING, UNKNOWN, Category, Scaling, Transform
from sweeper.trial import Scalar

Step = tuple[str, Any]

_SCALERS = {"standard": StandardScaler, "minmax": MinMaxScaler}


def encode(config: StudyConfig, raw: RawData, parts: Parts) -> Dataset:
    """The dataset of `raw`: every row transformed by what its training rows say."""
    x, feature_names, transform = _features(config, raw, parts)
    y_mean, y_scale = (0.0,), (1.0,)
    classes, class_names, weights = (), (), ()
    if config.train.target == "classes":
        y, classes = _classes(raw)
        class_names = raw.class_names or tuple(str(v).removesuffix(".0") for v in classes)
        weights = class_weights(config, class_names, y[parts.train])
    elif config.train.target == "numbers":
        y, y_mean, y_scale = _numbers(config, raw, parts)
    else:
        y, y_mean, y_scale = np.empty((len(x), 0), x.dtype), (), ()
    of_rows = _of_rows(config, raw, parts, x, transform.scaling)
    return Dataset(
        x_train=x[parts.train],
        y_train=y[parts.train],
        x_val=x[parts.val],
        y_val=y[parts.val],
        x_test=x[parts.test],
        y_test=y[parts.test],
        feature_names=feature_names,
        class_names=class_names,
        y_mean=y_mean,
        y_scale=y_scale,
        class_weights=weights,
        one_logit=config.train.loss == "binary_cross_entropy",
        columns=tuple(_column(raw, name) for name in (*raw.features, *raw.targets)),
        transform=asdict(replace(transform, classes=classes)),
        **of_rows,
    )


def encoded_width(config: StudyConfig, raw: RawData, parts: Parts) -> int:
    """How many features the columns become."""
    if config.data.categorical == "ordinal":
        return len(raw.features)
    training = raw.frame.iloc[parts.train]
    is_own = config.data.impute != "most_frequent"  # a missing value is a category of its own
    return sum(
        training[name].nunique(dropna=not is_own) if raw.is_category(name) else 1
        for name in raw.features
    )


def scaled_features(config: StudyConfig, raw: RawData, data: Dataset) -> NDArray[np.bool_]:
    """Which features are scaled: numbers, which stand before the others, and ordinal places."""
    numbers = sum(not raw.is_category(name) for name in raw.features)
    return (np.arange(data.n_features) < numbers) | (config.data.categorical == "ordinal")


def _features(
    config: StudyConfig, raw: RawData, parts: Parts
) -> tuple[NDArray[Any], tuple[str, ...], Transform]:
    """All rows as a model sees them, the name of each column, and what was done with them.

    Numbers come first, then the rest.
    """
    categories = [name for name in raw.features if raw.is_category(name)]
    numbers = [name for name in raw.features if name not in categories]
    features = raw.frame[numbers].astype(np.float64)
    features = features.assign(**{name: _objects(raw.frame[name]) for name in categories})
    encoder = ColumnTransformer(
        [
            ("number", _pipeline([*_filling(config), *_scaling(config)]), numbers),
            ("category", _pipeline([*_filling_categories(config), *_encoding(config)]), categories),
        ],
        sparse_threshold=0,
    )
    encoder.fit(features.iloc[parts.train])
    names = [name.partition("__")[2] for name in encoder.get_feature_names_out()]
    x = np.asarray(encoder.transform(features), config.execution.precision)
    return x, tuple(names), _transform(config, raw, numbers, categories, encoder)


def _transform(
    config: StudyConfig, raw: RawData, numbers: list[str], categories: list[str], encoder: Any
) -> Transform:
    """What `encoder`, which was fitted, does with its columns."""
    steps = {
        name: dict(pipeline.steps) if isinstance(pipeline, Pipeline) else {}
        for name, pipeline, columns in encoder.transformers_
        if columns
    }
    number, category = steps.get("number", {}), steps.get("category", {})
    fills = number["impute"].statistics_.tolist() if "impute" in number else ()
    kinds = category["encode"].categories_ if "encode" in category else ()
    filled = category["impute"].statistics_ if "impute" in category else [None] * len(kinds)
    return Transform(
        columns=tuple(raw.features),
        numbers=tuple(numbers),
        fills=tuple(fills),
        scaling=_scaled_by(number.get("scale")),
        categories=tuple(
            Category(name, tuple(map(_scalar, values)), _scalar(fill))
            for name, values, fill in zip(categories, kinds, filled, strict=True)
        ),
        one_hot=config.data.categorical == "onehot",
        place_scaling=_scaled_by(category.get("scale")),
        classes=(),
    )


def _scaled_by(scaler: Any) -> Scaling | None:
    match scaler:
        case None:
            return None
        case MinMaxScaler():
            return Scaling(True, tuple(scaler.scale_.tolist()), tuple(scaler.min_.tolist()))
        case _:
            return Scaling(False, tuple(scaler.scale_.tolist()), tuple(scaler.mean_.tolist()))


def _scalar(value: Any) -> Scalar | None:
    """A value of a column as JSON has it, None where it is missing."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if value is None or value != value else value


def _of_rows(
    config: StudyConfig, raw: RawData, parts: Parts, x: NDArray[Any], scaling: Scaling | None
) -> dict[str, Any]:
    """What a program must know that generates rows: their units, and the modes of the data."""
    if config.train.program != "coupled":
        return {}
    mean, scale = _units(x.shape[1], scaling)
    found = {"x_mean": mean, "x_scale": scale}
    if raw.mode is None:
        return found
    labels = raw.frame[raw.mode].to_numpy()[parts.train]
    training = x[parts.train].astype(np.float64) * scale + mean
    names = np.unique(labels)
    return {
        **found,
        "mode_names": tuple(str(name) for name in names),
        "mode_means": np.stack([training[labels == name].mean(axis=0) for name in names]),
    }


def _units(n_features: int, scaling: Scaling | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """What to add to each feature, after it is multiplied: numbers are then as in the data.

    What categories were encoded as stays as it is.
    """
    mean, scale = np.zeros(n_features), np.ones(n_features)
    if scaling is not None:
        count, by, shift = len(scaling.scale), np.array(scaling.scale), np.array(scaling.shift)
        scale[:count] = 1 / by if scaling.to_range else by
        mean[:count] = -shift / by if scaling.to_range else shift
    return mean, scale


def _objects(column: pd.Series[Any]) -> pd.Series[Any]:
    """A category's values as they are, with NaN where there is none."""
    values = column.astype(object)
    return values.where(column.notna(), np.nan)


def _pipeline(steps: list[Step]) -> Any:
    return Pipeline(steps) if steps else "passthrough"


def _filling(config: StudyConfig) -> list[Step]:
    match config.data.impute:
        case "none":
            return []
        case Constant(constant=number):
            return [("impute", SimpleImputer(strategy="constant", fill_value=number))]
        case method:
            return [("impute", SimpleImputer(strategy=method))]


def _filling_categories(config: StudyConfig) -> list[Step]:
    if config.data.impute == "most_frequent":
        return [("impute", SimpleImputer(strategy="most_frequent"))]
    return []


def _scaling(config: StudyConfig) -> list[Step]:
    scaler = _SCALERS.get(config.data.scale)
    return [] if scaler is None else [("scale", scaler())]


def _encoding(config: StudyConfig) -> list[Step]:
    if config.data.categorical == "onehot":
        # a value that no training row has becomes a row of zeros
        return [("encode", OneHotEncoder(handle_unknown="ignore", sparse_output=False))]
    encoder = OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=UNKNOWN,
        encoded_missing_value=MISSING,
    )
    return [("encode", encoder), *_scaling(config)]


def _classes(raw: RawData) -> tuple[NDArray[np.int32], tuple[Any, ...]]:
    """The class of every row, as its place among the sorted classes, and these."""
    values, indices = np.unique(raw.frame[raw.targets[0]].to_numpy(), return_inverse=True)
    return indices.astype(np.int32), tuple(values.tolist())


def _numbers(
    config: StudyConfig, raw: RawData, parts: Parts
) -> tuple[NDArray[Any], tuple[float, ...], tuple[float, ...]]:
    """The targets of every row, with the mean and the deviation that were taken out of each."""
    target = raw.frame[list(raw.targets)].to_numpy(np.float64)
    n_targets = len(raw.targets)
    if config.data.scale == "none":
        return target.astype(config.execution.precision), (0.0,) * n_targets, (1.0,) * n_targets
    # also where features are scaled to [0, 1]: a loss wants targets of deviation 1
    scaler: Any = StandardScaler().fit(target[parts.train])
    y = np.asarray(scaler.transform(target), config.execution.precision)
    return y, tuple(scaler.mean_.tolist()), tuple(scaler.scale_.tolist())


def _column(raw: RawData, name: str) -> Column:
    values = raw.frame[name]
    is_target = name in raw.targets
    is_category = raw.is_category(name)
    return Column(
        name=name,
        role="target" if is_target else "feature",
        kind="category" if is_category else "number",
        values=int(values.nunique()) if is_category else None,
        missing=int(values.isna().sum()),
    )
