"""JAX is set up for the studies that train in this process, and for the caller again afterwards."""

from __future__ import annotations

import jax
import pytest

from sweeper.errors import SetupError
from sweeper.executors.jax_setup import configure_jax, jax_restored

OTHER = "float32", "highest"
NAMES = ("jax_enable_x64", "jax_default_matmul_precision", "jax_compilation_cache_dir")


def settings() -> list[object]:
    return [getattr(jax.config, name) for name in NAMES]


def test_a_study_of_another_precision_is_refused_while_one_trains() -> None:
    before = settings()

    with jax_restored():
        configure_jax(*OTHER)
        with jax_restored():
            configure_jax(*OTHER)  # as the first
            with pytest.raises(SetupError, match="another study trains in this process"):
                configure_jax("float64")
        assert settings() != before, "the first still trains"
        configure_jax("float64")  # alone it may be asked again
        assert jax.config.jax_enable_x64  # type: ignore[attr-defined]

    assert settings() == before


def test_the_last_of_several_studies_restores_jax() -> None:
    before = settings()
    first, second = jax_restored(), jax_restored()

    first.__enter__()
    configure_jax(*OTHER)
    second.__enter__()
    first.__exit__(None, None, None)
    assert settings() != before
    second.__exit__(None, None, None)

    assert settings() == before
