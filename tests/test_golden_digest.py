"""One study, one digest: whatever trains it, however often it is killed, cold cache or warm."""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from sweeper.results.digest import deterministic_digest
from sweeper.rundir import RunDir
from tests.processes import ROOT, finish, kill, start

STUDY = ROOT / "studies" / "digits.toml"
SMALL = (
    "study.sampler.n_startup_trials=3",
    "study.pruner.n_startup_trials=3",
    "study.pruner.n_warmup_steps=0",
    "schedule.parallel=5",
    "schedule.round_epochs=2",
    "train.epochs=8",
    "execution.strategy=exact",
    "search.model.depth.high=2",
    "search.model.width.low=8",
    "search.model.width.high=16",
)
PLACES = {
    "one thread": ("execution.threads=1", "execution.workers=0"),
    "two threads": ("execution.threads=2", "execution.workers=0"),
    "two workers": ("execution.threads=0", "execution.workers=2"),
}


@dataclass(frozen=True)
class Study:
    """The golden study in a directory of its own."""

    directory: Path
    cache: Path
    place: str
    n_trials: int = 10

    def start(self) -> subprocess.Popen[str]:
        """Run it, or go on with it."""
        size, directory = f"study.n_trials={self.n_trials}", f"results.dir={self.directory}/run"
        settings = (*SMALL, *PLACES[self.place], size, directory)
        overrides = [word for setting in settings for word in ("--set", setting)]
        return start(self.directory, self.cache, ["run", str(STUDY), "--quiet", *overrides])

    def digest(self) -> str:
        """The digest of all its deterministic columns."""
        return deterministic_digest(RunDir(self.directory / "run"))

    def run_killed(self, kills: int, longest_s: float) -> int:
        """Kill it `kills` times at random instants, then let it end; how many kills struck."""
        instants = random.Random(f"{self.place} {kills}")
        struck = 0
        for _ in range(kills):
            process = self.start()
            try:
                process.wait(instants.uniform(0.5, longest_s))
            except subprocess.TimeoutExpired:
                assert kill(process) == []
                struck += 1
            else:
                process.communicate()
        finish(self.start())
        return struck


Golden = tuple[str, Path]


def run_golden(directories: pytest.TempPathFactory, n_trials: int) -> Golden:
    """The digest of an unbroken run in one thread with a cold cache, and the cache it leaves."""
    cache = directories.mktemp("cache")
    study = Study(directories.mktemp("golden"), cache, "one thread", n_trials)
    finish(study.start())
    return study.digest(), cache


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return run_golden(tmp_path_factory, 10)


@pytest.fixture(scope="module")
def long_golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return run_golden(tmp_path_factory, 60)


@pytest.mark.parametrize("place", ["two threads", "two workers"])
def test_no_place_changes_a_row(place: str, golden: Golden, tmp_path: Path) -> None:
    digest, cache = golden
    study = Study(tmp_path, cache, place)
    finish(study.start())

    assert study.digest() == digest


@pytest.mark.parametrize("place", PLACES)
def test_no_kill_changes_a_row(place: str, golden: Golden, tmp_path: Path) -> None:
    digest, cache = golden
    study = Study(tmp_path, cache, place)
    assert study.run_killed(kills=3, longest_s=6) > 0
    assert study.digest() == digest


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cache_is", ["cold", "warm"])
@pytest.mark.parametrize("place", PLACES)
def test_no_twenty_kills_change_a_row(
    place: str, cache_is: str, long_golden: Golden, tmp_path: Path
) -> None:
    digest, warm = long_golden
    study = Study(tmp_path, warm if cache_is == "warm" else tmp_path / "cache", place, 60)
    assert study.run_killed(kills=20, longest_s=8) == 20

    assert study.digest() == digest
