"""`kill -9` at random instants, of each program in another strategy: no row is lost or other."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crashes import Study
from tests.processes import finish, kill, start

COMBINATIONS = (("supervised", "padded"), ("alternating", "exact"), ("coupled", "process"))


def begin(study: Study, cache: Path) -> subprocess.Popen[str]:
    """The study as a process, from where it is."""
    settings = f"results.dir={study.run_dir.root}", f"execution.strategy={study.strategy}"
    overrides = [word for setting in settings for word in ("--set", setting)]
    return start(study.directory, cache, ["run", "study.toml", "--quiet", *overrides])


def studies(directory: Path, program: str, strategy: str) -> Iterator[Study]:
    """One study after the other, each written."""
    for index in range(1_000_000):
        study = Study(directory / f"{index}", program, strategy)
        assert study.config.study.name
        yield study


def check_kills(directory: Path, cache: Path, program: str, strategy: str, kills: int) -> None:
    """Kill it `kills` times; a study that ends is compared, and another one begun."""
    chance = random.Random(f"{program} {strategy}")
    every = studies(directory, program, strategy)
    unbroken, study = next(every), next(every)
    began = time.monotonic()
    finish(begin(unbroken, cache))
    expected, took_s = unbroken.left(), time.monotonic() - began
    while kills:
        process = begin(study, cache)
        try:
            process.wait(chance.uniform(0.2 * took_s, took_s))
        except subprocess.TimeoutExpired:
            assert kill(process) == []
            kills -= 1
            continue
        finish(process)
        assert study.left() == expected
        study = next(every)
    finish(begin(study, cache))
    assert study.left() == expected


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("program", "strategy"), COMBINATIONS)
def test_many_kills(program: str, strategy: str, tmp_path: Path, compile_cache: Path) -> None:
    check_kills(tmp_path, compile_cache, program, strategy, 67)
