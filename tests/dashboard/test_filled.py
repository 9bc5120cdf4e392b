"""Charts are filled in without a browser, with the rows and colours that the page draws."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest

from sweeper.dashboard.blocks import Block, chart, line, points, ring
from sweeper.dashboard.files import tones
from sweeper.dashboard.filled import fill_chart, tables_of
from sweeper.dashboard.page import VIEWS
from sweeper.dashboard.study import PublishedStudy

TABLES = {
    "trials": {
        "trial_number": [3, 4, 5],
        "value": [0.5, None, 0.25],
        "params_lr": [1e-3, 1e-2, 1e-4],
        "reason": [None, "diverged", None],
    }
}
AT = ("params_lr", "value")
DIVERGED = ["reason", "diverged"]
PARALLEL = {"type": "parallel"}


def charts(blocks: Sequence[Block]) -> Iterator[Block]:
    """Every chart in blocks, including alternatives."""
    for block in blocks:
        if block["kind"] == "chart":
            yield block
        for inner in (block.get("blocks", ()), *(own for _, own in block.get("alternatives", ()))):
            yield from charts(inner)


@pytest.mark.parametrize(
    ("series", "data"),
    [
        (points("all", AT, "complete"), [[1e-3, 0.5], [1e-4, 0.25]]),
        (points("at the edge", AT, "diverged", edges=[None, 9.0], where=DIVERGED), [[1e-2, 9.0]]),
        (points("above", AT, "complete", above=3e-4), [[1e-3, 0.5]]),
        (points("front", AT, "best", only=[5]), [[1e-4, 0.25]]),
        (ring(AT), [[1e-3, 0.5]]),
        (points("lines", AT, "best") | PARALLEL, [[1e-3, 0.5], [1e-2, None], [1e-4, 0.25]]),
        (line("best so far", [(1, 2)], "best"), [(1, 2)]),
    ],
)
def test_a_series_gets_its_rows(series: Block, data: object, study: PublishedStudy) -> None:
    drawn = chart("one series", {"series": [series]})
    (found,) = fill_chart(drawn, study, TABLES, [3])["series"]
    assert (found["data"], found["color"]) == (data, tones()[series["tone"]])


def test_the_ring_is_named_after_the_trials(study: PublishedStudy) -> None:
    drawn = chart("rings", {"series": [ring(AT)]})
    names = [fill_chart(drawn, study, TABLES, them)["series"][0]["name"] for them in ([3], [3, 5])]
    assert names == ["trial 3", "trials 3, 5"]


def test_each_chart_of_the_page_can_be_filled_in(study: PublishedStudy) -> None:
    tables = tables_of(study)
    found = [one for view in VIEWS for one in charts(view.blocks(study))]
    series = [own for one in found for own in fill_chart(one, study, tables, [0])["series"]]
    assert len(found) > 10
    assert all(isinstance(own["data"], list) for own in series)
    assert all(re.fullmatch("#[0-9a-f]{6}", own["color"]) for own in series if "tone" in own)


def test_the_curves_of_selected_trials_are_lines(study: PublishedStudy) -> None:
    (first, *_) = charts(next(it for it in VIEWS if it.name == "curves").blocks(study))
    band, median, *curves = fill_chart(first, study, {}, [0, 2])["series"]
    assert [own["name"] for own in curves] == ["trial 0", "trial 2"]
    assert [own["color"] for own in curves] == [tones()["line0"], tones()["line1"]]
    assert len(curves[0]["data"]) <= len(median["data"]) == len(band["data"])
