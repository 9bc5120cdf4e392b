"""The arrays that a study's programs get, and the order in which they see the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding
from numpy.typing import NDArray

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.data.order import epoch_order
from sweeper.programs.program import Batch
from sweeper.programs.segment import DeviceData, Folds


def put_data(
    config: StudyConfig, data: Dataset, batch_size: int, where: Sharding | None = None
) -> DeviceData:
    """The data and row orders of a study on the first device of this process, or elsewhere."""
    return jax.device_put(
        DeviceData(
            train=Batch(data.x_train, data.y_train, weights=data.weights("train")),
            val=Batch(data.x_val, data.y_val, weights=data.weights("val")),
            test=Batch(data.x_test, data.y_test, weights=data.weights("test")),
            order=_orders(config, data, batch_size),
            folds=_folds(data),
        ),
        where,
    )


def reordered(
    device_data: DeviceData, config: StudyConfig, data: Dataset, batch_size: int, where: Sharding
) -> DeviceData:
    """The same data, left in place, with row orders for another batch size."""
    order = jax.device_put(_orders(config, data, batch_size), where)
    return replace(device_data, order=order)


def _orders(config: StudyConfig, data: Dataset, batch_size: int) -> NDArray[np.int32]:
    """The rows of every batch, shaped (members, epochs, steps, batch_size).

    All folds take as many steps as the one with the fewest training rows, because they are lanes of
    one program; `data_warnings` reports this if others could take clearly more.
    """
    seed, epochs = config.study.seed, config.max_epochs
    orders: list[NDArray[np.int32]] = []
    for member in config.members:
        rows = data.training_rows(member.fold)
        places = epoch_order(seed, member.replicate, epochs, len(rows), batch_size)
        orders.append(rows[places])
    steps = min(order.shape[1] for order in orders)
    return np.stack([order[:, :steps] for order in orders])


def _folds(data: Dataset) -> Folds | None:
    if not data.n_folds:
        return None
    validated = [np.flatnonzero(data.fold_of == fold) for fold in range(data.n_folds)]
    lengths = [len(rows) for rows in validated]
    sizes = tuple(sorted(set(lengths)))
    filled: Any = [np.resize(rows, sizes[-1]) for rows in validated]
    return Folds(
        rows=np.stack(filled).astype(np.int32),
        which=np.array([sizes.index(length) for length in lengths], np.int32),
        scale=data.fold_scale,
        shift=data.fold_shift,
        sizes=sizes,
    )
