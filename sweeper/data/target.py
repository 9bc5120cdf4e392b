"""Numeric targets: transformed for training, and back in their own unit.

Only NumPy is needed; for JAX arrays, pass `jax.numpy` as `xp`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# numbers must be greater to have a logarithm
LEAST: dict[str, float] = {"log": 0.0, "log1p": -1.0}


def transformed(target: NDArray[np.float64], transform: str) -> NDArray[np.float64]:
    """The targets as they are standardized; all of them are greater than `LEAST[transform]`."""
    match transform:
        case "log":
            return np.log(target)
        case "log1p":
            return np.log1p(target)
        case _:
            return target


def in_unit(scaled: Any, scale: ArrayLike, mean: ArrayLike, transform: str, xp: Any = np) -> Any:
    """Targets in their own unit, shaped (rows, targets), from those that models are trained on.

    Scaling is undone by `scale` and `mean`, one of each for each target, then `transform`.
    """
    numbers = scaled * scale + mean
    match transform:
        case "log":
            return xp.exp(numbers)
        case "log1p":
            return xp.expm1(numbers)
        case _:
            return numbers
