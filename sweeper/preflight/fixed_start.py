"""Digests of initial weights that no key changes, such as those that a builder reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sweeper.config import StudyConfig
from sweeper.config.search import ends
from sweeper.config.user_code import load_function
from sweeper.config.user_errors import RAISED
from sweeper.errors import StudyError
from sweeper.executors.environment import environment
from sweeper.models.keys import fixed_key
from sweeper.models.traces import trace
from sweeper.models.user_network import KEY
from sweeper.preflight.user_functions import raised
from sweeper.preflight.user_model import model_checks
from sweeper.sweep.session.reconcile import InitialWeights


def fixed_start(config: StudyConfig, in_size: int, out_size: int) -> InitialWeights | None:
    """Digests of the fixed arrays of user-defined models; None without such models.

    Models are those that `check_model` builds. The `environment` is recorded, too, since other
    libraries or devices may give other last digits.

    Raises:
        StudyError: a function raises.
    """
    if not config.has_user_models:
        return None
    digests: dict[str, str] = {}
    for check in model_checks(config, in_size, out_size):
        name = check.table_with({}).function
        function = load_function(name, config.base_dir)
        searched = [(entry.column(key), ends(entry)) for key, entry in check.splitting()]
        drawn = [{column: value} for column, values in searched for value in values]
        for params in ({}, *drawn):
            build = partial(function, **check.given(params))
            try:
                digest = _digest(lambda key, build=build: build(key=key))
            except RAISED as error:
                problem = raised(f"'{name}'", error, "fix the function")
                raise StudyError(config.problem(f"{check.key}.function", *problem)) from error
            place = ", ".join(f"{column} = {value!r}" for column, value in params.items())
            digests[f"{check.key}.function{place and f' with {place}'}"] = digest
    return InitialWeights(digests, environment())


def _digest(build: Callable[[Any], Any]) -> str:
    """The digest of all floating-point arrays of a model that do not depend on the key."""
    is_drawn = trace(build, KEY).depends_on_key()

    @jax.jit
    def fixed() -> list[Any]:
        drawn, leaves = iter(is_drawn), jax.tree.leaves(build(fixed_key()))
        kept = [one for one in leaves if not (isinstance(one, jax.Array) and next(drawn))]
        return [one for one in kept if isinstance(one, jax.Array | np.ndarray) and _is_float(one)]

    digest = blake2b(digest_size=16)
    for array in map(np.asarray, fixed()):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _is_float(array: jax.Array | np.ndarray) -> bool:
    return jnp.issubdtype(array.dtype, jnp.floating)
