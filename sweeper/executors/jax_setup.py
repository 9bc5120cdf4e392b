"""Sets up JAX for the studies of a process, and restores the caller's settings after them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax

from sweeper.config import StudyConfig
from sweeper.config.jax_pins import pins
from sweeper.config.study import EDITION
from sweeper.errors import Problem, SetupError, listed
from sweeper.executors.compile_cache import cache_directory, use_cache

# settings changed by `configure_jax`, and the one that `calibrate` changes
_SETTINGS = (
    *pins(EDITION),
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_enable_compilation_cache",
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
    "jax_persistent_cache_enable_xla_caches",
    "jax_raise_persistent_cache_errors",
)


@dataclass(frozen=True, slots=True)
class JaxSettings:
    """What a study determines of JAX's settings; `pinned` are those that its edition fixes."""

    precision: str
    matmul_precision: str
    pinned: Mapping[str, Any]

    def differs_by(self, other: JaxSettings) -> str:
        """What distinguishes these settings from others; empty if they are equal."""
        if self._in_use() != other._in_use():
            return "other settings"
        mine = self.precision, self.matmul_precision
        return "" if mine == (other.precision, other.matmul_precision) else "another precision"

    def _in_use(self) -> dict[str, Any]:
        """What is pinned, as far as this version of JAX has it, and the caller's other settings."""
        pinned = {name: value for name, value in self.pinned.items() if name in _callers_settings}
        return {**_callers_settings, **pinned}

    def values(self) -> dict[str, Any]:
        """All of JAX's settings, by name."""
        directory = cache_directory()
        matmul = self.matmul_precision
        return {
            **self.pinned,
            "jax_enable_x64": self.precision == "float64",
            "jax_default_matmul_precision": None if matmul == "default" else matmul,
            "jax_compilation_cache_dir": None if directory is None else str(directory),
            "jax_persistent_cache_min_compile_time_secs": 0,
            "jax_persistent_cache_min_entry_size_bytes": -1,
            "jax_persistent_cache_enable_xla_caches": "none",
            "jax_raise_persistent_cache_errors": False,
        }


_lock = threading.Lock()
# the number of studies that train in this process now, which share JAX's settings
_studies = 0
_current: JaxSettings | None = None
_callers_settings: dict[str, Any] = {}


def configure_jax(
    precision: str, matmul_precision: str = "default", edition: int = EDITION
) -> None:
    """Set up JAX for a study, before the first array of this process.

    Every program is cached, however quickly it was compiled; XLA's own caches stay off, since their
    paths would become part of the key. Settings that affect training are those of `jax_pins`.

    Raises:
        SetupError: another study trains in this process with other settings, or a context
        manager of the caller overrides a setting.
    """
    global _current
    wanted = JaxSettings(precision, matmul_precision, pins(edition))
    with _lock:
        if _studies > 1 and _current and (difference := _current.differs_by(wanted)):
            found = f"another study trains in this process, and needs {difference} of JAX"
            hint = "run them one after the other, or in separate processes"
            raise SetupError(Problem("execution", "", found, hint))
        _current = wanted
        _configure(wanted)


def configure_for(config: StudyConfig) -> None:
    """Set up JAX for this study, like `configure_jax`."""
    execution = config.execution
    configure_jax(execution.precision, execution.matmul_precision, config.edition)


def keep_configured() -> None:
    """Set JAX up again if user code has changed its settings since `configure_jax`."""
    with _lock:
        if _current is not None:
            _configure(_current)


def check_settings_unchanged() -> None:
    """Refuse user code that changes JAX's settings when it is called.

    Raises:
        SetupError: with the settings, which are restored.
    """
    with _lock:
        changed = [] if _current is None else [name for name, _ in _differing(_current.values())]
        if _current is not None and changed:
            _configure(_current)
    if changed:
        found = f"a function of your code sets {listed(changed)} when it is called"
        fix = "remove this; set the precision with execution.precision and matmul_precision"
        raise SetupError(Problem("JAX", "", found, fix))


def _configure(wanted: JaxSettings) -> None:
    """Change the JAX settings that differ."""
    settings = wanted.values()
    for name, value in _differing(settings):
        jax.config.update(name, value)
    if overridden := [name for name, _ in _differing(settings)]:
        found = f"a context manager around this call sets {listed(overridden)}"
        raise SetupError(Problem("JAX", "", found, "call sweeper outside of it"))
    use_cache(cache_directory())


def _differing(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    there = jax.config.values  # the available settings depend on the version of JAX
    return [(n, value) for n, value in settings.items() if there.get(n, value) != value]


@contextmanager
def jax_restored() -> Iterator[None]:
    """Restore JAX's setup at the end, since Python callers may compute with it too.

    If several studies run in threads, the last one does this.
    """
    global _studies, _current, _callers_settings
    with _lock:
        if not _studies:
            _callers_settings = _global_settings()
        _studies += 1
    try:
        yield
    finally:
        with _lock:
            _studies -= 1
            if not _studies:
                _current = None
                use_cache(None)
                for name, value in _callers_settings.items():
                    jax.config.update(name, value)


def _global_settings() -> dict[str, Any]:
    """JAX's settings without those of context managers, which a new thread does not have."""
    found: dict[str, Any] = {}
    reader = threading.Thread(target=lambda: found.update(jax.config.values))
    reader.start()
    reader.join()
    return {name: found[name] for name in _SETTINGS if name in found}


@contextmanager
def with_pins() -> Iterator[None]:
    """Use the settings of `jax_pins` in this block, whatever those of the caller are."""
    differing = _differing(pins(EDITION))
    before = _global_settings() if differing else {}
    for name, value in differing:
        jax.config.update(name, value)
    try:
        yield
    finally:
        for name, _ in differing:
            jax.config.update(name, before[name])
