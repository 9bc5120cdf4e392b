"""Where the time of a program is spent: nothing counts twice and nothing is left out."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweeper
from sweeper.dashboard.study import PublishedStudy
from sweeper.ledger import Ledger
from sweeper.results.read import Results
from sweeper.results.status import read_status
from sweeper.results.timeline import DOING, IDLE, PROGRAM, Activity, Span, Timeline, shares
from tests.command_line import STUDY
from tests.in_process import study_in, trained
from tests.rows_of_time import check_rows

PLACES = (PROGRAM, "thread 0", "worker 1")
STEPS = st.lists(
    st.tuples(
        st.floats(0.0, 10.0),
        st.sampled_from(["begin", "end", "go on", "cut"]),
        st.sampled_from(PLACES),
        st.sampled_from(Activity),
    ),
    max_size=40,
)


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@given(STEPS)
def test_all_time_is_counted_and_no_row_overlaps(
    steps: list[tuple[float, str, str, Activity]],
) -> None:
    clock = Clock()
    timeline = Timeline(clock.now - 10.0, Activity.IMPORT, clock, clock)
    opened: dict[str, list[ExitStack]] = {place: [] for place in PLACES}
    spans: list[Span] = []
    for waited_s, step, place, activity in steps:
        clock.now += waited_s
        with timeline.at(place):
            if step == "begin":
                opened[place].append(ExitStack())
                opened[place][-1].enter_context(timeline.spending(activity))
            elif step == "end" and opened[place]:
                opened[place].pop().close()
            elif step == "go on" and not opened[place]:
                timeline.go_on_with(activity)
            elif step == "cut":
                spans += timeline.cut()
        told = timeline.spent_s()
        assert sum(told.values()) == pytest.approx(clock.now - timeline.started_at)
    spans += timeline.end()
    check_rows(spans)
    elapsed_s = clock.now - timeline.started_at
    assert timeline.elapsed_s == pytest.approx(elapsed_s)
    whole = shares(spans, timeline.started_at, clock.now)
    assert timeline.spent_s() == pytest.approx(whole, abs=1e-6)
    assert sum(whole.values()) == pytest.approx(elapsed_s)
    assert all(seconds >= 0 for seconds in whole.values())


def test_a_span_interrupts_the_one_around_it() -> None:
    clock = Clock()
    timeline = Timeline(clock.now, clock=clock)
    with timeline.at("thread 0"), timeline.spending(Activity.BUCKET, bucket_id=3):
        clock.now += 1.0
        with timeline.spending(Activity.COMPILE, class_id="c") as span:
            clock.now += 2.0
            span.activity = Activity.LOAD
        clock.now += 4.0
    assert timeline.cut() == (
        Span("thread 0", "bucket", 1000.0, 1001.0, 3),
        Span("thread 0", "load", 1001.0, 1003.0, None, "c"),
        Span("thread 0", "bucket", 1003.0, 1007.0, 3),
    )


def test_each_instant_counts_for_what_matters_most() -> None:
    spans = [
        Span(PROGRAM, "publish", 0.0, 4.0),
        Span("thread 0", "compile", 1.0, 3.0),
        Span("thread 1", "train", 2.0, 5.0),
        Span("thread 0", "train", 2.5, 3.5),
    ]
    found = {name: seconds for name, seconds in shares(spans, 0.0, 6.0).items() if seconds}
    assert found == {"publish": 1.0, "compile": 1.0, "train": 3.0, IDLE: 1.0}


def test_threads_record_at_their_own_places() -> None:
    timeline = Timeline()

    def work(place: str) -> None:
        with timeline.at(place), timeline.spending(Activity.TRAIN):
            barrier.wait()

    barrier = threading.Barrier(2)
    threads = [threading.Thread(target=work, args=(f"thread {n}",)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {span.place for span in timeline.cut()} == {"thread 0", "thread 1"}


def test_models_are_initialized_before_a_thread_trains() -> None:
    timeline = Timeline(first=Activity.PUBLISH)
    with timeline.at("thread 0"), timeline.spending(Activity.INITIALIZE):
        assert timeline.doing == "initializing models"
        with timeline.at("thread 1"), timeline.spending(Activity.TRAIN):
            assert timeline.doing == "publishing"
    assert timeline.doing == "publishing"


def test_a_clock_that_is_set_back_takes_no_time_away() -> None:
    clock, timer = Clock(), Clock(70.0)
    timeline = Timeline(clock.now, Activity.IMPORT, clock, timer)
    clock.now, timer.now = clock.now + 5.0, timer.now + 5.0
    timeline.cut()
    clock.now -= 3600.0
    assert sum(timeline.spent_s().values()) == 5.0
    assert timeline.cut() == ()
    for _ in range(2):
        clock.now, timer.now = clock.now + 2.0, timer.now + 2.0
        timeline.go_on_with(Activity.PUBLISH)
    assert timeline.cut() == (
        Span(PROGRAM, "import", 1005.0, 1007.0),
        Span(PROGRAM, "publish", 1007.0, 1009.0),
    )
    assert timeline.spent_s() | {"import": 7.0, "publish": 2.0} == timeline.spent_s()
    clock.now, timer.now = clock.now + 3601.0, timer.now + 1.0  # it is right again
    timeline.end()
    assert sum(timeline.spent_s().values()) == 10.0 == timeline.elapsed_s


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_elapsed_seconds_do_not_depend_on_the_time_of_day(jump_s: float) -> None:
    clock, timer = Clock(), Clock(70.0)
    timeline = Timeline(clock.now - 2.0, Activity.IMPORT, clock, timer)
    timer.now, clock.now = timer.now + 5.0, clock.now + jump_s
    timeline.cut()
    assert timeline.elapsed_s == 7.0
    timer.now += 1.0
    timeline.end()
    timer.now += 1.0
    timeline.cut()
    assert timeline.elapsed_s == 8.0


def test_every_activity_has_a_name() -> None:
    assert set(DOING) == {*Activity, IDLE}


def test_spans_are_in_the_order_of_sessions() -> None:
    ledger = Ledger.create(":memory:")
    for run_id in ("b", "a"):
        ledger.add_session({"run_id": run_id})
        ledger.end_session(run_id, (Span(PROGRAM, "publish", 1.0, 2.0),))
    assert [row["run_id"] for row in ledger.span_rows()] == ["b", "a"]
    assert ledger.span_rows()[0] == {
        "run_id": "b",
        "round": None,
        "place": PROGRAM,
        "activity": "publish",
        "started_at": 1.0,
        "finished_at": 2.0,
        "bucket_id": None,
        "class_id": None,
    }
    ledger.close()


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A study of one thread that was ended and resumed with more trials."""
    directory = tmp_path_factory.mktemp("resumed")
    short = ("study.n_trials=2", "search.train.epochs.high=2")
    sweeper.run(study_in(directory, STUDY, *short))
    return trained(study_in(directory, STUDY, *short, "study.n_trials=4"))


