"""Small studies of each program, crashed at any instant, and everything that is left of them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import sweeper
from sweeper.config import StudyConfig
from sweeper.faults import VARIABLE, Fault, Step, counting, plan_faults
from sweeper.rundir import RunDir
from tests.digest import deterministic_digest

HEAD = """\
version = 1
[study]
name = "small"
direction = "minimize"
n_trials = 5
seed = 2
sampler = { name = "tpe", n_startup_trials = 2 }
pruner = { name = "median", n_startup_trials = 1, n_warmup_steps = 3 }
"""
TAIL = """\
[schedule]
parallel = 3
round_epochs = 2
[results]
keep_models = 2
save_optimizer = true
[execution]
threads = 1
workers = 1
"""
SUPERVISED = """\
metric = "val_loss"
[data]
source = "sklearn"
name = "iris"
[model]
depth = 1
width = 4
[optimizer]
name = "adam"
[train]
loss = "cross_entropy"
epochs = 4
batch_size = 32
[search]
model.width = { type = "categorical", choices = [3, 4] }
optimizer.lr = { type = "float", low = 1e-3, high = 1e-1, log = true }
"""
ALTERNATING = """\
metric = "val_loss_data"
[data]
source = "sklearn"
name = "diabetes"
[model.a]
depth = 1
width = 4
out_size = 3
[model.b]
input = "a"
depth = 0
width = 1
[optimizer]
name = "adam"
[train]
program = "alternating"
epochs = 4
batch_size = 64
cycle = ["whole", "head"]
[train.losses.data]
of = "b"
against = "y"
kind = "mse"
[train.phases.whole]
trains = ["a", "b"]
loss = "data"
epochs = 1
[train.phases.head]
trains = ["b"]
loss = "data"
epochs = 1
[search]
model.a.width = { type = "categorical", choices = [3, 4] }
train.phases.whole.lr = { type = "float", low = 1e-3, high = 1e-1, log = true, name = "whole_lr" }
train.phases.head.lr = { type = "float", low = 1e-3, high = 1e-1, log = true, name = "head_lr" }
"""
COUPLED = """\
metric = "val_sliced_wasserstein"
[data]
source = "npz"
path = "points.npz"
x = "x"
[model.generator]
in_size = 2
depth = 1
width = 4
[model.critic]
depth = 1
width = 4
[optimizer]
name = "adam"
[train]
program = "coupled"
objective = "gan"
epochs = 4
batch_size = 32
[search]
model.critic.width = { type = "categorical", choices = [3, 4] }
optimizer.lr = { type = "float", low = 1e-3, high = 1e-1, log = true }
"""
PROGRAMS = {"supervised": SUPERVISED, "alternating": ALTERNATING, "coupled": COUPLED}
STRATEGIES = ("exact", "padded", "process")

# the instants of a worker if buckets train in workers; one that cannot start is another test
IN_WORKERS = frozenset(
    {
        Step.COMPILE,
        Step.TRAIN,
        Step.WRITE_CHECKPOINT,
        Step.SYNC_CHECKPOINT,
        Step.RETURN_OUTCOME,
    }
)


@dataclass(frozen=True)
class Study:
    """The small study of a `program`, in a separate directory."""

    directory: Path
    program: str
    strategy: str

    @property
    def config(self) -> StudyConfig:
        """The study, its file written."""
        self.directory.mkdir(exist_ok=True)
        if self.program == "coupled" and not (self.directory / "points.npz").exists():
            rows = np.random.default_rng(0).normal(size=(120, 2))
            np.savez(self.directory / "points.npz", x=rows)
        body = PROGRAMS[self.program]
        metric, _, rest = body.partition("\n")
        text = HEAD.replace("n_trials", f"{metric}\nn_trials") + rest + TAIL
        path = self.directory / "study.toml"
        path.write_text(text, encoding="utf-8")
        directory, strategy = f"results.dir={self.run_dir.root}", self.strategy
        return sweeper.load_study(path, [directory, f"execution.strategy={strategy}"])

    @property
    def run_dir(self) -> RunDir:
        """The run directory."""
        return RunDir(self.directory / "run")

    def run(self) -> None:
        """Run from the present state to the end."""
        assert sweeper.run(self.config).state == "finished"

    def crash(self, instant: str, at: int = 1) -> bool:
        """Run from the present state, and crash when this instant is passed for the `at`th time.

        Returns whether it crashed; otherwise it has run to its end.
        """
        fault = f"{instant}=raise@{at}"
        step = Step(instant.partition(":")[0])
        if self.strategy == "process" and step in IN_WORKERS:
            os.environ[VARIABLE] = fault
        else:
            plan_faults(fault)
        try:
            sweeper.run(self.config)
        except Fault:
            return True
        finally:
            plan_faults(None)
            os.environ.pop(VARIABLE, None)
        return False

    def instants(self) -> Counter[str]:
        """How often each instant is passed from here to the end, in this process."""
        with counting() as passed:
            self.run()
        return passed

    def left(self) -> dict[str, object]:
        """Everything that must be the same however the study crashed."""
        root = self.run_dir.root
        # workers have their data there, and a round that was left open twice uses workers
        staged = [name for name in _names(self.run_dir.staging) if name != self.run_dir.data.name]
        models = {path.name: _content(path) for path in self.run_dir.models.iterdir()}
        return {
            "digest": deterministic_digest(self.run_dir),
            "models": models,
            "staged": staged,
            "checkpoints": _names(self.run_dir.checkpoints),
            "files": sorted(path.name for path in root.iterdir()),
        }


def _content(path: Path) -> object:
    """The contents of a model file, whose header has no fixed order."""
    if path.suffix != ".safetensors":
        return path.read_bytes()
    raw = path.read_bytes()
    size = 8 + int.from_bytes(raw[:8], "little")
    return json.loads(raw[8:size]), raw[size:]


def _names(directory: Path) -> list[str]:
    files: Iterable[Path] = directory.rglob("*") if directory.exists() else ()
    return sorted(path.name for path in files if path.is_file())
