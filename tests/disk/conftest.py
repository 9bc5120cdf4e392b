"""A small disk for a study, which can be filled while the study waits at an instant."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sweeper.faults import VARIABLE
from tests.crashes import Study
from tests.processes import start


@dataclass(frozen=True)
class Disk:
    """A separate tmpfs at `place`."""

    place: Path

    def mount(self, *options: str) -> None:
        """Mount it, or mount it again with other options."""
        chosen = ",".join(options)
        words = ["mount", "-t", "tmpfs", "-o", chosen, "tmpfs", str(self.place)]
        subprocess.run(words, check=True)

    @contextmanager
    def full(self) -> Iterator[None]:
        """Leave no free byte on it."""
        ballast = self.place / "ballast"
        with ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    continue
        yield
        ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of 16 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = Disk(place)
    made.mount("size=16m")
    yield made
    subprocess.run(["umount", str(place)], check=True)


@dataclass(frozen=True)
class Ended:
    """How a process ended, and its output."""

    code: int
    said: str


@dataclass(frozen=True)
class Program:
    """`python -m sweeper run` on a study of `tests.crashes`."""

    study: Study
    cache: Path

    @contextmanager
    def started(self, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """The program, ended with the block."""
        root, strategy = self.study.run_dir.root, self.study.strategy
        chosen = [f"results.dir={root}", f"execution.strategy={strategy}"]
        words = [word for setting in chosen for word in ("--set", setting)]
        arguments = ["run", "study.toml", *words]
        with start(self.study.directory, self.cache, arguments, environment=environment) as process:
            try:
                yield process
            finally:
                process.kill()

    def __call__(self, **environment: str) -> Ended:
        """Run it from its start to its end."""
        with self.started(**environment) as process:
            out, said = process.communicate(timeout=120)
        return Ended(process.returncode, out + said)

    def held(self, instant: str, disk: Disk, held: Path) -> Ended:
        """The same, with the disk full from `instant` on."""
        place, _, at = instant.partition("@")
        fault = f"{place}=hold:{held}" + (f"@{at}" if at else "")
        with self.started(**{VARIABLE: fault}) as process:
            while not held.exists():
                assert process.poll() is None, process.communicate()
                time.sleep(0.02)
            with disk.full():
                held.unlink()
                out, said = process.communicate(timeout=120)
        return Ended(process.returncode, out + said)
