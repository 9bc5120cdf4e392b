"""Encodes rows into the arrays of a study, fitted on the training rows, and weights classes.

A few columns at a time are written into the arrays that trials train on, so that only these and the
rows as read take much memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import (
    MinMaxScaler,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from sweeper.config import StudyConfig
from sweeper.config.alternating import AlternatingTable
from sweeper.config.data import ConstantFill
from sweeper.config.settings import TrainTable
from sweeper.data.dataset import Dataset, TableColumn
from sweeper.data.identity import UNKNOWN, in_order, written
from sweeper.data.memory import blocks
from sweeper.data.raw import RawData
from sweeper.data.sizes import can_stratify
from sweeper.data.split import RowIndices, Split
from sweeper.data.target import transformed
from sweeper.data.transform import Category, Quantiles, Scaling, Transform, ordinal
from sweeper.data.weights import row_weights
from sweeper.errors import DataError, did_you_mean, listed

SCALERS: dict[str, type[Any]] = {
    "standard": StandardScaler,
    "minmax": MinMaxScaler,
    "robust": RobustScaler,
}
# as many quantiles as Gorishniy et al. 2021 (arXiv 2106.11959) use; fewer for many columns, since
# each saved model contains them
_ROWS_A_QUANTILE, _FEWEST_QUANTILES, _MOST_QUANTILES = 30, 10, 1000
_MOST_STORED = 100_000
# losses and metrics of squared errors
_SQUARED = frozenset({"mse", "huber", "rmse"})


def class_weights(
    config: StudyConfig,
    class_names: tuple[str, ...],
    y: NDArray[Any],
    train: NDArray[np.intp],
    rows: NDArray[Any] | None = None,
) -> tuple[float, ...]:
    """The weight of each class, in their order; empty if all are equal.

    `y` are the classes of all rows, of which those at `train` are for training. `rows` are the
    weights of the latter, if they have any.

    Raises:
        DataError: a weight names an unknown class, or is lost in the precision, or a class has no
        training row, or none that counts, to balance it.
    """
    weights = config.data.class_weights
    if weights == "none":
        return ()
    if weights == "balanced":
        found = _balanced_weights(config, class_names, y, train, rows)
    else:
        found = _own_weights(config, class_names, weights)
    _refuse_lost(config, dict(zip(class_names, found, strict=True)), len(y))
    return found


def _own_weights(
    config: StudyConfig, class_names: tuple[str, ...], weights: Mapping[str, float]
) -> tuple[float, ...]:
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


def _refuse_lost(config: StudyConfig, weights: Mapping[str, float], n_rows: int) -> None:
    """Refuse weights that are 0 in the precision of training, or whose sum is infinite."""
    precision = config.execution.precision
    least, most = float(np.finfo(precision).tiny), float(np.finfo(precision).max) / n_rows
    if lost := [f"'{name}' ({w:g})" for name, w in weights.items() if not least <= w <= most]:
        found = f"too small or too large for {precision}: {listed(lost)}"
        hint = "only their ratios count: write weights that are nearer to 1"
        raise DataError(config.problem("data.class_weights", found, hint))


def _balanced_weights(
    config: StudyConfig,
    class_names: tuple[str, ...],
    y: NDArray[Any],
    train: NDArray[np.intp],
    rows: NDArray[Any] | None,
) -> tuple[float, ...]:
    """Like scikit-learn's `compute_class_weight`, on the training rows and their weights."""
    n_rows = np.bincount(y[train], minlength=len(class_names))
    counts = n_rows if rows is None else np.bincount(y[train], rows, minlength=len(class_names))
    if absent := [f"'{name}'" for name, n in zip(class_names, n_rows, strict=True) if not n]:
        found = f"no training row is of class {listed(absent)}"
        ways = ["a weight for each class"]
        if can_stratify(config, np.bincount(y, minlength=len(class_names)).tolist()):
            ways.insert(0, "data.split.stratify = true")
        hint = f"write {listed(ways, 'or')}"
        raise DataError(config.problem("data.class_weights", found, hint))
    if idle := [f"'{name}'" for name, n in zip(class_names, counts, strict=True) if not n]:
        found = f"all training rows of class {listed(idle, 'or')} have weight 0"
        hint = "write weights above 0 for some of them, or a weight for each class"
        raise DataError(config.problem("data.class_weights", found, hint))
    total = len(train) if rows is None else rows.sum(dtype=np.float64)
    return tuple((total / (len(class_names) * counts)).tolist())


