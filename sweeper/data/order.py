"""The order in which training rows are seen in each epoch, the same for every trial."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweeper.trial import generator

INDEX_BYTES = np.dtype(np.int32).itemsize
"""The size of a row's index in an order."""


def epoch_order(
    seed: int, replicate: int, epochs: int, n_rows: int, batch_size: int
) -> NDArray[np.int32]:
    """The rows of every batch of epochs 1 to `epochs`, shaped (epochs, steps, batch_size).

    Each epoch is a new permutation of the rows that depends only on seed, replicate and epoch, so
    it is independent of the number of epochs and the batch size. Rows that do not fill a last batch
    are left out of that epoch.
    """
    steps = n_rows // batch_size
    order = np.empty((epochs, steps * batch_size), np.int32)
    for index in range(epochs):
        rows = generator(seed, replicate, index + 1, "order").permutation(n_rows)
        order[index] = rows[: steps * batch_size]
    return order.reshape(epochs, steps, batch_size)
