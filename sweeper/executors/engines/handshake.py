"""Compares a machine of a cluster with this one, as far as a study needs them to match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.user_source import source_digests
from sweeper.errors import Problem, size_text
from sweeper.executors.devices import DRIVER, shares
from sweeper.executors.environment import FLAGS
from sweeper.process import DISTRIBUTION
from sweeper.rundir import RunDir

# packages that compute a trial there; those that propose and publish trials are only needed here
_LIBRARIES = (DISTRIBUTION, "jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "joblib")

Survey = Callable[[], dict[str, Any]]
"""Returns the fields of a `MachineReport`."""


@dataclass(frozen=True, slots=True)
class MachineReport:
    """A machine, as far as it matters to a study; with another Python version only `python`.

    `versions` are those of libraries, empty for a missing one. `source` is a digest of the source
    files of sweeper, and `files` has one for each file that must be the same, or why it cannot be
    read. `flags` are environment variables that change results. `gpus` are those that the worker
    sees, and `gpu_models` the models of all.
    """

    python: str
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    source: str = ""
    flags: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    processor: str = ""
    gpus: str = ""
    gpu_models: str = ""
    memory_bytes: int | None = None


def make_survey(config: StudyConfig, run_dir: RunDir, driver: Path = DRIVER) -> Survey:
    """A function that describes the machine where it is called, as far as it matters to a study.

    It is a closure that only uses the standard library, so that engines can send it to machines
    where sweeper is missing or has another version.
    """
    libraries, flags, files = _LIBRARIES, FLAGS, [str(path) for path in _files(config, run_dir)]
    gpus = str(driver)

    def survey() -> dict[str, Any]:
        import hashlib
        import os
        import platform
        from importlib.metadata import PackageNotFoundError, version
        from importlib.util import find_spec
        from pathlib import Path

        def version_of(library: str) -> str:
            try:
                return version(library)
            except PackageNotFoundError:
                return ""

        def digest_of(path: Path) -> str:
            try:
                return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
            except OSError as error:
                return f"{error.strerror}"

        def source_of_sweeper() -> str:
            spec = find_spec("sweeper")
            if spec is None or spec.origin is None:
                return ""
            root = Path(spec.origin).parent
            sources = sorted(root.rglob("*.py"))
            lines = [f"{path.relative_to(root)} {digest_of(path)}" for path in sources]
            return hashlib.blake2b("\n".join(lines).encode(), digest_size=4).hexdigest()

        def processor() -> str:
            try:
                said = Path("/proc/cpuinfo").read_text(encoding="utf-8")
            except OSError:
                return platform.processor() or platform.machine()
            wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
            kept = {line for line in said.splitlines() if line.startswith(wanted)}
            digest = hashlib.blake2b("\n".join(sorted(kept)).encode(), digest_size=4).hexdigest()
            names = {line.partition(":")[2].strip() for line in kept if line.startswith("model")}
            return " ".join([*sorted(names), f"({digest})"])

        def gpu_models() -> str:
            try:
                texts = [one.read_text("utf-8") for one in Path(gpus).glob("*/information")]
            except OSError:
                return ""
            lines = [line for text in texts for line in text.splitlines()]
            models = {line.partition(":")[2].strip() for line in lines if line.startswith("Model")}
            return ", ".join(sorted(models))

        def memory_bytes() -> int | None:
            try:
                from sweeper.process import physical_bytes
            except ImportError:  # missing or another version, which is refused
                return None
            return physical_bytes()

        return {
            "python": ".".join(platform.python_version_tuple()[:2]),
            "versions": {library: version_of(library) for library in libraries},
            "source": source_of_sweeper(),
            "flags": {flag: os.environ.get(flag, "") for flag in flags},
            "files": {path: digest_of(Path(path)) for path in files},
            "processor": processor(),
            "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            "gpu_models": gpu_models(),
            "memory_bytes": memory_bytes(),
        }

    return survey


def differences(worker: str, here: MachineReport, there: MachineReport) -> Iterator[Problem]:
    """The differences that prevent training in a worker, which is on the machine `there`."""
    if here.python != there.python:
        found = f"it has Python {there.python}, here {here.python}"
        yield Problem(worker, "", found, "use the same Python version there")
        return  # it was not asked for anything else
    install = "install the same version there"
    for library, version in here.versions.items():
        installed = there.versions[library]
        if installed != version:
            found = f"it has {library} {installed or 'missing'}, here {version or 'missing'}"
            yield Problem(worker, "", found, install)
    if not (there.source == here.source or there.versions[DISTRIBUTION] == ""):
        yield Problem(worker, "", "its source files of sweeper differ", install)
    for flag, value in there.flags.items():
        if value and value != here.flags[flag]:
            found = f"it has {flag} = {value!r}, here {here.flags[flag] or None!r}"
            hint = f"start it without {flag}, or start this program with the same value"
            yield Problem(worker, "", found, hint)
    for path, digest in here.files.items():
        if there.files[path] != digest:
            other = there.files[path]
            seen = f"({other})" if " " in other else "(different content)"
            found = f"its file {path} is not the same as here {seen}"
            hint = "put results.dir and the study's directory on a path that all machines share"
            yield Problem(worker, "", found, hint)


def memory_shortage(
    worker: str, there: MachineReport, data_bytes: int, memory_fraction: float, n_workers: int
) -> Iterator[Problem]:
    """Whether data does not fit into the share of each of `n_workers` workers `there`.

    Each reads the data before it moves any of it to its device; whether programs fit is checked in
    the worker, once the device is open.
    """
    if there.memory_bytes is None:
        return
    share_bytes, most_bytes = (
        int(there.memory_bytes * shares(fraction, 0, n_workers).worker)
        for fraction in (memory_fraction, 1.0)
    )
    if data_bytes > share_bytes:
        whose = f"each of {n_workers} workers there" if n_workers > 1 else "a worker there"
        taken, share = size_text(data_bytes), size_text(share_bytes)
        found = f"it has too little memory: the data takes {taken}, but {whose} has {share}"
        fewer = "start fewer workers there"
        hint = f"{fewer}, or drop columns or rows"
        if data_bytes <= most_bytes:
            hint = f"{fewer}, drop columns or rows, or write a larger execution.memory_fraction"
        yield Problem(worker, "", found, hint)


class Kinds:
    """The kinds of processors and GPUs seen so far."""

    def __init__(self, here: MachineReport) -> None:
        self._processors = {here.processor}
        self._here = here.processor
        self._gpus: dict[str, str] = {}

    def new(self, host: str, there: MachineReport) -> Iterator[str]:
        """Warnings that last digits may differ on a host, once per kind of processor or GPU.

        This machine does not train, so GPUs are compared with those of the first host that has any.
        """
        processor, gpus = there.processor, there.gpu_models
        if processor not in self._processors:
            self._processors.add(processor)
            than = f"this machine ({self._here})"
            yield _other(host, f"a different processor ({processor})", than, "here")
        if gpus and gpus not in self._gpus:
            self._gpus[gpus] = host
            first, where = next(iter(self._gpus.items()))
            if gpus != first:
                yield _other(host, f"different GPUs ({gpus})", f"{where} ({first})", f"on {where}")


def _other(host: str, has: str, than: str, where: str) -> str:
    differ = f"the last digits of values computed there may differ from those computed {where}"
    return f"{host} has {has} than {than}: {differ}"


def _files(config: StudyConfig, run_dir: RunDir) -> Sequence[Any]:
    """Files that must be the same on all machines: of the run directory, and of user code."""
    own = {
        config.base_dir / name
        for function in config.functions
        for name in source_digests(function, config.base_dir)
    }
    return [run_dir.shared_marker, *sorted(path for path in own if path.is_file())]