def encode(
    config: StudyConfig, raw: RawData, split: Split, categories: Sequence[Category]
) -> Dataset:
    """The dataset of `raw`: every row transformed as fitted on the training rows.

    `categories` are those of this split.
    """
    encoder = _Encoder(config, raw, split, categories)
    transform = encoder.write()
    x_train, x_val, x_test = encoder.arrays
    rows = row_weights(config, raw, split.train)
    y_mean, y_scale = (0.0,), (1.0,)
    classes, class_names, weights = (), (), ()
    if config.train.target == "classes":
        y, classes = _classes(config, raw)
        named = _class_name if config.edition == 1 else written
        class_names = raw.class_names or tuple(map(named, classes))
        own = None if rows is None else rows[split.train]
        weights = class_weights(config, class_names, y, split.train, own)
    elif config.train.target == "numbers":
        y, y_mean, y_scale = _numbers(config, raw, split)
    else:
        y, y_mean, y_scale = np.empty((len(raw.frame), 0), x_train.dtype), (), ()
    return Dataset(
        x_train=x_train,
        y_train=y[split.train],
        x_val=x_val,
        y_val=y[split.val],
        x_test=x_test,
        y_test=y[split.test],
        feature_names=encoder.names,
        class_names=class_names,
        y_mean=y_mean,
        y_scale=y_scale,
        y_transform=config.data.target_transform,
        class_weights=weights,
        one_logit=config.train.loss == "binary_cross_entropy",
        columns=tuple(_column(config, raw, name) for name in (*raw.features, *raw.targets)),
        transform=replace(transform, classes=classes).body,
        **_of_rows(config, raw, split, x_train, transform.scaling),
        **({} if rows is None else _weights(rows, split)),
    )


def _weights(weights: NDArray[Any], split: Split) -> dict[str, Any]:
    """The weights of the rows of each split."""
    return {
        "w_train": weights[split.train],
        "w_val": weights[split.val],
        "w_test": weights[split.test],
    }


def scaled_features(config: StudyConfig, raw: RawData, data: Dataset) -> NDArray[np.bool_]:
    """Which features are scaled: numbers, which come first, and ordinal positions."""
    return (np.arange(data.n_features) < len(raw.numbers)) | (config.data.categorical == "ordinal")


def _of_rows(
    config: StudyConfig,
    raw: RawData,
    split: Split,
    x: NDArray[Any],
    scaling: Scaling | Quantiles | None,
) -> dict[str, Any]:
    """What a program that generates rows needs: their units, and the modes of the data."""
    if config.train.program != "coupled" or isinstance(scaling, Quantiles):
        return {}
    mean, scale = _units(x.shape[1], scaling)
    found = {"x_mean": mean, "x_scale": scale}
    if raw.mode is None:
        return found
    labels = raw.frame[raw.mode].to_numpy()[split.train]
    names = np.unique(labels)
    rows = (x[labels == name].astype(np.float64) for name in names)
    return {
        **found,
        "mode_names": tuple(str(name) for name in names),
        "mode_means": np.stack([(of_mode * scale + mean).mean(axis=0) for of_mode in rows]),
    }


