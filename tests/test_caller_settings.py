"""Who trains from Python finds JAX as they had set it up."""

from __future__ import annotations

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import sweeper
from sweeper import api
from sweeper.cachedir import cache_root
from tests.in_process import study_in
from tests.small_studies import DIGITS

DOUBLE = 'execution.precision="float64"'


def compiled_in(directory: Path) -> int:
    return len([*directory.rglob("*-cache")])


@pytest.mark.parametrize("call", [api.run, api.plan])
def test_a_study_leaves_the_precision_and_the_cache_of_its_caller(call, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shown = warnings.showwarning
    before = jax.config.jax_compilation_cache_dir
    try:
        jax.config.update("jax_compilation_cache_dir", str(own))
        jax.config.update("jax_enable_x64", False)
        seconds = jax.config.jax_persistent_cache_min_compile_time_secs
        jax.jit(lambda x: x + 41)(jnp.ones(3)).block_until_ready()

        call(study_in(tmp_path, DIGITS, DOUBLE))

        assert jnp.zeros(3).dtype == jnp.float32
        assert jax.config.jax_compilation_cache_dir == str(own)
        assert jax.config.jax_persistent_cache_min_compile_time_secs == seconds
        assert warnings.showwarning is shown
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


def test_a_study_keeps_its_programs_with_its_own_whatever_cache_its_caller_has(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own"
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    try:
        jax.config.update("jax_compilation_cache_dir", str(own))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.jit(lambda x: x + 42)(jnp.ones(3)).block_until_ready()
        kept = compiled_in(own)
        assert kept > 0

        there = compiled_in(cache_root())
        sweeper.run(study_in(tmp_path, DIGITS, "model.width=19"))
        assert compiled_in(own) == kept
        assert compiled_in(cache_root()) > there

        jax.jit(lambda x: x * 43)(jnp.ones(3)).block_until_ready()
        assert compiled_in(own) > kept
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
