"""Amounts of decay over the vector of parameters, from those of the arrays in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, DTypeLike, Float, Int
from numpy.typing import NDArray

_MOST = 2**31 - 1  # of whole numbers of 32 bits, in which programs count

Amounts = Float[Array, " parameters"] | Bool[Array, " parameters"]
Places = Int[Array, " parameters"]


def spread(
    amounts: NDArray[np.float64],
    ends: Sequence[Any],
    count: int,
    dtype: DTypeLike,
    places: Places | None = None,
) -> Amounts:
    """By how much each of `count` parameters decays, of arrays that follow each other.

    They end at `ends`, which may be traced. Where `places` are given, those there alone. Neighbours
    that decay alike are one stretch, told by comparing places instead of by a mask as long as the
    vector; where only the beginning decays that is one comparison.
    """
    runs = [[*run] for _, run in groupby(range(len(ends)), key=lambda index: amounts[index])]
    stretches = [(float(amounts[run[0]]), ends[run[-1]]) for run in runs]
    places = _places(count) if places is None else places
    if [amount for amount, _ in stretches] == [1.0, 0.0]:
        return places < stretches[0][1]
    return _piecewise(places, [a for a, _ in stretches], [end for _, end in stretches], dtype)


def spread_by_depth(
    amounts: Float[np.ndarray, "depths arrays"],
    ends: Sequence[Any],
    count: int,
    row: Array,
    dtype: DTypeLike,
    places: Places | None = None,
) -> Amounts:
    """As `spread`, where the amounts are those in a `row` that the program is told at run time."""
    own = jnp.asarray(amounts, dtype)[row]
    runs = [[*run] for _, run in groupby(range(len(ends)), key=lambda i: tuple(amounts[:, i]))]
    places = _places(count) if places is None else places
    alike = [own[run[0]] for run in runs]
    return _piecewise(places, alike, [ends[run[-1]] for run in runs], dtype)


def _places(count: int) -> Places:
    """The places in the vector.

    Raises:
        MemoryError: there are more than programs count to.
    """
    if count > _MOST:
        raise MemoryError(f"{count} parameters, and a program counts to {_MOST}")
    return jnp.arange(count)


def _piecewise(
    places: Array, amounts: Sequence[float | Array], ends: Sequence[Any], dtype: DTypeLike
) -> Float[Array, " parameters"]:
    """The first of `amounts` up to the first of `ends`, and so on."""
    found = jnp.full(places.shape, amounts[-1] if amounts else 0.0, dtype)
    for amount, end in [*zip(amounts, ends, strict=True)][-2::-1]:
        found = jnp.where(places < end, amount, found)
    return found
