"""Where the time of a study went."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sweeper.dashboard.buckets import Buckets, Spans
from sweeper.dashboard.files import tones
from sweeper.dashboard.packing import as_json
from sweeper.dashboard.views.execution import execution_view
from sweeper.dashboard.views.summary import busy, by_rounds, findings, round_names, totals
from sweeper.results.timeline import PROGRAM, Activity, Span
from tests.dashboard.small_tables import buckets_of, spans_of

TWO_THREADS = [
    {"started_at": 100.0, "train_s": 3.0, "finished_at": 103.0},
    {"started_at": 100.0, "train_s": 1.0, "finished_at": 101.0, "place": "thread 1"},
    {"started_at": 103.0, "train_s": 1.0, "finished_at": 104.0, "round": 2},
]

# the second thread compiles ahead of the bucket that the first one trains
FIRST = (
    Span(PROGRAM, "import", 90.0, 96.0),
    Span(PROGRAM, "open", 96.0, 98.0),
    Span("thread 1", "compile", 95.0, 100.0, None, "c"),
    Span(PROGRAM, "ask", 98.0, 99.0),
    Span("thread 0", "bucket", 100.0, 100.5, 0),
    Span("thread 0", "train", 100.5, 102.5, 0),
    Span("thread 0", "bucket", 102.5, 103.0, 0),
    Span(PROGRAM, "commit", 103.0, 104.0),
)
AGAIN = tuple(
    span._replace(started_at=span.started_at + 1000.0, finished_at=span.finished_at + 1000.0)
    for span in FIRST
    if span.activity != "compile"
)
COMPILED = {"started_at": 100.0, "finished_at": 103.0, "train_s": 2.0, "compile_s": 5.0}
RESUMED = (COMPILED, {"started_at": 1100.0, "finished_at": 1103.0, "train_s": 2.0, "round": 2})


def lanes_of(buckets: Buckets) -> tuple[list[str], list[float]]:
    """The lanes of the chart, and the lane of each bucket."""
    packed: Any = buckets.packed(np.arange(len(buckets)))["lane"]
    return buckets.lanes, [packed["all"]] * len(buckets) if "all" in packed else [*packed]


def test_a_place_that_joins_later_does_not_move_the_others() -> None:
    def row(number: int, place: str) -> dict[str, Any]:
        return {"round": number, "place": place, "device": None}

    def recorded(*places: str) -> Spans:
        return spans_of([[Span(place, "bucket", 1.0, 2.0, 0)] for place in (PROGRAM, *places)])

    first = [row(2, "dask b"), row(2, "dask c")]
    more = [*first, row(3, "dask a"), row(3, "dask c")]
    assert lanes_of(buckets_of(first)) == (["dask b", "dask c"], [0, 1])
    assert lanes_of(buckets_of(more)) == (["dask b", "dask c", "dask a"], [0, 1, 2, 1])
    places, lanes = lanes_of(buckets_of(first, recorded("dask b", "dask c")))
    assert (places, lanes) == ([PROGRAM, "dask b", "dask c"], [1, 2])
    with_spans = buckets_of(more, recorded("dask b", "dask c", "dask a"))
    assert lanes_of(with_spans) == ([*places, "dask a"], [1, 2, 3, 2])
    drawn: Any = with_spans.packed_spans(np.arange(4))
    assert drawn["lane"] == [0, 1, 2, 3]


def test_training_ends_when_its_bucket_does() -> None:
    given = {"started_at": 100.0, "finished_at": 108.0, "compile_s": 5.0, "train_s": 2.0}
    started, compiling, training, ended = buckets_of([given]).spans
    assert (started[0], compiling[0], training[0], ended[0]) == (0.0, 1.0, 6.0, 8.0)


def test_a_program_compiled_ahead_was_begun_before_its_bucket() -> None:
    given = {"started_at": 100.0, "finished_at": 103.0, "compile_s": 10.0, "train_s": 2.0}
    started, compiling, training, ended = buckets_of([given]).spans
    assert (started[0], compiling[0], training[0], ended[0]) == (9.0, 0.0, 10.0, 12.0)


def test_without_its_end_a_bucket_ends_before_the_next_of_its_place() -> None:
    rows = [
        {"started_at": 100.0, "compile_s": 10.0, "train_s": 1.0},
        {"started_at": 103.0, "train_s": 1.0},
    ]
    _, _, training, ended = buckets_of(rows).spans
    assert ended.tolist() == [11.0, 12.0]  # from the beginning of compiling, 8 s before the bucket
    assert training.tolist() == [10.0, 11.0]


def test_idle_time_is_what_a_place_had_and_did_not_use() -> None:
    buckets = buckets_of(TWO_THREADS)
    first, second = busy(buckets)
    assert (first.name, first.idle_s, first.busy) == ("thread 0 on cpu:0", 0.0, 1.0)
    assert (second.name, second.idle_s, second.busy) == ("thread 1 on cpu:0", 3.0, 0.25)
    told = totals(buckets)
    assert (told.span_s, told.idle_s, told.train_s, told.places) == (4.0, 3.0, 5.0, 2)
    assert by_rounds(buckets).idle_s.tolist() == [2.0, 1.0]


def test_between_two_starts_of_the_program_no_place_is_idle() -> None:
    """A pause is longer than what a round waits for; a shorter gap is idle time."""
    later = [
        {**row, "started_at": row["started_at"] + 900.0, "finished_at": row["finished_at"] + 900.0}
        for row in TWO_THREADS
    ]
    gap = {"started_at": 1009.0, "train_s": 1.0, "finished_at": 1010.0, "round": 3}
    buckets = buckets_of([*TWO_THREADS, *later, gap])

    told = totals(buckets)

    assert (told.paused_s, told.span_s) == (896.0, 14.0)
    assert told.idle_s == 2 * 14.0 - 11.0
    assert buckets.spans[0].tolist() == [0.0, 0.0, 3.0, 4.0, 4.0, 7.0, 13.0]
    assert ("left out", "14:56, while the program did not run") in told.facts()


def test_findings_name_what_is_unusual_and_its_hint() -> None:
    slow = buckets_of(
        [
            {"compile_s": 9.0, "train_s": 6.0, "waste_fraction": 0.5, "finished_at": 115.0},
            {"place": "thread 1", "finished_at": 101.0},
            {"round": 2, "started_at": 114.0, "finished_at": 115.0, "trials": "[4]"},
        ]
    )
    said = findings(totals(slow))
    assert "fewer structures" not in said[0]  # there is one program
    words = ["Compiling took", "idle", "padding and empty lanes", "sweeper calibrate"]
    assert [word in line for word, line in zip(words, said, strict=True)] == [True] * 4
    fine = buckets_of([{"finished_at": 101.0}])
    assert findings(totals(fine)) == []


def test_idle_time_is_only_reported_if_more_trials_at_a_time_would_fill_it() -> None:
    more = {"round": 2, "started_at": 103.0, "finished_at": 106.0, "trials": "[4]"}
    waits = [TWO_THREADS[0], {**TWO_THREADS[1], "trials": "[1]"}, more]
    assert ["idle for 42 %" in line for line in findings(totals(buckets_of(waits)))] == [True]
    at_once = [*waits[:2], {**more, "trials": "[1]"}]
    assert findings(totals(buckets_of(at_once))) == []
    spans = (Span("thread 0", "compile", 101.0, 106.0),)
    assert findings(totals(buckets_of(waits, spans_of([spans])))) == []


def test_many_rounds_are_shown_in_groups() -> None:
    rows = [{"round": n, "started_at": 100.0 + n, "finished_at": 101.0 + n} for n in range(1, 1001)]
    by = by_rounds(buckets_of(rows), most=100)
    assert (len(by.firsts), round_names(by)[0], round_names(by)[-1]) == (100, "1-10", "991-1000")
    assert by.train_s.sum() == pytest.approx(1000.0)


def test_the_view_says_what_each_class_took() -> None:
    blocks = execution_view(buckets_of(TWO_THREADS))
    classes = next(block for block in blocks if block.get("caption") == "classes")
    expected = ["c", 4, 3, 5, 3, "100 %", "0 %", "0, 0 cached", 0, None, 10.0, None]
    assert classes["rows"] == [expected]
    assert as_json(blocks)


def test_what_is_not_known_of_buckets_is_left_out() -> None:
    unknown = ("predicted_train_s", "memory_predicted_bytes", "occupancy", "waste_fraction")
    rows = [{**row, **dict.fromkeys(unknown)} for row in TWO_THREADS]
    blocks = execution_view(buckets_of(rows))
    assert as_json(blocks)
    notes = [inner["text"] for b in blocks for inner in b.get("blocks", []) if "text" in inner]
    assert notes == [
        "It is not known how many lanes of any bucket held a trial.",
        "The cost model predicted nothing for this study.",
        "No memory was predicted or measured.",
    ]


def test_the_gantt_shows_what_is_known_up_to_the_last_bucket() -> None:
    compiled = {"cache_hit": False, "compile_s": 0.5}
    plain = [{**row, "waste_fraction": None, "predicted_train_s": None} for row in TWO_THREADS]
    names: list[list[str]] = []
    for rows in (plain, [{**row, **compiled} for row in TWO_THREADS]):
        option = next(b for b in execution_view(buckets_of(rows)) if b["kind"] == "chart")["option"]
        names.append([own["name"] for own in option["series"]])
        assert option["xAxis"]["max"] == (4.0 if rows is plain else 4.5)
    known = ["training", "padding and empty lanes", "compiling", "training as predicted"]
    assert names == [["training"], known]


def test_a_partial_prediction_is_shown_with_its_part_of_the_time() -> None:
    rows = [{**TWO_THREADS[0], "compile_s": 6.0, "predicted_compile_s": 3.0}, *TWO_THREADS[1:]]
    whole = dict(totals(buckets_of(rows)).facts())
    assert "predicted 3.0 s (2 times)" in whole["compiling"]
    rows[1] = {**rows[1], "compile_s": 10.0}
    part = dict(totals(buckets_of(rows)).facts())
    assert "16.0 s" in part["compiling"]
    assert "predicted 3.0 s for 6.0 s of it (2 times)" in part["compiling"]


def test_a_class_is_shown_by_its_name_if_it_has_one() -> None:
    known = {"class_id": "0a", "class_name": "exact depth=1"}
    given = [{**known, "class_name": None}, known, {"class_id": "0b", "class_name": None}]
    buckets = buckets_of([{**row, "train_s": 9.0 - place} for place, row in enumerate(given)])
    assert buckets.class_names == {"0a": "exact depth=1", "0b": "0b"}
    assert buckets.packed(np.arange(3))["class"] == {"of": ["exact depth=1", "0b"], "at": [0, 0, 1]}
    classes = next(b for b in execution_view(buckets) if b.get("caption") == "classes")
    assert [row[0] for row in classes["rows"]] == ["exact depth=1", "0b"]
    assert buckets_of(TWO_THREADS).class_names == {"c": "c"}


def test_the_axis_begins_with_the_program_and_leaves_out_the_time_between_starts() -> None:
    buckets = buckets_of(RESUMED, spans_of([FIRST, AGAIN]))
    assert buckets.lanes == [PROGRAM, "thread 0 on cpu:0", "thread 1"]
    assert buckets.ran_s == 28.0
    assert buckets.starts.tolist() == [14.0]
    assert buckets.paused_s == 986.0
    _, _, training, ended = buckets.spans
    assert (training.tolist(), ended.tolist()) == ([10.5, 24.5], [12.5, 26.5])
    told = dict(totals(buckets).facts())
    assert told["time"].startswith("28.0 s in 2 starts of the program: 11.0 s importing, ")


def test_compiling_is_drawn_where_and_when_it_ran() -> None:
    buckets = buckets_of([COMPILED], spans_of([FIRST]))
    packed = buckets.packed_spans(np.arange(len(FIRST)))
    assert packed["lane"] == [0, 0, 2, 0, 1, 1, 1, 0]
    row = FIRST.index(next(span for span in FIRST if span.activity == "compile"))
    assert [packed[name][row] for name in ("begin", "end", "seconds")] == [5, 10, 5]
    option = next(b for b in execution_view(buckets) if b["kind"] == "chart")["option"]
    drawn = [own for own in option["series"] if own["name"] == "compiling"]
    assert [own["table"] for own in drawn] == ["spans"]


def test_each_activity_has_a_colour_of_its_own() -> None:
    """Training is drawn from buckets; starting workers and averaging share one with others."""
    doing = [one for one in Activity if one not in ("train", "worker", "ensemble")]
    spans = [Span(PROGRAM, one, 90.0 + n, 91.0 + n) for n, one in enumerate(doing)]
    given = {**COMPILED, "started_at": 110.0, "finished_at": 113.0, "waste_fraction": 0.5}
    option = next(
        block
        for block in execution_view(buckets_of([given], spans_of([spans])))
        if block["kind"] == "chart"
    )["option"]
    colours = [tones()[own["tone"]] for own in option["series"]]
    assert len(colours) == len({*colours}) == len(doing) + 4  # idle, used, unused and predicted


def test_each_column_of_the_table_adds_up_to_the_time_of_the_program() -> None:
    blocks = execution_view(buckets_of(RESUMED, spans_of([FIRST, AGAIN])))
    table = next(b for b in blocks if b.get("caption", "").startswith("seconds of the program"))
    assert table["headings"] == ["", PROGRAM, "thread 0", "thread 1"]
    *parts, whole = table["rows"]
    assert whole == ["total", 28.0, 28.0, 28.0]
    assert [sum(column) for column in zip(*(row[1:] for row in parts), strict=True)] == whole[1:]
    assert next(row for row in parts if row[0] == "idle")[1:] == [8.0, 22.0, 23.0]


def test_importing_does_not_count_as_idle_time_of_threads() -> None:
    told = totals(buckets_of(RESUMED, spans_of([FIRST, AGAIN])))
    assert (told.span_s, told.places, told.idle_s) == (5.0, 2, 5.0)


def test_a_study_of_an_earlier_version_is_shown_with_what_was_recorded_since() -> None:
    before = {"started_at": 50.0, "finished_at": 53.0, "compile_s": 1.0, "cache_hit": False}
    buckets = buckets_of([{**before, "round": 0}, COMPILED], spans_of([FIRST]))
    assert (buckets.ran_s, buckets.paused_s) == (3.0 + 14.0, 37.0)
    option = next(b for b in execution_view(buckets) if b["kind"] == "chart")["option"]
    drawn = [own["table"] for own in option["series"] if own["name"] == "compiling"]
    assert drawn == ["spans", "buckets"]
    assert buckets.packed(np.arange(2))["guessed"] == {"of": [None, "no"], "at": [1, 0]}


def test_compiling_counts_in_the_round_in_which_it_ran() -> None:
    rows = [{**row, "compile_s": 5.0 * (row.get("round") == 2)} for row in RESUMED]
    by = by_rounds(buckets_of(rows, spans_of([FIRST, AGAIN])))
    assert by.compile_s.tolist() == [5.0, 0.0]


def test_a_start_without_committed_rounds_has_spans_but_no_bucket() -> None:
    buckets = buckets_of([COMPILED], spans_of([FIRST]))
    empty = Buckets(buckets.table.slice(0, 0), buckets.recorded)
    assert empty.packed_spans(np.arange(2))["begin"] == [0, 6]
    assert as_json(execution_view(empty))
