"""One study, one digest: whatever trains it, however often it is killed, cold or warm cache."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from sweeper import open_results
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from tests.digest import deterministic_digest
from tests.processes import ROOT, finish, kill, start

STUDY = ROOT / "studies" / "digits.toml"
SMALL = (
    "study.sampler.n_startup_trials=3",
    "study.pruner.n_startup_trials=3",
    "study.pruner.n_warmup_steps=0",
    "schedule.parallel=5",
    "schedule.round_epochs=2",
    "train.epochs=8",
    "search.model.depth.high=2",
    "search.model.width.low=8",
    "search.model.width.high=16",
)
PLACES = {
    "one thread": ("execution.threads=1", "execution.workers=0"),
    "two threads": ("execution.threads=2", "execution.workers=0"),
    "two workers": ("execution.threads=0", "execution.workers=2"),
    "a thread and a worker": ("execution.threads=1", "execution.workers=1"),
}


CONDITIONAL = (
    "search.model.layer_norm={type='categorical',choices=[true,false],when={'model.depth'=2}}",
    "search.model.dropout={type='float',low=0.1,high=0.4,or=[0.0],when={'model.layer_norm'=true}}",
    "search.optimizer.eps={same_as='optimizer.lr'}",
)
EARLY = (
    "study.value=best",
    "train.early_stop={patience=2,min_delta=0.03}",
    "search.optimizer.lr.low=1e-3",
    "search.optimizer.lr.high=3e-2",
)
# What the default, TPE with median pruning, does not use. Every sampler with every pruner is
# crashed in `test_study_goals`; grid, replicates and folds are killed in `test_replicated_study`.
GOALS = {
    "several objectives, bounded, with nsgaii": (
        "study.metric=['val_accuracy','n_parameters']",
        "study.direction=['maximize','minimize']",
        "study.constraints=[{metric='val_loss',max=2.0}]",
        "study.enqueue=[{depth=2,lr=2e-3}]",
        "study.sampler={name='nsgaii',population_size=3}",
        "study.pruner={name='none'}",
        *CONDITIONAL,
    ),
    "conditional and ending early, with tpe and asha": (
        "study.pruner={name='asha',reduction_factor=2}",
        *CONDITIONAL,
        *EARLY,
    ),
    "cmaes and median": ("study.sampler={name='cmaes',popsize=4}",),
}
MORE_GOALS = {
    "qmc and hyperband": (
        "study.sampler={name='qmc',scramble=true}",
        "study.pruner={name='hyperband',reduction_factor=2}",
    ),
    "halving of the feasible, with tpe": (
        "study.pruner={name='halving',min_resource=2,reduction_factor=2}",
        "study.constraints=[{metric='n_parameters',max=1500}]",
    ),
    "halving until a trial in training is good enough": (
        "study.value=best",
        "study.stop={value=0.8}",
        "study.pruner={name='halving',min_resource=2}",
        "search.optimizer.lr.low=1e-3",
        "search.optimizer.lr.high=3e-2",
    ),
    "random and asha": (
        "study.sampler={name='random'}",
        "study.pruner={name='asha',reduction_factor=2}",
    ),
}


@dataclass(frozen=True)
class Study:
    """The golden study in a separate directory."""

    directory: Path
    cache: Path
    place: str
    n_trials: int = 10
    strategy: str = "exact"
    more: tuple[str, ...] = ()

    def start(self, forked: bool = True) -> subprocess.Popen[str]:
        """Start or resume it; unless it is `forked`, it imports everything itself."""
        size, directory = f"study.n_trials={self.n_trials}", f"results.dir={self.directory}/run"
        strategy = f"execution.strategy={self.strategy}"
        settings = (*SMALL, *PLACES[self.place], size, directory, strategy, *self.more)
        overrides = [word for setting in settings for word in ("--set", setting)]
        words = ["run", str(STUDY), "--quiet", *overrides]
        return start(self.directory, self.cache, words, forked=forked)

    def digest(self) -> str:
        """The digest of all its deterministic columns."""
        return deterministic_digest(RunDir(self.directory / "run"))

    def run_killed(self, kills: int) -> None:
        """Kill it `kills` times at random instants, then let it end.

        Every second kill happens while the program starts, the others up to two rounds after the
        round of the previous kill.
        """
        chance = random.Random(f"{self.place} {kills}")
        for index in range(kills):
            process = self.start(forked=index % 2 == 0)
            if index % 2 == 1:
                time.sleep(chance.uniform(0.1, 1.2))
            else:
                self._await_round(self._round() + chance.randint(1, 2), process)
                time.sleep(chance.uniform(0, 0.1))
            assert process.poll() is None, "the kill came too late to strike"
            assert kill(process) == []
        finish(self.start())

    def _round(self) -> int:
        """How many rounds are closed, according to `status`."""
        run_dir = RunDir(self.directory / "run")
        return read_status(run_dir).round if run_dir.status.exists() else 0

    def _await_round(self, number: int, process: subprocess.Popen[str]) -> None:
        while self._round() < number and process.poll() is None:
            time.sleep(0.005)


Golden = tuple[str, Path]


def run_golden(
    directories: pytest.TempPathFactory, n_trials: int, strategy: str, more: tuple[str, ...] = ()
) -> Golden:
    """The digest of an unbroken run in one place with a cold cache, and the cache it leaves."""
    warm = directories.mktemp("cache")
    place = "a thread and a worker" if strategy == "process" else "one thread"
    study = Study(directories.mktemp("golden"), warm, place, n_trials, strategy, more)
    finish(study.start())
    return study.digest(), warm


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Golden]:
    """The golden run of each strategy, made when it is first needed."""
    return cache(lambda strategy: run_golden(tmp_path_factory, 10, strategy))


@pytest.fixture(scope="module")
def long_golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return run_golden(tmp_path_factory, 60, "auto")


@pytest.mark.parametrize(
    ("strategy", "place"),
    [
        ("padded", "two threads"),
        pytest.param("padded", "two workers", marks=pytest.mark.slow),
        pytest.param("exact", "two threads", marks=pytest.mark.slow),
        pytest.param("exact", "two workers", marks=pytest.mark.slow),
        pytest.param("auto", "two threads", marks=pytest.mark.slow),
        pytest.param("process", "two workers", marks=pytest.mark.slow),
    ],
)
def test_rows_do_not_depend_on_where_trials_run(
    strategy: str, place: str, golden: Callable[[str], Golden], tmp_path: Path
) -> None:
    digest, warm = golden(strategy)
    study = Study(tmp_path, warm, place, strategy=strategy)
    finish(study.start())

    assert study.digest() == digest


@pytest.mark.parametrize(
    ("strategy", "place"),
    [
        ("padded", "two workers"),
        pytest.param("padded", "two threads", marks=pytest.mark.slow),
        pytest.param("exact", "two workers", marks=pytest.mark.slow),
        pytest.param("auto", "two threads", marks=pytest.mark.slow),
        pytest.param("process", "two workers", marks=pytest.mark.slow),
        pytest.param("exact", "one thread", marks=pytest.mark.slow),
    ],
)
def test_rows_do_not_depend_on_kills(
    strategy: str, place: str, golden: Callable[[str], Golden], tmp_path: Path
) -> None:
    """In a different place than the golden run, so that neither changes the other."""
    digest, warm = golden(strategy)
    study = Study(tmp_path, warm, place, strategy=strategy)
    study.run_killed(kills=2)

    assert study.digest() == digest


@pytest.mark.slow
@pytest.mark.parametrize(
    "goal",
    [*GOALS, *(pytest.param(goal, marks=pytest.mark.slow) for goal in MORE_GOALS)],
)
def test_samplers_get_the_same_results_after_kills(
    goal: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    more = {**GOALS, **MORE_GOALS}[goal]
    digest, warm = run_golden(tmp_path_factory, 10, "auto", more)
    study = Study(tmp_path, warm, "two threads", strategy="auto", more=more)
    study.run_killed(kills=1)

    assert study.digest() == digest
    trials = open_results(tmp_path / "run").trials()
    restored = (trials["reason"] == "early_stop") & (trials["best_epoch"] < trials["epochs_done"])
    assert restored.any() == ("ending early" in goal)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cache_is", ["cold", "warm"])
@pytest.mark.parametrize("place", ["one thread", "two threads", "two workers"])
def test_rows_do_not_depend_on_twenty_kills(
    place: str, cache_is: str, long_golden: Golden, tmp_path: Path
) -> None:
    digest, warm = long_golden
    kept = warm if cache_is == "warm" else tmp_path / "cache"
    study = Study(tmp_path, kept, place, 60, strategy="auto")
    study.run_killed(kills=20)

    assert study.digest() == digest