def _units(n_features: int, scaling: Scaling | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The shift and factor of each feature that restore the data's own units.

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
    config: StudyConfig, raw: RawData, split: Split
) -> tuple[NDArray[Any], tuple[float, ...], tuple[float, ...]]:
    """The targets of every row, transformed and then standardised by this mean and deviation."""
    numbers = raw.floats(*raw.targets)
    transform = config.data.target_transform
    if transform != "none":
        with np.errstate(over="ignore"):
            _refuse_large(config, raw, np.square(numbers).sum(axis=0))
        if {"rmse", "r2"}.intersection(config.train.built_in_metrics):
            _refuse_small(config, raw, _deviations(numbers[split.train]))
    target = transformed(numbers, transform)
    n_targets = len(raw.targets)
    if not config.data.standardizes_targets:
        has_squares = _reports_squares(config.train) or "r2" in config.train.built_in_metrics
        if transform == "none" and has_squares:
            _refuse_small(config, raw, _deviations(target[split.train]))
        return target.astype(config.execution.precision), (0.0,) * n_targets, (1.0,) * n_targets
    # also if features are scaled to [0, 1], since losses expect targets of deviation 1
    scaler: Any = StandardScaler()
    with np.errstate(over="ignore", invalid="ignore"):
        y = scaler.fit(target[split.train]).transform(target)
    _check_scaled(config, raw, raw.targets, y, [scaler], setting="target_scale")
    # squared errors are reported in the squared unit
    with np.errstate(over="ignore"):
        _refuse_large(config, raw, np.square(scaler.scale_))
    if _reports_squares(config.train):
        _refuse_small(config, raw, scaler.scale_)
    return (
        np.asarray(y, config.execution.precision),
        tuple(scaler.mean_.tolist()),
        tuple(scaler.scale_.tolist()),
    )


def _reports_squares(train: TrainTable) -> bool:
    """Whether a loss or metric has the squares of errors in the unit of the targets."""
    kinds = [train.loss]
    if isinstance(train, AlternatingTable):
        kinds = [loss.kind for loss in train.by_loss.values()]
    return not _SQUARED.isdisjoint((*kinds, *train.built_in_metrics))


