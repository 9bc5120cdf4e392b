"""Only the trial that kills its process fails; the others end as without it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from sweeper.results.read import Results, open_results
from sweeper.trial import Reason
from tests.command_line import settings
from tests.deadly import DEADLY, write
from tests.processes import start

WORKERS = ("execution.threads=0", "execution.trial_timeout=40s")
ENDS = {
    "kill": (Reason.WORKER_DIED, "WorkerDiedError", "was killed by SIGKILL"),
    "exit": (Reason.WORKER_DIED, "WorkerDiedError", "ended with exit code 3"),
    "crash": (Reason.WORKER_DIED, "WorkerDiedError", "was killed by SIGSEGV"),
    "hang": (Reason.TIMEOUT, "TrialTimeoutError", "returned no result in"),
}


@dataclass(frozen=True)
class Deadly:
    """The study in a separate directory, with these settings."""

    directory: Path
    cache: Path
    given: tuple[str, ...]

    def run(self, deed: str, *more: str) -> tuple[int, str]:
        """The exit code and the standard error of a run in which the deadly trial does `deed`."""
        arguments = ["run", "study.toml", *settings(*self.given, *more)]
        with start(self.directory, self.cache, arguments, environment={"DEADLY": deed}) as process:
            _, said = process.communicate(timeout=600)
        return process.returncode, said

    @property
    def results(self) -> Results:
        return open_results(self.directory / "runs" / "deadly")


def deadly(directory: Path, cache: Path, *given: str) -> Deadly:
    write(directory)
    return Deadly(directory, cache, given)


def curves(results: Results) -> pd.DataFrame:
    """What was measured of every trial except the deadly one."""
    columns = ["trial_number", "epoch", "metric", "value"]
    rows = results.metrics()[columns]
    return rows[rows["trial_number"] != DEADLY].sort_values(columns[:3], ignore_index=True)


def check(study: Deadly, unbroken: Deadly, deed: str) -> None:
    """Whether only the deadly trial failed, because of its `deed`."""
    reason, error_type, how = ENDS[deed]
    rows = study.results.trials().set_index("trial_number")
    row = rows.loc[DEADLY]
    assert (row["state"], row["reason"], row["error_type"]) == ("FAIL", reason, error_type)
    assert how in row["error_message"]
    if deed in ("crash", "hang"):
        assert "own.py" in row["error_message"]
    assert row["place"].startswith("worker ")
    assert row["worker_pid"] > 0
    others = rows.drop(DEADLY)
    assert set(others["state"]) == {"COMPLETE"}
    own, same = curves(study.results), curves(unbroken.results)
    pd.testing.assert_frame_equal(own, same, check_exact=True)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> Deadly:
    study = deadly(tmp_path_factory.mktemp("unbroken"), compile_cache)
    assert study.run("nothing")[0] == 0
    return study


@pytest.mark.slow
def test_in_a_worker_only_the_deadly_trial_fails(
    unbroken: Deadly, tmp_path: Path, compile_cache: Path
) -> None:
    study = deadly(tmp_path, compile_cache, *WORKERS)
    code, said = study.run("exit")
    assert code == 0, said
    assert "ended with exit code 3 over trials 0, 1; retrying half" in said
    assert f"over trial {DEADLY}; it fails (worker_died); see its row and" in said
    check(study, unbroken, "exit")
    logs = (path.name for path in (tmp_path / "runs/deadly/logs").iterdir())
    assert sorted(logs) == ["sweeper.log", "worker-0.log"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("deed", ENDS)
def test_only_the_deadly_one_of_many_trials_fails(
    deed: str, tmp_path: Path, compile_cache: Path
) -> None:
    # if it hangs, each attempt takes the whole time limit
    n_trials = 2 if deed == "hang" else 64
    size = (f"study.n_trials={n_trials}", "execution.retries=1")
    for name in ("unbroken", "struck"):
        (tmp_path / name).mkdir()
    whole = deadly(tmp_path / "unbroken", compile_cache, *size)
    assert whole.run("nothing")[0] == 0
    struck = deadly(tmp_path / "struck", compile_cache, *size, "execution.threads=0")
    more = ("execution.trial_timeout=8s",) if deed == "hang" else ()
    code, said = struck.run(deed, *more)
    assert code == 0, said
    check(struck, whole, deed)
    assert len(struck.results.trials()) == n_trials
    later = struck.results.buckets().query("round > 1")
    assert set(later["outcome"]) == {"trained"}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("deed", ["crash", "kill", "exit"])
def test_in_a_thread_a_deadly_trial_ends_the_program_twice(
    deed: str, unbroken: Deadly, tmp_path: Path, compile_cache: Path
) -> None:
    study = deadly(tmp_path, compile_cache)
    codes = {"crash": -signal.SIGSEGV, "kill": -signal.SIGKILL, "exit": 3}
    for deaths in range(2):
        code, said = study.run(deed)
        assert code == codes[deed]
        assert (f"was interrupted {deaths} time" in said) == (deaths > 0)
    assert ("own.py" in said) == (deed == "crash")
    code, said = study.run(deed)
    assert code == 0
    assert "was interrupted 2 times because the program was killed or crashed" in said
    check(study, unbroken, deed)
