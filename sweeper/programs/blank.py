"""States in which everything is 0, as views that take no memory and no time to be made."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree


def blank_of(abstract: PyTree) -> Any:
    """A state of these shapes and dtypes, each leaf a view of one 0: not to be written to."""
    return jax.tree.map(
        lambda leaf: np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape), abstract
    )


def is_blank(leaf: Any) -> bool:
    """Whether `leaf` is such a view; a leaf of one number never is."""
    is_view_of_one = isinstance(leaf, np.ndarray) and leaf.size > 1 and not any(leaf.strides)
    return is_view_of_one and leaf.flat[0] == 0
