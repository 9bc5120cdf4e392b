"""A program that trains a study finds JAX afterwards as it had set it up."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

import sweeper
from sweeper import api
from sweeper.config import StudyConfig
from sweeper.user_dirs import cache_root
from tests.in_process import study_in
from tests.small_studies import DIGITS

SMALL = ("search={}", "study.n_trials=1", "model.depth=1", "train.epochs=1")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """The compile cache of a caller, which keeps every program."""
    settings = {
        "jax_compilation_cache_dir": str(tmp_path / "own"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
        "jax_enable_compilation_cache": True,  # an earlier calibration may have closed it
        "jax_enable_x64": False,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield tmp_path / "own"
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def compiled_in(directory: Path) -> int:
    return len([*directory.rglob("*-cache")])


@pytest.mark.parametrize("call", [api.run, api.plan])
def test_a_study_restores_the_precision_and_cache_of_its_caller(
    call: Callable[[StudyConfig], object], tmp_path: Path, own: Path
) -> None:
    shown = warnings.showwarning

    call(study_in(tmp_path, DIGITS, *SMALL, 'execution.precision="float64"'))

    assert jnp.zeros(3).dtype == jnp.float32
    assert jax.config.jax_compilation_cache_dir == str(own)
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 0.0
    assert warnings.showwarning is shown


def test_a_study_uses_its_own_cache_whatever_its_caller_uses(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # empty, for in the one of all tests another may have kept the same programs
    monkeypatch.setenv("SWEEPER_CACHE_DIR", str(tmp_path / "studies"))
    jax.jit(lambda x: x + 42)(jnp.ones(3)).block_until_ready()
    kept = compiled_in(own)
    assert kept > 0

    sweeper.run(study_in(tmp_path, DIGITS, *SMALL))
    assert compiled_in(own) == kept
    assert compiled_in(cache_root()) > 0

    jax.jit(lambda x: x * 43)(jnp.ones(3)).block_until_ready()
    assert compiled_in(own) > kept
