"""Compares a machine of a cluster with this one, as far as a study needs them to match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.user_source import source_digests
from sweeper.errors import size_text
from sweeper.executors.devices import DRIVER, shares
from sweeper.executors.environment import FLAGS
from sweeper.process import DISTRIBUTION
from sweeper.rundir import RunDir

# packages that compute a trial there; those that propose and publish trials are only needed here
_LIBRARIES = (DISTRIBUTION, "jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "joblib")

Survey = Callable[[], dict[str, Any]]


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
            wanted = ("model name", "flags", "Features")
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


def differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The differences that prevent training there, each with its fix."""
    if here["python"] != there["python"]:
        yield (
            f"Python {there['python']}, here {here['python']}",
            "use the same Python version there",
        )
        return  # it was not asked for anything else
    install = "install the same version there"
    for library, version in here["versions"].items():
        found = there["versions"][library]
        if found != version:
            yield f"{library} {found or 'missing'}, here {version or 'missing'}", install
    if not (there["source"] == here["source"] or there["versions"][DISTRIBUTION] == ""):
        yield "the source files of sweeper differ", install
    for flag, value in there["flags"].items():
        if value and value != here["flags"][flag]:
            hint = f"start it without {flag}, or start this program with the same value"
            yield f"{flag} = {value!r}, here {here['flags'][flag] or None!r}", hint
    for path, digest in here["files"].items():
        if there["files"][path] != digest:
            found = there["files"][path]
            seen = f"({found})" if " " in found else "(different content)"
            hint = "put results.dir and the study's directory on a path that all machines share"
            yield f"the file {path} is not the same as here {seen}", hint


def memory_shortage(
    there: Mapping[str, Any], data_bytes: int, memory_fraction: float, workers: int
) -> Iterator[tuple[str, str]]:
    """Whether data does not fit into the share of each of `workers` workers there, with a fix.

    Each reads the data before it moves any of it to its device; whether programs fit is checked in
    the worker, once the device is open.
    """
    whole_bytes = there.get("memory_bytes")
    share_bytes = (
        None
        if whole_bytes is None
        else int(whole_bytes * shares(memory_fraction, 0, workers).worker)
    )
    if share_bytes is not None and data_bytes > share_bytes:
        whose = f"each of {workers} workers there" if workers > 1 else "a worker there"
        taken, share = size_text(data_bytes), size_text(share_bytes)
        yield (
            f"too little memory: the data takes {taken}, but {whose} has {share}",
            "start fewer workers there, drop columns or rows, or write a larger "
            "execution.memory_fraction",
        )


class Kinds:
    """The kinds of processors and GPUs seen so far."""

    def __init__(self, here: Mapping[str, Any]) -> None:
        self._processors = {here["processor"]}
        self._here = here["processor"]
        self._gpus: dict[str, str] = {}

    def new(self, host: str, there: Mapping[str, Any]) -> Iterator[str]:
        """Warnings that last digits may differ on a host, once per kind of processor or GPU.

        This machine does not train, so GPUs are compared with those of the first host that has any.
        """
        processor, gpus = there["processor"], there["gpu_models"]
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
