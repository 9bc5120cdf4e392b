"""The program as a user starts it, and a study small enough to run in every test."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.rundir import RunDir
from tests.forking import can_fork, forked
from tests.processes import environment_of, start

# One structure, so one compiled program; trials end after 2 to 4 rounds, never all at once.
STUDY = """\
version = 1

[study]
name = "wine"
metric = "val_loss"
direction = "minimize"
n_trials = 12
sampler = { name = "tpe", n_startup_trials = 4 }

[data]
source = "sklearn"
name = "wine"
split = { val = 0.2, test = 0.1 }

[model]
kind = "mlp"
depth = 1
width = 8

[optimizer]
name = "adamw"
lr = 1e-3

[train]
program = "supervised"
loss = "cross_entropy"
epochs = 4
batch_size = 32

[search]
optimizer.lr = { type = "float", low = 1e-4, high = 1e-1, log = true }
train.epochs = { type = "int", low = 2, high = 4 }

[schedule]
parallel = 4
round_epochs = 1

[execution]
strategy = "exact"
threads = 1
workers = 0
"""


@dataclass(frozen=True)
class CommandLine:
    """`python -m sweeper` in `directory`."""

    directory: Path
    cache: Path

    @property
    def run_dir(self) -> RunDir:
        """The run directory of `STUDY`."""
        return RunDir(self.directory / "runs" / "wine")

    def write(self, text: str = STUDY) -> None:
        """Write the study file `study.toml`."""
        (self.directory / "study.toml").write_text(text, encoding="utf-8")

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command from its start to its end."""
        environment = environment_of(self.cache)
        if can_fork(environment):
            return forked(arguments, self.directory, environment, timeout=120)
        with self.started(*arguments) as process:
            out, said = process.communicate(timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, out, said)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A running command, which ends with the block."""
        with start(self.directory, self.cache, arguments) as process:
            try:
                yield process
            finally:
                process.kill()

    def status(self) -> dict[str, Any]:
        """The answer of `status --json` about the results of `STUDY`."""
        shown = self("status", str(self.run_dir.root), "--json")
        assert (shown.returncode, shown.stderr) == (0, "")
        return json.loads(shown.stdout)


def settings(*assignments: str) -> list[str]:
    """The arguments that set other values: `study.seed=1`."""
    return [word for assignment in assignments for word in ("--set", assignment)]


def wait_for(words: str, process: subprocess.Popen[str]) -> None:
    """Read the output of a process up to a line with `words`."""
    assert process.stderr is not None
    assert any(words in line for line in process.stderr), f"ended without {words!r}"


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below `directory`, and every directory that is empty."""
    found = sorted(directory.rglob("*"))
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else b""
        for path in found
        if path.is_file() or not any(path.iterdir())
    }
