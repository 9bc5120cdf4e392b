"""Which parameters weight decay applies to, as masks for Optax and as amounts along the vector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, DTypeLike, Float, Int, PyTree
from numpy.typing import NDArray

from sweeper.config.decay import DecayTable
from sweeper.config.reading import read_table
from sweeper.config.table import Flaw
from sweeper.errors import StudyError
from sweeper.models.decay import Decay, decisions, tree_of
from sweeper.models.decay_rules import check_layers, factors, idle_rules
from sweeper.models.leaves import leaves_of


class Marks:
    """A tree with one mark per parameter, as a function of the parameters that returns it.

    Optax calls masks and labels that are callable. A tree shaped like a model is callable if the
    model has a `__call__`; `optax.partition` would then pass the parameters through the labels. The
    tree is therefore wrapped in this class, which is not a PyTree and returns it for parameters and
    for updates.
    """

    def __init__(self, tree: PyTree) -> None:
        self.tree = tree

    def __call__(self, parameters: PyTree) -> PyTree:
        """The tree of marks.

        Raises:
            TypeError: it was called with a number, like a schedule; that would decay nothing.
        """
        if jax.tree_util.all_leaves([parameters]) and not jax.tree_util.all_leaves([self.tree]):
            raise TypeError(
                "a mask of parameters was called as a schedule; write "
                'optax.inject_hyperparams(..., static_args=("mask",))'
            )
        return self.tree


def decay_mask(
    model: eqx.Module,
    rules: Mapping[str, Any] | DecayTable | None = None,
    base_dir: Path | str = ".",
) -> Marks:
    """Which parameters of `model` decay, as a mask for `optax.adamw` and similar functions.

    `rules` are those of `[optimizer.decay]` in a study file; without them the weights of linear and
    convolution layers decay. Parameters are the arrays of floating-point numbers, as in
    `eqx.filter(model, eqx.is_inexact_array)`. Your own classes, "module:Class", are looked up in
    `base_dir` first.

    Raises:
        StudyError: the rules are invalid, or one of them has a factor: a mask is true or false.
    """
    table = rules if rules is None or isinstance(rules, DecayTable) else _table(rules)
    parameters = eqx.filter(model, eqx.is_inexact_array)
    decay = Decay.of(table, Path(base_dir))
    _refuse([*check_layers(decay), *factors(decay)])
    _refuse(idle_rules(decay, leaves_of(parameters)))
    return mask_of(parameters, decay)


def mask_of(parameters: PyTree, decay: Decay) -> Marks:
    """The mask of `parameters`, a model with nothing but parameters."""
    return Marks(tree_of(parameters, [d.rule.amount == 1 for d in decisions(parameters, decay)]))


def amounts_of(parameters: PyTree, decay: Decay) -> Marks:
    """How much each of `parameters` decays, as a share of the weight decay, as labels."""
    return Marks(tree_of(parameters, [d.rule.amount for d in decisions(parameters, decay)]))


def _table(rules: Mapping[str, Any]) -> DecayTable:
    table, flaws = read_table(DecayTable, dict(rules), "rules", [])
    _refuse(flaws)
    assert table is not None, "refused otherwise"
    return table


def _refuse(flaws: Iterable[Flaw]) -> None:
    problems = [flaw.at("decay_mask") for flaw in flaws]
    if problems:
        raise StudyError(problems)


_MAX = 2**31 - 1  # of 32-bit integers, which programs use as counters

Amounts = Float[Array, " parameters"] | Bool[Array, " parameters"]
Places = Int[Array, " parameters"]


def spread(
    amounts: NDArray[np.float64],
    ends: Sequence[Any],
    count: int,
    dtype: DTypeLike,
    places: Places | None = None,
    row: Array | None = None,
) -> Amounts:
    """How much each of `count` parameters decays, of arrays that follow each other.

    The arrays end at `ends`, which may be traced. `amounts` has one for each array, or several rows
    of them, of which the program gets the `row` at run time. If `places` are given, only the
    parameters there are returned. Neighbours with the same amount form one stretch, found by
    comparing places instead of with a mask as long as the vector. If only the beginning decays,
    this is a single comparison.
    """
    rows = np.atleast_2d(amounts)
    runs = [[*run] for _, run in groupby(range(len(ends)), key=lambda at: tuple(rows[:, at]))]
    ends = [ends[run[-1]] for run in runs]
    own: Any = rows[0].tolist() if row is None else jnp.asarray(amounts, dtype)[row]
    shares = [own[run[0]] for run in runs]
    places = _places(count) if places is None else places
    if row is None and shares == [1.0, 0.0]:
        return places < ends[0]
    found = jnp.full(places.shape, shares[-1] if shares else 0.0, dtype)
    for share, end in [*zip(shares, ends, strict=True)][-2::-1]:
        found = jnp.where(places < end, share, found)
    return found


def _places(count: int) -> Places:
    """The places in the vector.

    Raises:
        MemoryError: there are more than programs can count.
    """
    if count > _MAX:
        raise MemoryError(f"{count} parameters, but a program can only count to {_MAX}")
    return jnp.arange(count)
