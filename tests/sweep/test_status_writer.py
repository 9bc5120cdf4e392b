"""While programs are compiled, the status of the study says how many are done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import sweeper
from sweeper.results import formatting
from sweeper.results.events import (
    BucketFinished,
    BucketStarted,
    CompileFinished,
    CompilePlanned,
    Compiling,
    Event,
    RoundClosed,
    RoundStarted,
)
from sweeper.results.progress import Progress
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.sweep.status_writer import StatusWriter
from tests.command_line import STUDY
from tests.in_process import study_in
from tests.live_status import STATUS

PLANNED = CompilePlanned("c", "exact")
DONE = CompileFinished("c", "exact", "thread 0")
STARTED = BucketStarted(1, "c", "exact", "thread 0", (4, 5), 1)


def test_programs_are_counted_from_the_time_when_none_was_left() -> None:
    counts = Compiling()
    seen: list[tuple[int, int, float]] = []
    for now, event in enumerate((PLANNED, PLANNED, DONE, PLANNED, DONE, DONE, PLANNED)):
        counts = counts.after(event, float(now))
        seen.append((counts.done, counts.planned, counts.since))
    assert seen == [(0, 1, 0), (0, 2, 0), (1, 2, 0), (1, 3, 0), (2, 3, 0), (3, 3, 0), (0, 1, 6)]
    assert formatting.compiling(replace(counts, planned=16, done=3), 18.0) == (
        "3 of 16 programs done, 0:12"
    )


def test_the_status_follows_the_programs_that_are_compiled(tmp_path: Path) -> None:
    events: list[Event] = []
    writer, run_dir = StatusWriter(RunDir(tmp_path), events.append), RunDir(tmp_path)
    for event in (STARTED, PLANNED, PLANNED):
        writer(event)
    writer.update()  # before the first status
    assert not run_dir.status.exists()
    writer.write(replace(STATUS, diverged=0))
    assert formatting.compiling_now(read_status(run_dir)).startswith("0 of 2 programs done, 0:0")
    writer(DONE)
    assert formatting.compiling_now(read_status(run_dir)).startswith("1 of 2 programs done, 0:0")
    writer(DONE)
    left = read_status(run_dir)
    assert (left.compiling, formatting.compiling_now(left)) == (None, "")
    assert replace(left, updated_at=STATUS.updated_at, diverged=None) == STATUS
    assert events == [STARTED, PLANNED, PLANNED, DONE, DONE]

    for event in (PLANNED, PLANNED):
        writer(event)
    writer.write(replace(STATUS, state="finished", diverged=0))
    written = run_dir.status.read_bytes()
    writer(DONE)
    assert run_dir.status.read_bytes() == written
    assert formatting.compiling_now(read_status(run_dir)) == ""


def test_the_status_says_where_each_bucket_has_started(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    writer = StatusWriter(run_dir, lambda event: None)
    writer.write(replace(STATUS, running=[{"bucket": 0}, {"bucket": 1}, {"bucket": 2}]))
    writer(RoundStarted(1, 6))
    seen: list[list[str | None]] = []
    for bucket, place in enumerate(("thread 0", "ray 1a2b/0")):
        writer(BucketStarted(bucket, "c", "exact", place, (bucket,), 1))
        seen.append([one["place"] for one in read_status(run_dir).running])
    assert seen == [["thread 0", None, None], ["thread 0", "ray 1a2b/0", None]]
    writer(BucketStarted(2, "c", "exact", "thread 0", (2,), 1))  # the one before it was short
    assert [one["place"] for one in read_status(run_dir).running][2] is None
    writer(RoundClosed(STATUS))
    writer.write(replace(STATUS, running=[{"bucket": 0}]))
    assert read_status(run_dir).running == [{"bucket": 0, "place": None}]


def test_long_buckets_of_a_place_are_written_whatever_the_time_of_day_is(tmp_path: Path) -> None:
    run_dir, now = RunDir(tmp_path), [0.0]
    writer = StatusWriter(run_dir, lambda event: None, timer=lambda: now[0])
    in_the_future = replace(STATUS, updated_at=1e12)
    writer.write(replace(in_the_future, running=[{"bucket": 0}, {"bucket": 1}]))
    writer(RoundStarted(1, 6))
    seen: list[list[str | None]] = []
    for bucket in (0, 1):
        writer(BucketStarted(bucket, "c", "exact", "thread 0", (bucket,), 1))
        seen.append([one["place"] for one in read_status(run_dir).running])
        now[0] += 60.0
    assert seen == [["thread 0", None], ["thread 0", "thread 0"]]
    writer(BucketFinished(0, "thread 0", 0.0, True, 1.0, (0,)))
    assert read_status(run_dir).updated_at < 1e12


def test_a_study_trains_in_workers_if_any_place_is_not_a_thread() -> None:
    doing: list[str] = []
    for place in ("thread 1", "worker 0", "dask 0", "ray 1a2b/0"):
        progress = Progress().after(RoundStarted(1, 6), 0.0)
        started = BucketStarted(0, "c", "exact", place, (0,), 1)
        doing.append(progress.after(started, 1.0).activity("training"))
    assert doing == ["training", *["compiling and training in workers"] * 3]


def test_a_status_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path / "run")
    run_dir.root.mkdir()
    writer = StatusWriter(run_dir, lambda event: None)
    writer(PLANNED)
    writer.write(STATUS)
    run_dir.root.rename(tmp_path / "gone")
    writer(DONE)
    assert not run_dir.root.exists()


def test_nothing_is_compiled_if_all_trials_have_ended(tmp_path: Path) -> None:
    width = "search.model.width={type='int', low=4, high=16, base=2}"
    config = study_in(tmp_path, STUDY, width, "execution.strategy='padded'")
    events: list[Event] = []
    assert sweeper.run(config, observer=events.append).state == "finished"
    assert any(isinstance(event, CompilePlanned) for event in events)

    events.clear()
    status = sweeper.run(config, observer=events.append)
    assert status.state == "finished"
    assert not any(isinstance(event, CompilePlanned | CompileFinished) for event in events)
    assert status.spent_s.get("compile", 0.0) == 0.0
