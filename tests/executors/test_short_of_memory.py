"""A study that runs out of memory trains fewer lanes at a time, with the same curves.

It reports this, and a trial fails only if it does not fit alone. The limits apply to the memory
that the compiler predicts; a fault simulates lack of memory in training.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

import sweeper
from sweeper.errors import StudyError
from sweeper.faults import VARIABLE, Fault, plan_faults
from sweeper.results.events import Event, Warned
from sweeper.results.read import Results
from sweeper.rundir import RunDir
from tests.crashes import HEAD, SUPERVISED
from tests.digest import deterministic_digest
from tests.in_process import study_in
from tests.processes import ROOT
from tests.small_studies import bent

TEXT = bent(
    f'{HEAD}metric = "val_loss"\n{SUPERVISED.partition(chr(10))[2]}',
    "study.n_trials=7",
    "study.pruner={name='none'}",
    "model.width=16",
    "search={}",
    "search.optimizer.lr={type='float',low=1e-3,high=1e-2,log=true}",
    "schedule={parallel=7,round_epochs=2}",
    "execution={threads=1,workers=0,strategy='exact'}",
)
VMAP = "execution.lane_loop='vmap'"
PADDED = (
    "execution.strategy='padded'",
    "search.model.width={type='categorical',choices=[4,512]}",
    "study.n_trials=4",
    "study.enqueue=[{lr=1e-3,width=4},{lr=2e-3,width=512},{lr=3e-3,width=4},{lr=4e-3,width=4}]",
)
WIDE = (
    "model={depth=3,width=2048}",
    "study.n_trials=4",
    "train.epochs=1",
    "results.keep_models=0",
)
# 4 lanes of such a network take 1.5 GiB in addition to what the process uses before training
SHORT_OF = """
import resource, sys
import sweeper
from sweeper.results.events import BucketStarted

def tell(event):
    if isinstance(event, BucketStarted):
        pages = int(open("/proc/self/statm").read().split()[0])
        most = pages * resource.getpagesize() + 1600 * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

