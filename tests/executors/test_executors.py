"""All executors fulfil one contract, tested with real programs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import jax
import pytest

from sweeper.config import StudyConfig, parse
from sweeper.errors import SetupError
from sweeper.executors.bucket_executors import BucketExecutors, open_executors
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.jax_setup import configure_jax, jax_restored
from sweeper.executors.open_devices import own_fraction
from sweeper.faults import VARIABLE
from sweeper.results.events import BucketFinished, BucketStarted, Event
from sweeper.results.timeline import Timeline
from sweeper.rundir import RunDir
from sweeper.scheduler.classes import Bucket, Lane, ProgramClass
from sweeper.trial import Reason, TrialSpec
from tests.clusters import Cluster, cluster
from tests.in_process import prepared
from tests.round_machine import STUDY
from tests.rows_of_time import check_rows

SIDES = {
    "inline": ("execution.threads=2", "execution.workers=0"),
    "process": ("execution.threads=0", "execution.workers=2"),
    "dask": (),  # and ray: where their clusters are is known when these are started
}
# Ray takes its time to start, and its package is large
RAY = pytest.param("ray", marks=pytest.mark.slow)
# a worker on a cluster runs the same code as one on this machine
DASK = pytest.param("dask", marks=pytest.mark.slow)
FEW = pytest.mark.parametrize("side", ["inline", "process", DASK, RAY], indirect=True)
# places that can die, and are replaced
MORTAL = ["process", DASK, RAY]
Open = Callable[..., BucketExecutors]
# what a class passes to its executor about its trials
SETTINGS = '{"train.program":"supervised"}'


@pytest.fixture(scope="module", autouse=True)
def _jax_as_in_a_study() -> Iterator[None]:
    with jax_restored():
        configure_jax("float32")
        yield


@pytest.fixture(params=["inline", "process", DASK, RAY])
def side(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def dask() -> Iterator[Cluster]:
    with cluster("dask") as running:
        yield running


@pytest.fixture(scope="module")
def ray() -> Iterator[Cluster]:
    with cluster("ray") as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running


@pytest.fixture
def config(side: str, request: pytest.FixtureRequest) -> StudyConfig:
    small = ("train.epochs=2", "search.model.width.high=8", "search.model.depth.high=1")
    where = SIDES.get(side) or (request.getfixturevalue(side).setting,)
    return parse(STUDY, Path("study.toml"), [*small, *where])


@dataclass(frozen=True)
class Opened:
    """An executor, and what it reports."""

    executor: BucketExecutors
    events: list[Event]
    timeline: Timeline


@contextmanager
def opened_in(directory: Path, config: StudyConfig) -> Iterator[Opened]:
    run_dir, events, timeline = RunDir(directory), list[Event](), Timeline()
    run_dir.make()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
        data = prepared(config)
        with open_executors(config, data, run_dir, events.append, timeline=timeline) as executor:
            yield Opened(executor, events, timeline)


@pytest.fixture(scope="module")
def known() -> Iterator[tuple[ExitStack, dict[str, Opened]]]:
    """What tests on this machine share if they leave their executor whole: one for each side."""
    with ExitStack() as stack:
        yield stack, {}


@pytest.fixture
def opened(
    side: str,
    config: StudyConfig,
    known: tuple[ExitStack, dict[str, Opened]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Opened]:
    if not SIDES.get(side):  # its cluster ends before what is shared
        with opened_in(tmp_path_factory.mktemp(side), config) as own:
            yield own
        return
    stack, by_side = known
    if side not in by_side:
        directory = tmp_path_factory.mktemp(side)
        by_side[side] = stack.enter_context(opened_in(directory, config))
    found = by_side[side]
    found.events.clear()
    found.timeline.cut()
    yield found


@pytest.fixture
def mortal(config: StudyConfig, tmp_path: Path) -> Iterator[BucketExecutors]:
    """An executor of one test, which may damage it."""
    with opened_in(tmp_path, config) as opened:
        yield opened.executor


def work(
    bucket: int, *numbers: int, lr: float = 1e-3, side: Literal["inline", "process"] = "inline"
) -> Work:
    specs = tuple(TrialSpec(n, {"depth": 1, "width": 8, "lr": lr}, {}, 0) for n in numbers)
    lanes = tuple(Lane(n, 0, 2, "") for n in numbers)
    program = ProgramClass("contract", SETTINGS, "exact", "map", 4, "float32")
    return Work(1, Bucket(bucket, "contract", side, lanes), program, specs, {})


def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.01)


def by_bucket(outcomes: Iterator[Outcome]) -> dict[int, Outcome]:
    return {outcome.bucket.bucket: outcome for outcome in outcomes}


@FEW
def test_each_bucket_has_one_outcome_with_its_lanes(opened: Opened) -> None:
    events = opened.events
    works = [work(0, 0, 1, 2), work(1, 3), work(2, 4, 5)]

    outcomes = by_bucket(opened.executor.train(works))

    numbers = {n: tuple(lane.number for lane in o.lanes) for n, o in outcomes.items()}
    assert numbers == {0: (0, 1, 2), 1: (3,), 2: (4, 5)}
    assert all(lane.failure is None for o in outcomes.values() for lane in o.lanes)
    assert sum(isinstance(event, BucketStarted) for event in events) == 3
    assert sum(isinstance(event, BucketFinished) for event in events) == 3
    spans = [*opened.timeline.cut(), *(span for o in outcomes.values() for span in o.spans)]
    check_rows(spans)
    done = [(span.place, span.bucket_id) for span in spans if span.activity == "train"]
    assert sorted(done) == sorted((o.place.place, n) for n, o in outcomes.items())
    assert {span.place for span in spans} == {o.place.place for o in outcomes.values()}
    assert any(span.activity in ("compile", "load") for span in spans)


@FEW
def test_a_program_that_raises_fails_only_its_bucket(opened: Opened) -> None:
    bad = TrialSpec(7, {"depth": 1, "width": 8, "lr": 1e-3, "nonsense": 1}, {}, 0)
    broken = Work(1, work(0, 7).bucket, work(0, 7).program, (bad,), {})

    outcomes = by_bucket(opened.executor.train([broken, work(1, 1)]))

    failure = outcomes[0].lanes[0].failure
    assert failure is not None
    assert (failure.reason, failure.error_type) == (Reason.ERROR, "KeyError")
    assert "nonsense" in failure.error_message
    assert outcomes[1].lanes[0].failure is None


def test_threads_and_workers_give_the_same_bits(opened: Opened, tmp_path: Path) -> None:
    curve = next(opened.executor.train([work(0, 0, 1)])).lanes[1].curve.values
    golden = tmp_path.parent / "contract-curve"
    # the first executor writes what the others must equal
    if golden.exists():
        assert golden.read_bytes() == curve.tobytes()
    golden.write_bytes(curve.tobytes())


def test_a_place_reports_the_fraction_that_its_environment_carried(
    opened: Opened, side: str
) -> None:
    place = next(opened.executor.train([work(0, 0)])).place

    # what the first study of this process fixed; or 0.80 in equal parts to two workers
    expected = own_fraction() if side == "inline" else 0.40
    assert place.memory_fraction == pytest.approx(expected)
    assert (place.worker_pid == os.getpid()) == (side == "inline")


@pytest.mark.parametrize("side", MORTAL, indirect=True)
def test_a_killed_worker_is_replaced_and_its_bucket_repeated(
    mortal: BucketExecutors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = tmp_path / "held"
    monkeypatch.setenv(VARIABLE, f"train:begin=hold:{held}@2")
    victim = next(mortal.train([work(0, 0)])).place
    assert mortal.worker_executor is not None
    waiting = [mortal.worker_executor.submit(work(1, 1))]
    until(held.exists)
    monkeypatch.delenv(VARIABLE)
    waiting += [mortal.worker_executor.submit(work(n, n)) for n in range(2, 40)]
    os.kill(victim.worker_pid, signal.SIGKILL)
    outcomes = [future.result() for future in waiting]

    assert all(lane.failure is None for o in outcomes for lane in o.lanes)
    again = [o for o in outcomes if o.attempt == 2]
    assert [o.place.place for o in again] == [victim.place]
    assert again[0].lanes[0].attempts == 2
    assert again[0].place.worker_pid != victim.worker_pid


@pytest.mark.slow
@pytest.mark.parametrize("side", MORTAL, indirect=True)
@pytest.mark.parametrize(
    "instant",
    [
        *("compile:begin", "compile:end", "train:begin", "train:end"),
        *("checkpoint.write:begin", "checkpoint.write:end"),
        *("worker.return:begin", "worker.return:end"),
    ],
)
def test_a_worker_killed_at_any_instant_is_replaced(
    instant: str, mortal: BucketExecutors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"{instant}=kill@2")
    expected = next(mortal.train([work(0, 0)])).lanes[0]
    other = replace(work(1, 0), program=replace(work(1, 0).program, class_id="other"))
    lane = next(mortal.train([other])).lanes[0]
    assert lane.failure is None
    assert lane.attempts == 2
    assert lane.place.worker_pid != expected.place.worker_pid
    assert lane.curve.values.tobytes() == expected.curve.values.tobytes()


@pytest.mark.parametrize("side", ["process", DASK, RAY], indirect=True)
def test_workers_that_cannot_start_end_the_study_without_failed_trials(
    mortal: BucketExecutors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "worker.start:begin=raise:EIO")
    told = (
        r"(worker|dask|ray) .*: no worker has started in 3 tries; .*logs/worker-.\.log:(.|\n)*"
        "Input/output error"
    )
    with pytest.raises(SetupError, match=told):
        list(mortal.train([work(0, 0)]))
    monkeypatch.delenv(VARIABLE)
    assert next(mortal.train([work(0, 0)])).lanes[0].attempts == 1


@FEW
def test_one_program_is_compiled_for_all_buckets_of_a_class(opened: Opened, side: str) -> None:
    def of_new_class(work: Work) -> Work:
        program = replace(work.program, class_id="new")
        return replace(work, program=program, bucket=replace(work.bucket, class_id="new"))

    if side != "inline":
        works = [of_new_class(work(n, n)) for n in range(8)]
        outcomes = list(opened.executor.train(works))
        compiled = [o.place.worker_pid for o in outcomes if o.compile_s > 0]
        assert 0 < len(compiled) == len(set(compiled)) <= 2
        return
    names: list[str] = []

    def listen(event: str, _seconds: float, **kwargs: str) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(kwargs["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        list(opened.executor.train([of_new_class(work(n, n, n + 1)) for n in range(0, 12, 2)]))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert [name for name in names if "segment" in name] == ["jit(segment_new)"]
