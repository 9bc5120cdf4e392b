"""From rows as read to arrays: text one-hot, numbers scaled, fitted on the training part alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.data.raw import RawData, is_number
from sweeper.data.split import Parts

_SCALERS = {"none": lambda: "passthrough", "standard": StandardScaler, "minmax": MinMaxScaler}


def encode(config: StudyConfig, raw: RawData, parts: Parts) -> Dataset:
    """The dataset of `raw`: every row transformed by what its training rows say."""
    x, feature_names = _features(config, raw, parts)
    if config.train.target == "classes":
        y, class_names = _classes(raw)
        y_mean, y_scale = 0.0, 1.0
    else:
        y, y_mean, y_scale = _numbers(config, raw, parts)
        class_names = ()
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
        one_logit=config.train.loss == "binary_cross_entropy",
    )


def scaled_features(raw: RawData, data: Dataset) -> NDArray[np.bool_]:
    """Which features are numbers, to be scaled: they stand before those of text."""
    numbers = sum(is_number(raw.frame[name]) for name in raw.features)
    return np.arange(data.n_features) < numbers


def _features(
    config: StudyConfig, raw: RawData, parts: Parts
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """All rows as a model sees them, and the name of each column: numbers first, then text."""
    numbers = [name for name in raw.features if is_number(raw.frame[name])]
    text = [name for name in raw.features if name not in numbers]
    kinds = {**dict.fromkeys(numbers, "float64"), **dict.fromkeys(text, object)}
    features = raw.frame[raw.features].astype(kinds)
    # a value that no training row has becomes a row of zeros
    one_hot = OneHotEncoder(handle_unknown="ignore")
    encoder = ColumnTransformer(
        [("number", _SCALERS[config.data.scale](), numbers), ("text", one_hot, text)],
        sparse_threshold=0,
    )
    encoder.fit(features.iloc[parts.train])
    names = [name.partition("__")[2] for name in encoder.get_feature_names_out()]
    x = np.asarray(encoder.transform(features), config.execution.precision)
    return x, tuple(names)


def _classes(raw: RawData) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """The class of every row, as its place among the sorted classes."""
    values, indices = np.unique(raw.frame[raw.target].to_numpy(), return_inverse=True)
    names = raw.class_names or tuple(str(value).removesuffix(".0") for value in values)
    return indices.astype(np.int32), names


def _numbers(config: StudyConfig, raw: RawData, parts: Parts) -> tuple[NDArray[Any], float, float]:
    """The target of every row, with the mean and the deviation that were taken out of it."""
    target = raw.frame[[raw.target]].to_numpy(np.float64)
    if config.data.scale == "none":
        return target.astype(config.execution.precision), 0.0, 1.0
    # also where features are scaled to [0, 1]: a loss wants targets of deviation 1
    scaler: Any = StandardScaler().fit(target[parts.train])
    y = np.asarray(scaler.transform(target), config.execution.precision)
    return y, float(scaler.mean_[0]), float(scaler.scale_[0])