sweeper.run(sweeper.load_study(sys.argv[1], sys.argv[2:]), observer=tell)
"""


@dataclass(frozen=True)
class Ran:
    """A finished study, and its warnings."""

    results: Results
    warnings: list[str]

    @property
    def curves(self) -> list[list[object]]:
        """Every value of every epoch."""
        metrics = self.results.metrics().drop(columns="elapsed_s")
        keys = ["trial_number", "epoch", "metric"]
        return metrics.sort_values(keys).to_numpy().tolist()

    @property
    def capacities(self) -> list[tuple[int, int]]:
        """The round and the capacity of each bucket."""
        buckets = self.results.buckets()
        return [*zip(buckets["round"], buckets["capacity"], strict=True)]

    def needed(self) -> int:
        """The most that any of its programs needed."""
        return int(self.results.buckets()["memory_predicted_bytes"].max())

    def ended(self) -> list[tuple[object, ...]]:
        """State, reason, capacity and kind of error of each trial."""
        trials = self.results.trials()[["state", "reason", "capacity", "error_type"]]
        return [
            *trials.astype(object).where(trials.notna(), None).itertuples(index=False, name=None)
        ]


@pytest.fixture(autouse=True)
def _off() -> Iterator[None]:
    yield
    plan_faults(None)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ran]:
    """Runs the study with settings, each combination once."""
    ran: dict[tuple[str, ...], Ran] = {}

    def once(*settings: str) -> Ran:
        if settings not in ran:
            ran[settings] = started(tmp_path_factory.mktemp("study"), *settings)
        return ran[settings]

    return once


def started(directory: Path, *settings: str) -> Ran:
    """Run the study in `directory` from its present state to its end."""
    events: list[Event] = []
    config = study_in(directory, TEXT, *settings)
    sweeper.run(config, observer=events.append)
    told = [event.message for event in events if isinstance(event, Warned)]
    return Ran(sweeper.open_results(config.run_dir), told)


def below(needed: int) -> str:
    return f"execution.memory_limit='{needed - 1} B'"


@pytest.mark.slow
def test_a_limit_that_is_large_enough_changes_nothing(run: Callable[..., Ran]) -> None:
    free = run()
    limited = run(f"execution.memory_limit='{free.needed()} B'")
    assert limited.curves == free.curves
    assert limited.capacities == free.capacities == [(1, 4), (1, 4), (2, 4), (2, 4)]
    assert limited.warnings == []
    limits = (ran.results.buckets()["memory_limit_bytes"] for ran in (free, limited))
    assert [[*pd.unique(limit.dropna())] for limit in limits] == [[], [free.needed()]]


def test_a_class_that_does_not_fit_has_half_as_many_lanes(run: Callable[..., Ran]) -> None:
    free = run()
    limited = run(below(free.needed()))
    buckets = limited.results.buckets()
    assert limited.capacities == [(1, 2), (1, 2), (2, 2), (2, 2)]
    assert set(buckets["capacity_planned"]) == {4}
    assert set(buckets["outcome"]) == {"trained; 2 lanes at a time, because memory was short"}
    assert set(buckets["occupancy"]) == {1.0, 0.75}
    assert buckets["memory_predicted_bytes"].max() < free.needed()
    assert limited.ended() == [("COMPLETE", None, 2, None)] * 7
    assert limited.curves == free.curves
    class_id, size = buckets["class_id"][0], rf"{free.needed() / 1024:.3g} KiB"
    assert limited.warnings == [
        f"class {class_id}: its program of 4 lanes takes {size}, but execution.memory_limit is "
        f"{size}; it trains 2 lanes at a time"
    ]


def test_halving_lanes_side_by_side_changes_curves_only_by_rounding(
    run: Callable[..., Ran],
) -> None:
    free = run(VMAP)
    limited = run(VMAP, below(free.needed()))
    assert {capacity for _, capacity in free.capacities} == {8}
    assert {capacity for _, capacity in limited.capacities} == {4}
    values = (ran.results.trials()["value"].tolist() for ran in (free, limited))
    assert next(values) == pytest.approx(next(values), rel=1e-4)


def test_a_trial_that_does_not_fit_alone_fails_with_a_hint(run: Callable[..., Ran]) -> None:
    limited = run("execution.memory_limit='10 KiB'", "study.n_trials=2")
    assert limited.ended() == [("FAIL", "oom", 1, "ProgramTooLargeError")] * 2
    buckets, message = limited.results.buckets(), limited.results.trials()["error_message"][0]
    size = f"{buckets['memory_predicted_bytes'][0] / 1024:.3g} KiB"
    assert message == (
        f"its program of 1 lane takes {size}, but execution.memory_limit is 10 KiB; write a "
        "larger execution.memory_limit, or a smaller model or train.batch_size"
    )
    (shortage,) = [said for said in limited.warnings if "memory_limit" in said]
    assert shortage.endswith("; its 2 trials failed, because they do not fit alone")


def test_a_limit_below_the_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"execution\.memory_limit: '1 KiB', but .* take \d"):
        started(tmp_path, "execution.memory_limit='1 KiB'")


@pytest.mark.slow
def test_a_small_trial_of_a_padded_class_gets_a_program_of_its_size(
    run: Callable[..., Ran],
) -> None:
    exact = run(*PADDED, "execution.strategy='exact'")
    limited = run(*PADDED, "execution.memory_limit='60 KiB'")
    assert set(limited.results.trials()["strategy"]) == {"padded"}
    small, large = ("COMPLETE", None, 1, None), ("FAIL", "oom", 1, "ProgramTooLargeError")
    assert limited.ended() == [small, large, small, small]
    mine = [row for row in exact.curves if row[1] != 1]
    assert limited.curves == mine
    assert limited.warnings[0].endswith(
        "it trains 1 lane at a time, 4 trials in programs of their own, and 1 trial failed, "
        "because it does not fit alone"
    )


def test_a_ceiling_found_in_training_applies_to_later_rounds(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    plan_faults("train:begin=oom@1, train:begin=oom@4")
    struck = started(tmp_path)
    # attempts are 4 lanes, then 2 and 2; 4, in which memory ran out, then 2 and 1
    assert struck.capacities == [(1, 2), (1, 2), (2, 2), (2, 2)]
    assert struck.curves == run().curves
    assert "memory ran out: RESOURCE_EXHAUSTED: Out of memory" in struck.warnings[0]
    assert len(struck.warnings) == 1


def test_a_trial_that_runs_out_of_memory_alone_fails(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    plan_faults(",".join(f"train:begin=oom@{passing}" for passing in (1, 2, 3)))
    struck = started(tmp_path, "study.n_trials=3")
    assert struck.ended()[0] == ("FAIL", "oom", 1, "RuntimeError")
    assert struck.ended()[1:] == [("COMPLETE", None, 1, None)] * 2
    message = struck.results.trials()["error_message"][0]
    assert "write fewer execution.threads" in message and "Traceback" in message
    assert struck.curves == [row for row in run("study.n_trials=3").curves if row[1] != 0]


@pytest.mark.parametrize(
    "instant",
    [
        pytest.param("train:end", marks=pytest.mark.slow),
        "ledger.close:begin",
        pytest.param("ledger.commit:end@4", marks=pytest.mark.slow),
    ],
)
def test_a_study_short_of_memory_resumes_after_a_crash_with_the_same_rows(
    instant: str, run: Callable[..., Ran], tmp_path: Path
) -> None:
    settings = VMAP, below(run(VMAP).needed())
    unbroken = run(*settings)
    where, _, at = instant.partition("@")
    plan_faults(f"{where}=raise@{at or 1}")
    with pytest.raises(Fault):
        started(tmp_path, *settings)
    plan_faults(None)
    resumed = started(tmp_path, *settings)
    digests = (deterministic_digest(RunDir(r.results.run_dir.root)) for r in (resumed, unbroken))
    assert next(digests) == next(digests)
    assert resumed.capacities == unbroken.capacities


def test_a_resumed_study_does_not_try_the_larger_program_again(tmp_path: Path) -> None:
    plan_faults("train:begin=oom@1, ledger.open:begin=raise@2")
    with pytest.raises(Fault):
        started(tmp_path)
    plan_faults(None)
    resumed = started(tmp_path)
    assert resumed.capacities == [(1, 2), (1, 4), (2, 2), (2, 2)]
    assert resumed.warnings == []


def test_a_worker_reports_to_its_parent_what_fits(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "train:begin=oom@1")
    struck = started(tmp_path, "execution.threads=0", "execution.workers=1")
    assert struck.capacities == [(1, 2), (1, 4), (2, 2), (2, 2)]
    assert struck.curves == run().curves
    assert len(struck.warnings) == 1


@pytest.mark.slow
def test_real_lack_of_memory_halves_the_lanes(tmp_path: Path) -> None:
    config = study_in(tmp_path, TEXT, VMAP, *WIDE)
    settings = f"results.dir={config.run_dir}", VMAP, *WIDE
    command = [sys.executable, "-c", SHORT_OF, str(tmp_path / "study.toml"), *settings]
    subprocess.run(command, check=True, cwd=ROOT)
    struck = Ran(sweeper.open_results(config.run_dir), [])
    assert struck.capacities == [(1, 2)]
    assert struck.ended() == [("COMPLETE", None, 2, None)] * 4
