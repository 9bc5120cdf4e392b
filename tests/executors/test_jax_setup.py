"""JAX is configured for studies that train in this process, and restored for the caller."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np
import pytest

from sweeper import api
from sweeper.config.jax_pins import overridden, pins
from sweeper.config.study import EDITION
from sweeper.errors import SetupError
from sweeper.executors.jax_setup import (
    check_settings_unchanged,
    configure_jax,
    jax_restored,
    keep_configured,
)
from tests.in_process import study_in, trained
from tests.preflight.test_program_rules import PROGRAMS
from tests.small_studies import DIGITS, bent

OTHER = "float32", "highest"
NAMES = ("jax_enable_x64", "jax_default_matmul_precision", "jax_compilation_cache_dir")


def settings() -> list[object]:
    return [getattr(jax.config, name) for name in NAMES]


def test_a_study_with_another_precision_is_refused_during_training() -> None:
    before = settings()

    with jax_restored():
        configure_jax(*OTHER)
        with jax_restored():
            configure_jax(*OTHER)  # as the first
            with pytest.raises(SetupError, match="another study trains in this process"):
                configure_jax("float64")
        assert settings() != before, "the first still trains"
        configure_jax("float64")  # without another study it may be set again
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


OTHERS = {
    "jax_debug_nans": True,
    "jax_disable_jit": True,
    "jax_enable_checks": True,
    "jax_check_tracer_leaks": True,
    "jax_numpy_dtype_promotion": "strict",
    "jax_numpy_rank_promotion": "raise",
    "jax_legacy_prng_key": "error",
    "jax_transfer_guard": "disallow",
    "jax_default_prng_impl": "rbg",
    "jax_enable_custom_prng": True,
    "jax_threefry_partitionable": False,
}


@contextmanager
def own_settings(settings: Mapping[str, object]) -> Iterator[None]:
    """A caller with this JAX configuration."""
    names = [name for name in jax.config.values if name in pins(2)]
    before = {name: jax.config.values[name] for name in names}
    for name, value in settings.items():
        jax.config.update(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


def test_a_study_trains_with_its_own_settings_and_restores_the_callers() -> None:
    with own_settings(OTHERS):
        theirs = dict(jax.config.values)
        with jax_restored():
            configure_jax("float32")
            during = dict(jax.config.values)
        assert dict(jax.config.values) == theirs

    expected = {name: value for name, value in pins(2).items() if name in during}
    assert {name: during[name] for name in expected} == expected


def test_a_study_of_edition_1_keeps_the_settings_that_change_results() -> None:
    settings = {"jax_threefry_partitionable": False, "jax_debug_nans": True}
    with own_settings(settings), jax_restored():
        configure_jax("float32", edition=1)
        assert not jax.config.jax_threefry_partitionable  # type: ignore[attr-defined]
        assert not jax.config.jax_debug_nans  # type: ignore[attr-defined]


def test_a_study_whose_edition_needs_other_settings_is_refused_during_training() -> None:
    with own_settings({"jax_threefry_partitionable": False}), jax_restored():
        configure_jax("float32", edition=1)
        with jax_restored():
            with pytest.raises(SetupError, match="and needs other settings of JAX"):
                configure_jax("float32")
            keep_configured()
            assert not jax.config.jax_threefry_partitionable  # type: ignore[attr-defined]


@pytest.mark.parametrize("editions", [(2, EDITION), (1, EDITION), (EDITION, 1)])
def test_studies_of_editions_with_the_same_settings_train_together(
    editions: tuple[int, int],
) -> None:
    first, second = editions
    with jax_restored():
        configure_jax("float32", edition=first)
        with jax_restored():
            configure_jax("float32", edition=second)


def test_settings_changed_by_user_code_in_training_are_restored() -> None:
    with jax_restored():
        configure_jax("float32")
        jax.config.update("jax_enable_x64", True)
        keep_configured()
        assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]


def test_user_code_that_changes_settings_when_it_is_called_is_refused() -> None:
    with jax_restored():
        configure_jax("float32")
        check_settings_unchanged()
        jax.config.update("jax_enable_x64", True)
        with pytest.raises(SetupError, match="sets jax_enable_x64 when it is called"):
            check_settings_unchanged()


def test_a_context_manager_around_a_study_is_refused_by_name() -> None:
    refused = pytest.raises(SetupError, match="jax_debug_nans")
    with jax.debug_nans(True), jax_restored(), refused:
        configure_jax("float32")
    assert not jax.config.jax_debug_nans  # type: ignore[attr-defined]


def test_environment_variables_that_studies_do_not_follow_are_named() -> None:
    found = {
        "JAX_DEBUG_NANS": "1",
        "JAX_DISABLE_JIT": "False",
        "JAX_TRANSFER_GUARD": "allow",
        "JAX_DEFAULT_PRNG_IMPL": "rbg",
        "JAX_PLATFORMS": "cpu",
    }
    assert [*overridden(found, edition=2)] == ["JAX_DEBUG_NANS=1", "JAX_DEFAULT_PRNG_IMPL=rbg"]


@pytest.mark.parametrize("command", [("calibrate",), ("check-program", "own:Kept")])
def test_commands_that_train_refuse_devices_that_cannot_be_opened(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(PROGRAMS, encoding="utf-8")
    words = [sys.executable, "-m", "sweeper", *command]
    environment = {**os.environ, "JAX_PLATFORMS": "elsewhere"}
    ended = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert ended.returncode == 3
    assert ended.stderr.splitlines()[-1].startswith("JAX: no device can be opened: ")
    assert "Traceback" not in ended.stderr


NETS = """\
import equinox as eqx
import jax

