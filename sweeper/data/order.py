"""In which order the training rows are seen, epoch by epoch: the same for every trial."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweeper.trial import generator


def epoch_order(
    seed: int, replicate: int, epochs: int, n_rows: int, batch_size: int
) -> NDArray[np.int32]:
    """The rows of every batch of epochs 1 to `epochs`, shaped (epochs, steps, batch_size).

    Each epoch is a new permutation of the rows that depends on seed, replicate and epoch alone,
    so more epochs or another batch size leave it as it is. The rows that do not fill a last
    batch are left out of that epoch.
    """
    steps = n_rows // batch_size
    order = np.empty((epochs, steps * batch_size), np.int32)
    for index in range(epochs):
        rows = generator(seed, replicate, index + 1, "order").permutation(n_rows)
        order[index] = rows[: steps * batch_size]
    return order.reshape(epochs, steps, batch_size)