def spans_of(frame: pd.DataFrame) -> list[Span]:
    """The rows of spans.parquet as spans."""
    times = {name: frame[name].astype("int64") / 1e6 for name in ("started_at", "finished_at")}
    columns = [frame["place"], frame["activity"], *times.values()]
    return [Span(*row) for row in zip(*columns, strict=True)]


def test_a_study_accounts_for_all_its_time(resumed: Results) -> None:
    frame = resumed.spans()
    sessions = [spans_of(rows) for _, rows in frame.groupby("run_id", sort=False)]
    assert len(sessions) == 2
    for spans in sessions:
        check_rows(spans)
        assert {span.place for span in spans} == {PROGRAM, "thread 0"}
        doing = {span.activity for span in spans}
        assert {"open", "ask", "train", "initialize", "bucket", "commit", "publish"} <= doing
        assert doing & {"compile", "load"}
    status = read_status(resumed.run_dir)
    assert status.spent_s == pytest.approx(shares(sessions[1]), abs=1e-4)
    assert (frame["round"].dropna().diff().dropna() >= 0).all()


def test_training_lies_within_its_bucket(resumed: Results) -> None:
    frame = resumed.spans()
    key = ["round", "bucket_id"]
    spans = frame[frame["activity"] == "train"].set_index(key).sort_index()
    buckets = resumed.buckets().set_index(key).sort_index()
    assert [*spans.index] == [*buckets.index]
    assert [*spans["place"]] == [*buckets["place"]]
    assert (spans["started_at"].to_numpy() >= buckets["started_at"].to_numpy()).all()
    assert (spans["finished_at"].to_numpy() <= buckets["finished_at"].to_numpy()).all()


def test_the_page_shows_the_time_of_all_sessions(resumed: Results) -> None:
    buckets = PublishedStudy(resumed.run_dir).buckets
    assert buckets is not None
    recorded = buckets.recorded
    assert recorded is not None
    assert buckets.lanes == [PROGRAM, "thread 0 on cpu:0"]
    assert len(buckets.starts) == 1
    assert buckets.ran_s == pytest.approx(recorded.elapsed_s, abs=1e-3)
    assert sum(recorded.spent_s.values()) == pytest.approx(recorded.elapsed_s)
    for spent in recorded.by_place.values():
        assert sum(spent.values()) == pytest.approx(recorded.elapsed_s)