jax.config.update("jax_default_prng_impl", "unsafe_rbg")
jax.config.update("jax_enable_x64", True)


class Net(eqx.Module):
    first: eqx.nn.Linear
    dropout: eqx.nn.Dropout
    last: eqx.nn.Linear

    def __call__(self, x, key=None):
        return self.last(self.dropout(jax.nn.relu(self.first(x)), key=key))


def build(in_size, out_size, key):
    first, last = jax.random.split(key)
    layers = eqx.nn.Linear(in_size, 8, key=first), eqx.nn.Linear(8, out_size, key=last)
    return Net(layers[0], eqx.nn.Dropout(0.3), layers[1])
"""


@pytest.mark.slow
def test_rows_do_not_depend_on_the_settings_of_the_caller_or_of_a_module(tmp_path: Path) -> None:
    small = "study.n_trials=1", "train.epochs=2", "model={kind='python',function='nets:build'}"
    here = "execution.threads=1", "execution.workers=0"  # a worker has its own settings anyway
    study = bent(DIGITS, *small, *here, "search={}")
    found = []
    for name, settings, module in (
        ("a", {}, NETS.replace("jax.config", "# ")),
        ("b", OTHERS, NETS),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nets.py").write_text(module, encoding="utf-8")
        with own_settings(settings):
            api.check(study_in(tmp_path / name, study))
            found.append(trained(study_in(tmp_path / name, study)).trials()["value"].tolist())

    assert np.isfinite(found[0]).all()
    assert found[0] == found[1]


def test_every_key_is_made_in_one_module() -> None:
    """In other modules a key would have JAX's default implementation."""
    makers = re.compile(r"random\.(PRNGKey|key|wrap_key_data)\(")
    package = Path(api.__file__).parent
    makes = [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        if makers.search(path.read_text(encoding="utf-8"))
    ]
    # a script in an export is the user's own to run; what adapts models of Flax is copied to it
    assert makes == ["export/script.py", "models/adapters.py", "models/keys.py"]


@pytest.mark.parametrize(
    ("variable", "value", "found"),
    [
        ("JAX_DEBUG_NANS", "maybe", "invalid truth value 'maybe' for environment 'JAX_DEBUG_NANS'"),
        ("JAX_PLATFORMS", "nonsense", "Unable to initialize backend 'nonsense'"),
    ],
)
def test_validate_refuses_an_environment_in_which_nothing_can_run(
    variable: str, value: str, found: str, tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(DIGITS, encoding="utf-8")
    command = [sys.executable, "-m", "sweeper", "validate", "study.toml"]
    environment = {**os.environ, variable: value}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert ended.returncode == 3
    assert ended.stderr.startswith("JAX: ")
    assert found in ended.stderr
