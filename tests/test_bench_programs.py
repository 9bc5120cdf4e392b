"""What `scripts/bench_programs` uses exists: settings that load, and the place of its table."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

import sweeper
from tests.documents import GUIDES, ROOT


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return runpy.run_path(str(ROOT / "scripts" / "bench_programs"))


def test_each_way_of_each_contest_is_a_study(script: dict[str, Any]) -> None:
    for contest in script["CONTESTS"]:
        study = ROOT / "studies" / f"{contest.study}.toml"
        for way in contest.ways:
            sweeper.load_study(study, contest.overrides(way))
            assert sweeper.load_study(study, contest.quick().overrides(way)).study.n_trials == 2


def test_ratios_are_of_medians_and_the_fastest_is_bold(script: dict[str, Any]) -> None:
    contest = next(one for one in script["CONTESTS"] if one.key == "phases-few")
    ran = script["Ran"]
    results = {
        "cond": [ran((4.0, 2.0), 1, 0.5), ran((2.0, 2.0), 1, 0.5), ran((3.0, 9.0), 1, 0.5)],
        "flag": [ran((6.0, 1.0), 2, 0.5)],
    }

    cond, flag, separate = script["rows"](contest, results)

    assert cond == f"| {contest.title} | `cond` | **3.0** | 1.00 | 2.0 | 1.00 | 1 |\n"
    assert flag == "|  | `flag` | 6.0 | 2.00 | **1.0** | 0.50 | 2 |\n"
    (only, *_) = script["rows"](contest, {"cond": [ran((4.0,), 1, 0.5)]})
    assert only == f"| {contest.title} | `cond` | **4.0** | 1.00 |  |  | 1 |\n"
    assert separate == "|  | `separate` | not measured |  |  |  |  |\n"


def test_ways_with_different_results_are_reported(script: dict[str, Any]) -> None:
    contest = next(one for one in script["CONTESTS"] if one.key == "phases-few")
    ran = script["Ran"]
    alike = {"cond": [ran((1.0,), 1, 0.500)], "flag": [ran((1.0,), 2, 0.501)]}
    other = {**alike, "separate": [ran((1.0,), 2, 0.6)]}

    assert list(script["unlike"](contest, alike)) == []
    assert list(script["unlike"](contest, other)) == [
        "phases-few: mean values 0.5000 of cond, 0.6000 of separate"
    ]


def test_the_guide_has_a_row_for_each_way(script: dict[str, Any]) -> None:
    _, part = GUIDES["benchmarks"].split("<!-- programs: written by scripts/bench_programs -->\n")
    table = part.partition("<!-- programs end -->\n")[0]

    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    named = [line.split("|")[2].strip() for line in lines]

    assert named == [f"`{way.name}`" for one in script["CONTESTS"] for way in one.ways]
