"""Runs of the project and of its peers, each in a separate process, imports included."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench_peers.problem import Problem, Trial
from bench_peers.processes import FailedError, timed
from pyarrow import parquet

PEERS = Path(__file__).resolve().parent
NEEDS = {
    "torch_joblib": ("torch",),
    "optuna_torch": ("torch",),
    "ray_tune": ("torch", "ray"),
    "lightgbm_default": ("lightgbm",),
    "flaml_automl": ("flaml", "lightgbm", "xgboost"),
    "realmlp": ("torch", "pytabkit"),
    "tabm": ("torch", "pytabkit"),
}
STRATEGIES = {"cold": "auto", "warm": "auto"}  # of the project's runs; others are named like it
OURS = ("cold", "warm", "exact", "padded", "process")


@dataclass(frozen=True, slots=True)
class Ran:
    """Times and results of one run; `status` is that of the project's own study.

    `test` is the test score of the best trial, and `ended` when trials were complete, in seconds
    since the start, each with its validation score; of some peers they are not known.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int
    best: float
    mean: float
    trials: int
    status: Mapping[str, Any] = field(default_factory=dict)
    test: float | None = None
    ended: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class Space:
    """A search: the task of the peers, and additional settings of the project's study file."""

    title: str
    problem: Problem
    rounds: int = 1
    once: tuple[str, ...] = ()  # runs of the first round only, since they are long
    settings: tuple[str, ...] = ()

    def overrides(self) -> list[str]:
        """The settings that turn studies/digits.toml into this study."""
        ask = self.problem
        ends = [f"low={low}, high={high}" for low, high in (ask.depth, ask.width)]
        power = ", base=2" if ask.widths == "powers" else ""
        return [
            "study.sampler.name=random",
            "study.pruner={name='none'}",
            f"study.n_trials={ask.trials}",
            f"study.seed={ask.seed}",
            f"schedule.parallel={min(ask.trials, 512)}",
            # nothing is judged between rounds here, as in the peers
            f"schedule.round_epochs={ask.epochs}",
            f"train.epochs={ask.epochs}",
            f"train.batch_size={ask.batch_size}",
            f"search.model.depth={{type='int', {ends[0]}}}",
            f"search.model.width={{type='int', {ends[1]}{power}}}",
            *self.settings,
        ]


def is_installed(run: str) -> bool:
    """Whether the libraries of a run are installed."""
    return all(find_spec(name) is not None for name in NEEDS.get(run, ()))


def run_ours(
    run: str, space: Space, directory: Path, drawn: Path, limit_s: float | None = None
) -> Ran:
    """The project on `space`, in a new directory; the warm run uses the programs of the cold one.

    The trials of the cold run are written to `drawn`, for the peers.
    """
    root = directory / run
    strategy = STRATEGIES.get(run, run)
    settings = [*space.overrides(), f"execution.strategy={strategy}", f"results.dir={root}"]
    command = command_of(settings)
    cache = directory / f"cache-{'cold' if run == 'warm' else run}"
    began = time.time()
    took = timed(command, {"SWEEPER_CACHE_DIR": str(cache)}, limit_s)
    rows = parquet.read_table(root / "trials.parquet").sort_by("trial_number").to_pylist()
    complete = [row for row in rows if row["state"] == "COMPLETE"]
    values = [row["value"] for row in complete]
    if run == "cold":
        drawn.write_text(json.dumps([_trial(row) for row in rows]))
    mean = sum(values) / len(values)
    scores = max(values), mean, len(values)
    best = max(complete, key=lambda row: (row["value"], -row["trial_number"]))
    ended = [(row["finished_at"].timestamp() - began, row["value"]) for row in complete]
    test, status = best.get(f"test_{space.problem.score}"), json.loads(took.out)
    return Ran(took.wall_s, took.cpu_s, took.peak_bytes, *scores, status, test, ended)


def command_of(settings: Iterable[str]) -> list[str]:
    """The command that runs studies/digits.toml with these settings."""
    command = [sys.executable, "-m", "sweeper", "run", "studies/digits.toml", "--json"]
    return [*command, *(word for setting in settings for word in ("--set", setting))]


def run_peer(run: str, space: Space, drawn: Path, limit_s: float | None = None) -> Ran:
    """A peer on the trials in `drawn`, or on its own if the project has not drawn any.

    Raises:
        FailedError: it failed, had no result, or took longer than `limit_s`.
    """
    asked = asdict(space.problem) | {"drawn": str(drawn) if drawn.exists() else None}
    command = [sys.executable, str(PEERS / f"{run}.py"), json.dumps(asked)]
    began = time.time()
    took = timed(command, limit_s=limit_s)
    if not took.out.strip():
        raise FailedError("no result")
    found = json.loads(took.out.splitlines()[-1])
    extra_s = found.pop("extra_s", 0.0)
    found["ended"] = [(ended - began, score) for ended, score in found["ended"]]
    return Ran(took.wall_s - extra_s, took.cpu_s - extra_s, took.peak_bytes, **found)


def _trial(row: Mapping[str, Any]) -> Trial:
    """A row of trials.parquet, for the peers."""
    return Trial(
        *(row[f"params_{name}"] for name in ("depth", "width", "lr", "weight_decay")),
        row["class_id"] or "",
        row["padded_depth"] or 0,
        _run_width(row),
    )


def _run_width(row: Mapping[str, Any]) -> int:
    """The width at which its class ran a trial; 0 if that is its own."""
    several = [int(width) for width in (row["run_widths"] or "").split(",") if width]
    wide_enough = (width for width in several if row["params_width"] <= width)
    return next(wide_enough, row["padded_width"] or 0)