def _deviations(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The deviation of each column, exactly 0 if it is constant."""
    return np.where(np.ptp(rows, axis=0) == 0, 0.0, rows.std(axis=0))


def _refuse_large(config: StudyConfig, raw: RawData, squares: NDArray[np.float64]) -> None:
    """Refuse targets whose losses or metrics in their own unit are not finite."""
    precision = config.execution.precision
    with np.errstate(over="ignore"):
        is_fit = np.isfinite(squares.astype(precision))
    what, hint = f"squares too large for {precision}", "write them in a larger unit"
    _refuse_unfit(config, raw, raw.targets, is_fit, what, hint)


def _refuse_small(config: StudyConfig, raw: RawData, deviations: NDArray[np.float64]) -> None:
    """Refuse targets whose losses or metrics in their own unit are 0, unless they are constant."""
    precision = config.execution.precision
    is_fit = (deviations == 0) | (np.square(deviations) >= np.finfo(precision).tiny)
    what, hint = f"squares too small for {precision}", "write them in a smaller unit"
    _refuse_unfit(config, raw, raw.targets, is_fit, what, hint)


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


def categories_of(config: StudyConfig, raw: RawData, split: Split) -> tuple[Category, ...]:
    """The columns that are encoded value by value, with the values of their training rows."""
    names = [name for name in raw.features if raw.is_category(name)]
    is_filled = config.data.impute == "most_frequent"
    ordered = sorted if config.edition == 1 else in_order
    columns = (raw.frame[name].iloc[split.train] for name in names)
    return tuple(_category(*one, is_filled, ordered) for one in zip(names, columns, strict=True))


def feature_names(
    config: StudyConfig, raw: RawData, categories: Sequence[Category]
) -> tuple[str, ...]:
    """The name of each feature: numbers come first, then the rest."""
    return (*raw.numbers, *(name for one in categories for name in _names(config, one)))


class _Encoder:
    """Writes features into the arrays of the three splits, as fitted on the training rows."""

    def __init__(
        self, config: StudyConfig, raw: RawData, split: Split, categories: Sequence[Category]
    ) -> None:
        self._config, self._raw, self._categories = config, raw, categories
        self._rows: tuple[RowIndices, ...] = (split.train, split.val, split.test)
        self.names = feature_names(config, raw, categories)
        precision = config.execution.precision
        self.arrays = [np.zeros((len(rows), len(self.names)), precision) for rows in self._rows]

    def write(self) -> Transform:
        """Write every feature; returns how they were made."""
        fills, scalers = self._write_numbers()
        is_one_hot = self._config.data.categorical == "onehot"
        place_scalers = self._write_one_hot() if is_one_hot else self._write_places()
        return Transform(
            columns=tuple(self._raw.features),
            numbers=tuple(self._raw.numbers),
            fills=fills,
            scaling=_scaled_by(scalers),
            categories=tuple(self._categories),
            one_hot=is_one_hot,
            place_scaling=_scaled_by(place_scalers),
            classes=(),
            edition=self._config.edition,
        )

    def _write_numbers(self) -> tuple[tuple[float, ...], list[Any]]:
        """The fill values of the columns, and their scalers, one per block."""
        raw, names = self._raw, self._raw.numbers
        fills: list[float] = []
        scalers: list[Any] = []
        for block in blocks(len(raw.frame), len(names)):
            columns = np.empty((len(raw.frame), block.stop - block.start), order="F")
            filled = np.zeros(1)
            for place, name in enumerate(names[block]):
                columns[:, place] = raw.frame[name]
            for imputer in _imputers(self._config):
                columns = self._through(imputer, columns, "F")
                filled = np.asarray(imputer.statistics_, np.float64)
                fills += filled.tolist()
            columns = self._scale(columns, "F", scalers)
            _check_scaled(self._config, raw, names[block], columns, scalers[-1:], filled)
            self._put(block.start, columns)
        return tuple(fills), scalers

    def _write_one_hot(self) -> list[Any]:
        """Write a 1 for each category; these columns have no scalers."""
        first = len(self._raw.numbers)
        for one in self._categories:
            places = _places(self._raw, one)
            for rows, array in zip(self._rows, self.arrays, strict=True):
                # a value that no training row has becomes a row of zeros
                known = np.flatnonzero(places[rows] >= 0)
                array[known, first + places[rows][known]] = 1
            first += len(one.values)
        return []

    def _write_places(self) -> list[Any]:
        """The scalers of the columns, one per block."""
        raw, scalers = self._raw, list[Any]()
        for block in blocks(len(raw.frame), len(self._categories)):
            each = [ordinal(one, _places(raw, one)) for one in self._categories[block]]
            self._put(
                len(raw.numbers) + block.start,
                self._scale(np.stack(each, axis=1), "C", scalers),
            )
        return scalers

    def _put(self, first: int, columns: NDArray[np.float64]) -> None:
        """Write columns of every row of the data, from feature `first` on."""
        for rows, array in zip(self._rows, self.arrays, strict=True):
            array[:, first : first + columns.shape[1]] = columns[rows]

    def _scale(
        self, columns: NDArray[np.float64], order: Literal["C", "F"], scalers: list[Any]
    ) -> NDArray[np.float64]:
        """The columns, scaled by a new one of the `scalers`; unchanged without scaling."""
        if self._config.data.scale == "none":
            return columns
        if self._config.data.scale == "quantile":
            scalers.append(self._quantiles(columns[self._rows[0]]))
            return scalers[-1].of(columns)
        scalers.append(SCALERS[self._config.data.scale]())
        return self._through(scalers[-1], columns, order)

    def _quantiles(self, training: NDArray[np.float64]) -> Quantiles:
        n_columns = len(self._raw.numbers) + len(self._categories)
        wanted = min(len(training) // _ROWS_A_QUANTILE, _MOST_QUANTILES, _MOST_STORED // n_columns)
        count = min(max(wanted, _FEWEST_QUANTILES), len(training))
        transformer: Any = QuantileTransformer(n_quantiles=count, subsample=len(training))
        return Quantiles(tuple(map(tuple, transformer.fit(training).quantiles_.T.tolist())))

    def _through(
        self, transformer: Any, columns: NDArray[np.float64], order: Literal["C", "F"]
    ) -> NDArray[np.float64]:
        """The columns, transformed as fitted on the training rows.

        The memory order is the one that scikit-learn sees if given all columns at once, since it
        determines the last bit of a sum.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # `_check_scaled` reports it
            transformer.fit(np.asarray(columns[self._rows[0]], order=order))
            return transformer.transform(columns)


def _category(
    name: str,
    training: pd.Series[Any],
    is_filled: bool,
    ordered: Callable[[Iterable[Any]], list[Any]],
) -> Category:
    codes, values = pd.factorize(training)
    known: list[Any] = values.tolist()
    gaps, *counts = np.bincount(codes + 1, minlength=len(known) + 1).tolist()
    if is_filled:  # the smallest of the most frequent, as in scikit-learn's SimpleImputer
        often = (value for value, count in zip(known, counts, strict=True) if count == max(counts))
        return Category(name, tuple(ordered(known)), ordered(often)[0])
    # a missing value is a category of its own
    return Category(name, (*ordered(known), *((None,) if gaps else ())))


def _names(config: StudyConfig, category: Category) -> Iterator[str]:
    if config.data.categorical != "onehot":
        yield category.name
        return
    for value in category.values:
        shown = value if config.edition == 1 else written(value)
        yield f"{category.name}_{'nan' if value is None else shown}"


def _places(raw: RawData, category: Category) -> NDArray[np.int64]:
    """The index of each row's value among those of the category."""
    codes, values = pd.factorize(raw.frame[category.name])
    # the code of a missing value is -1
    place = {value: place for place, value in enumerate(category.values)}
    filled = [category.fill if value is None else value for value in (*values.tolist(), None)]
    return np.array([place.get(value, UNKNOWN) for value in filled], np.int64)[codes]


def _check_scaled(
    config: StudyConfig,
    raw: RawData,
    names: Sequence[str],
    columns: NDArray[np.float64],
    scalers: Sequence[Any],
    fills: NDArray[np.float64] | float = 0.0,
    setting: str = "scale",
) -> None:
    """Refuse columns that scaling by `setting` has made constant, or not finite.

    Finite numbers may be so far apart that their differences are not.

    Raises:
        DataError: with each of these columns.
    """
    with np.errstate(over="ignore"):
        is_fit = np.isfinite(columns.astype(config.execution.precision)).all(axis=0)
        is_fit &= np.isfinite(fills)
    for scaler in scalers:
        if not isinstance(scaler, Quantiles):
            is_fit &= np.isfinite(scaler.scale_) & (scaler.scale_ != 0)
    what = f"values too large for {config.execution.precision} once they are filled and scaled"
    hint = f'write smaller numbers, or {setting} = "none"'
    _refuse_unfit(config, raw, names, is_fit, what, hint)


def _refuse_unfit(
    config: StudyConfig,
    raw: RawData,
    names: Sequence[str],
    is_fit: NDArray[np.bool_],
    what: str,
    hint: str,
) -> None:
    """Raise a DataError with each column that is not fit."""
    unfit = [name for name, fits in zip(names, is_fit.tolist(), strict=True) if not fits]
    if unfit:
        raise DataError(
            config.problem(raw.key, f"column '{name}' of {raw.name}: {what}", hint)
            for name in unfit
        )


def _imputers(config: StudyConfig) -> list[Any]:
    match config.data.impute:
        case "none":
            return []
        case ConstantFill(constant=number):
            return [SimpleImputer(strategy="constant", fill_value=number)]
        case method:
            # the mean of numbers too far apart is infinite, and the column would be left out
            return [SimpleImputer(strategy=method, keep_empty_features=True)]


def _scaled_by(scalers: Sequence[Any]) -> Scaling | Quantiles | None:
    if not scalers:
        return None
    if isinstance(scalers[0], Quantiles):
        return Quantiles(tuple(one for scaler in scalers for one in scaler.quantiles))
    to_range = isinstance(scalers[0], MinMaxScaler)
    shifts = [_shift(scaler) for scaler in scalers]
    scales = [scaler.scale_ for scaler in scalers]
    return Scaling(to_range, tuple(np.hstack(scales).tolist()), tuple(np.hstack(shifts).tolist()))


def _shift(scaler: Any) -> NDArray[np.float64]:
    names = {MinMaxScaler: "min_", StandardScaler: "mean_", RobustScaler: "center_"}
    return getattr(scaler, names[type(scaler)])
