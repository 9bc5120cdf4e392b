"""Fixtures of all tests."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import gettempdir

import pytest
from hypothesis import settings

from tests.command_line import CommandLine
from tests.crashes import Study

# Files that take longest. They start first, so that no process is left with one at the end.
LONGEST = (
    "executors/test_executors.py",
    "sweep/session/test_xla_threads.py",
    "programs/test_coupled.py",
    "studies/test_golden_digest.py",
    "config/test_unruly_code.py",
    "data/test_ahead.py",
    "studies/test_faults.py",
    "sweep/test_interrupt.py",
    "programs/test_optimizers.py",
    "cli/test_plan.py",
    "programs/test_padded.py",
    "executors/test_several_devices.py",
    "sweep/test_resume.py",
    "study/test_own_sampler.py",
    "executors/test_engines.py",
    "sweep/test_ending_study.py",
    "executors/test_switch_parts.py",
    "executors/test_worker_process.py",
    "export/test_export.py",
    "studies/test_mixed.py",
    "programs/test_alternating.py",
    "study/test_optuna_export.py",
    "test_gpu_check.py",
    "cli/test_run.py",
    "programs/test_phases.py",
    "cli/test_signals.py",
)

# the time for an example depends on the machine
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    """Make every process of the tests read compiled modules, also where none may write them.

    Compiling what a command imports takes longer than importing it: 4 s of a core for each process.
    """
    if "PYTHONDONTWRITEBYTECODE" in os.environ and (cache := getattr(config, "cache", None)):
        del os.environ["PYTHONDONTWRITEBYTECODE"]
        # nothing is written next to the sources
        kept = cache.mkdir("bytecode")
        # modules of earlier tests
        shutil.rmtree(kept.joinpath(*Path(gettempdir()).parts[1:]), ignore_errors=True)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(kept)
        sys.dont_write_bytecode = False


def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: many tests wait for a command."""
    return 1 + len(os.sched_getaffinity(0))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; the others keep their order.

    If the suite runs no variant of a test, the first variant is marked `rule`, unless it is a soak
    test.
    """
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(LONGEST)))
    variants: dict[str, list[pytest.Item]] = {}
    for item in items:
        variants.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for tests in variants.values():
        names = [{mark.name for mark in test.iter_markers()} for test in tests]
        if all("slow" in own and own.isdisjoint({"soak", "disk", "integration"}) for own in names):
            tests[0].add_marker("rule")


def pytest_collection_finish() -> None:
    """Make garbage collections rare, and skip imported modules, which stay until the end.

    With Python's own thresholds, tests that trace programs spend 6 % of their time collecting.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where all tests keep compiled programs and a key, instead of in the user's directories."""
    own = tmp_path_factory.getbasetemp()
    # all processes of this run share one
    cache = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWEEPER_CACHE_DIR", str(cache))
        patch.setenv("XDG_STATE_HOME", str(cache / "state"))
        yield cache


@pytest.fixture(scope="module")
def compiled_once(compile_cache: Path) -> Iterator[None]:
    """Compile a program once for all tests that use it, unless compiling is fast."""
    import jax

    from sweeper.executors.compile_cache import use_cache

    cached = {
        "jax_compilation_cache_dir": str(compile_cache / "programs"),
        "jax_persistent_cache_min_compile_time_secs": 0.3,
    }
    before = {name: jax.config.values[name] for name in cached}
    for name, value in cached.items():
        jax.config.update(name, value)
    use_cache(None)  # JAX looks for a cache once, at its first compilation
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    use_cache(None)


@pytest.fixture(autouse=True)
def no_study_left_in_jax() -> Iterator[None]:
    """No test continues with JAX settings that an earlier one set up, or leaves any to the next."""
    before = _jax_settings()
    yield
    if setup := sys.modules.get("sweeper.executors.jax_setup"):
        setup._current = None
    after = _jax_settings()
    changed = [name for name, value in before.items() if after[name] != value]
    assert not changed, "the test leaves JAX with other settings"


def _jax_settings() -> dict[str, object]:
    """JAX's settings; empty if it is not imported."""
    jax = sys.modules.get("jax")
    return {} if jax is None else dict(jax.config.values)


@pytest.fixture
def command(tmp_path: Path, compile_cache: Path) -> CommandLine:
    """The program, started in an empty directory."""
    return CommandLine(tmp_path, compile_cache)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A finished study."""
    study = Study(tmp_path_factory.mktemp("ended"), "supervised", "padded")
    study.run()
    return study


@pytest.fixture(scope="module")
def halfway(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study that was killed with trials in training."""
    study = Study(tmp_path_factory.mktemp("halfway"), "supervised", "padded")
    assert study.crash("ledger.close:end", 1)
    return study


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Study], Study]:
    """A copy of a study, to be damaged."""

    def copied(study: Study) -> Study:
        copy = Study(tmp_path / "copy", study.program, study.strategy)
        shutil.copytree(study.directory, copy.directory)
        return copy

    return copied


@pytest.fixture
def float64() -> Iterator[None]:
    import jax

    with jax.enable_x64(True):
        yield
