"""`kill -9` at random instants, of each program in a different strategy: no row changes."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sweeper.faults import VARIABLE
from sweeper.ledger import Ledger
from tests.crashes import Study
from tests.processes import finish, kill, start

COMBINATIONS = (("supervised", "padded"), ("alternating", "exact"), ("coupled", "process"))


# what a resumed study passes, one after the other, before it commits anything new
OF_A_RESUME = (
    "ledger.session:begin",
    "ledger.session:end",
    "restore:begin",
    "restore:end",
    "tidy:begin",
    "plan:begin",
    "ledger.open:begin",
    "ledger.open:end",
    "study.decide:begin",
    "ledger.close:begin",
)


def begin(study: Study, cache: Path, fault: str = "") -> subprocess.Popen[str]:
    """The study as a process, from its present state."""
    settings = f"results.dir={study.run_dir.root}", f"execution.strategy={study.strategy}"
    overrides = [word for setting in settings for word in ("--set", setting)]
    command = ["run", "study.toml", "--quiet", *overrides]
    environment = {VARIABLE: fault} if fault else {}
    # to be killed while it imports, too
    return start(study.directory, cache, command, environment=environment, forked=False)


def studies(directory: Path, program: str, strategy: str) -> Iterator[Study]:
    """One study after the other, each written."""
    for index in range(1_000_000):
        study = Study(directory / f"{index}", program, strategy)
        assert study.config.study.name
        yield study


def check_kills(directory: Path, cache: Path, program: str, strategy: str, kills: int) -> None:
    """Kill it `kills` times; a finished study is compared, and another one begun."""
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
@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("program", "strategy"), COMBINATIONS)
def test_rows_do_not_depend_on_many_kills_at_any_time(
    program: str, strategy: str, tmp_path: Path, compile_cache: Path
) -> None:
    check_kills(tmp_path, compile_cache, program, strategy, 67)


def commits(study: Study) -> int:
    """How many rounds are committed."""
    with closing(Ledger.open(study.run_dir.ledger)) as ledger:
        return ledger.n_closed_rounds()


@pytest.mark.slow
@pytest.mark.parametrize(("program", "strategy"), COMBINATIONS)
def test_rows_do_not_depend_on_ten_kills_in_a_row(
    program: str, strategy: str, tmp_path: Path, compile_cache: Path
) -> None:
    unbroken, study = itertools.islice(studies(tmp_path, program, strategy), 2)
    finish(begin(unbroken, compile_cache))
    for fault in ("ledger.close:end=kill", *(f"{instant}=kill" for instant in OF_A_RESUME)):
        process = begin(study, compile_cache, fault)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, fault
        assert commits(study) == 1
    finish(begin(study, compile_cache))
    assert study.left() == unbroken.left()
