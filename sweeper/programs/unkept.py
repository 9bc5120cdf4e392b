"""What a program of the user's own changes in its model, though no lane keeps it.

A lane keeps the parameters, which are numbers with a point, and what is in `opt_state`. Counts,
flags and keys in a model are given to each step as the model was built with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from sweeper.config import Settings
from sweeper.programs.program import Batch, State
from sweeper.programs.user_program import Own


def unkept(program: Own, settings: Settings, batches: Sequence[Batch]) -> list[str]:
    """Where in the model `init`, or `step` with any of these batches, gives other arrays back."""
    lane, state = program.lane(0, settings), program.init(0, settings)

    @eqx.filter_jit
    def begun(state: State) -> tuple[PyTree, State]:
        return _others(program.begun_by_user(state, lane)[0]), program.begin(state, lane)

    @eqx.filter_jit
    def stepped(state: State, batch: Batch) -> tuple[PyTree, State]:
        moved, _ = program.step(state, batch, lane, jnp.zeros((), jnp.int32))
        return _others(program.stepped_by_user(state, batch, lane)[0]), moved

    built = _others(program.model(state))
    given, state = begun(state)
    changed = _changed(built, given)
    for batch in batches:
        given, state = stepped(state, batch)
        changed |= _changed(built, given)
    return [*changed]


def _others(model: PyTree) -> dict[str, Any]:
    """The arrays of a model that are no parameters, by where they are."""
    others = eqx.filter(eqx.filter(model, eqx.is_inexact_array, inverse=True), eqx.is_array)
    paths, _ = jax.tree_util.tree_flatten_with_path(others)
    return {jax.tree_util.keystr(path): leaf for path, leaf in paths}


def _changed(built: dict[str, Any], given: dict[str, Any]) -> dict[str, None]:
    """The places where two models are not alike, in the order of the first."""
    return {
        path: None
        for path in (*built, *given)
        if path not in built or path not in given or not _is_equal(built[path], given[path])
    }


def _is_equal(one: Any, other: Any) -> bool:
    return one.dtype == other.dtype and np.array_equal(_words(one), _words(other))


def _words(leaf: Any) -> Any:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)
