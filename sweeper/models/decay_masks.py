"""Which parameters weight decay touches: as masks for Optax, and as amounts along the vector."""

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
from sweeper.errors import Problem, StudyError
from sweeper.models.decay import Decay, decisions, tree_of
from sweeper.models.decay_rules import check_layers, factors, idle_rules
from sweeper.models.leaves import leaves_of


class Marks:
    """A tree with one mark a parameter, as a function of the parameters that gives it.

    Optax calls masks and labels that can be called. A tree in the form of a model can be, where
    the model has a `__call__`: `optax.partition` would pass the parameters through the labels. So
    the tree is handed over inside of this, which is no PyTree, and gives it for parameters and for
    updates alike.
    """

    def __init__(self, tree: PyTree) -> None:
        self.tree = tree

    def __call__(self, parameters: PyTree) -> PyTree:
        """The tree of marks.

        Raises:
            TypeError: it was called with a number, as a schedule is; that would decay nothing.
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
    """Which parameters of `model` decay, as a mask for `optax.adamw` and whatever else takes one.

    `rules` are `[optimizer.decay]` of a study file; without them weights of linear and convolution
    layers decay. Parameters are the arrays of floating-point numbers, as in
    `eqx.filter(model, eqx.is_inexact_array)`. Classes of yours, "module:Class", are looked up in
    `base_dir` first.

    Raises:
        StudyError: the rules are none, or some of them has a factor: a mask is true or false.
    """
    table = rules if rules is None or isinstance(rules, DecayTable) else _table(rules)
    parameters = eqx.filter(model, eqx.is_inexact_array)
    decay = Decay.of(table, Path(base_dir))
    _refuse([*check_layers(decay), *factors(decay)])
    _refuse(idle_rules(decay, leaves_of(parameters)))
    return mask_of(parameters, decay)


def mask_of(parameters: PyTree, decay: Decay) -> Marks:
    """The mask of `parameters`, a model without anything else."""
    return Marks(tree_of(parameters, [d.rule.amount == 1 for d in decisions(parameters, decay)]))


def amounts_of(parameters: PyTree, decay: Decay) -> Marks:
    """By how much each of `parameters` decays, a share of the weight decay, as labels."""
    return Marks(tree_of(parameters, [d.rule.amount for d in decisions(parameters, decay)]))


def _table(rules: Mapping[str, Any]) -> DecayTable:
    table, faults = read_table(DecayTable, dict(rules), "rules", [])
    _refuse(faults)
    assert table is not None, "refused otherwise"
    return table


def _refuse(faults: Iterable[Flaw]) -> None:
    problems = [Problem("decay_mask", fault.key, fault.found, fault.hint) for fault in faults]
    if problems:
        raise StudyError(problems)


_MAX = 2**31 - 1  # of integers of 32 bits, in which programs count

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
    that decay alike are one stretch, found by comparing places instead of by a mask as long as the
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
    if count > _MAX:
        raise MemoryError(f"{count} parameters, and a program counts to {_MAX}")
    return jnp.arange(count)


def _piecewise(
    places: Array, amounts: Sequence[float | Array], ends: Sequence[Any], dtype: DTypeLike
) -> Float[Array, " parameters"]:
    """The first of `amounts` up to the first of `ends`, and so on."""
    found = jnp.full(places.shape, amounts[-1] if amounts else 0.0, dtype)
    for amount, end in [*zip(amounts, ends, strict=True)][-2::-1]:
        found = jnp.where(places < end, amount, found)
    return found
