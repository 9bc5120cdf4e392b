"""A plan that a user gives is checked wholly, before anything of it is recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import sweeper
from sweeper.config import StudyConfig, parse
from sweeper.errors import StudyError
from sweeper.scheduler.cost import shipped
from sweeper.scheduler.forecast import DataSizes, Forecast, forecast
from sweeper.scheduler.given_plan import read_forecast, unfit
from tests.in_process import study_in
from tests.small_studies import DIGITS, PARTS, bent

SIZES = DataSizes(in_size=8, out_size=3, train_rows=100, val_rows=20)
SEARCH = (
    "search={}",
    "search.model.depth={type='int',low=1,high=2,name='depth'}",
    "search.model.width={type='int',low=16,high=64,base=2}",
    "search.model.activation={type='categorical',choices=['relu','tanh']}",
)
STUDIES = {"one": bent(DIGITS, *SEARCH), "parts": bent(PARTS, "optimizer.lr=1e-2")}


def made(config: StudyConfig) -> Forecast:
    return forecast(config, SIZES, shipped("cpu"), "map", {}, 12)


def plan_of(name: str, *overrides: str) -> dict[str, Any]:
    """What `plan --json` writes of a study, as far as another reads it."""
    return {"forecast": made(parse(STUDIES[name], Path("study.toml"), overrides)).as_dict()}


def refusal(name: str, plan: object) -> str | None:
    config = parse(STUDIES[name], Path("study.toml"))
    try:
        given = read_forecast(plan if isinstance(plan, str) else json.dumps(plan))
    except ValueError as error:
        return str(error)
    return unfit(given, made(config), config, {})


def edited(name: str, path: str, value: object) -> dict[str, Any]:
    """A plan with another value at a place of its forecast; `*` is the first of several."""
    plan = json.loads(json.dumps(plan_of(name)))
    place: Any = plan["forecast"]
    *around, last = path.split(".")
    for word in around:
        if isinstance(place, Mapping):
            place = next(iter(place.values())) if word == "*" else place[word]
        else:
            place = place[0]
    place[0 if last == "*" else last] = value
    return plan


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_can_go_by_its_own_plan(name: str) -> None:
    config = parse(STUDIES[name], Path("study.toml"))
    assert refusal(name, plan_of(name)) is None
    assert read_forecast(json.dumps(plan_of(name))) == made(config)


@pytest.mark.parametrize(
    ("name", "path", "value", "words"),
    [
        ("one", "capacity", "x", "capacity: .*integer"),
        ("one", "capacity", 0, "capacity 0"),
        ("one", "capacity", -3, "capacity -3"),
        ("one", "capacity", True, "capacity"),
        ("one", "capacity", 1_000_000, "capacity 1000000, where 4096 lanes are the most"),
        ("one", "devices", 0, "0 devices"),
        ("one", "lane_loop", "vmap", "lane loop"),
        ("one", "lane_loop", 3, "lane_loop"),
        ("one", "costs", 7, "TypeError"),
        ("one", "families", [1], "TypeError"),
        ("one", "families", {}, "structures"),
        ("one", "families.*.classes", [], "no class has room for width 16, depth 1"),
        ("one", "families.*.classes.*.run_widths", [32, 16, 64], "do not ascend to its own"),
        ("one", "families.*.classes.*.run_widths", [16, 32], "do not ascend to its own"),
        ("one", "families.*.classes.*.run_widths", [*range(1, 194)], "193 widths, where 192"),
        (
            "one",
            "families.*.classes.*.run_width",
            [16, 64],
            "unexpected keyword argument .run_width",
        ),
        ("one", "families.*.workload.rate", 1.0, "unexpected keyword argument .rate"),
        ("one", "lattice", [], "lattice: no such key"),
        ("one", "families.*.classes.*.width", 10**9, "1000000000, where 10000000 is the most"),
        ("one", "families.*.classes.*.depth", 1.5, "integer"),
        ("one", "families.*.classes.*.width", 0, "without width"),
        ("one", "families.*.classes.*.train_s", -1.0, "below 0"),
        ("one", "families.*.classes.*.train_s", float("nan"), "not JSON compliant"),
        ("one", "families.*.example", {}, "none of this study's trials"),
        ("one", "families.*.example", {"colour": 3}, "none of this study's trials"),
        ("one", "families.*.workload.batch_size", 63, "other data, or another training"),
        ("one", "parts", {"a": 1}, "TypeError"),
        ("parts", "parts.*.classes", [], "no class has room for a of width 16, depth 1"),
        ("parts", "parts.*.classes.*.sizes", [["a", 8, 1]], "parts of this study"),
        ("parts", "parts.*.classes.*.sizes.*", ["a", 4, 1], "no class has room for a"),
        ("parts", "parts.*.classes.*.example", {"model.b.width": 3}, "none of this study's trials"),
        ("parts", "parts.*.classes.*.sizes.*", ["a", 10**9, 1], "10000000 is the most"),
        ("parts", "parts.*.phases", 7, "another training"),
    ],
)
def test_an_edited_plan_is_refused(name: str, path: str, value: object, words: str) -> None:
    found = refusal(name, edited(name, path, value))
    assert found is not None
    assert re.search(words, found)


def test_several_widths_are_refused_where_lanes_are_side_by_side() -> None:
    config = parse(STUDIES["one"], Path("study.toml"))
    made_here = forecast(config, SIZES, shipped("cpu"), "vmap", {}, 12)
    values = made_here.as_dict()
    family = next(iter(values["families"].values()))
    family["classes"] = [{**family["classes"][-1], "width": 64, "run_widths": [16, 64]}]

    given = read_forecast(json.dumps({"forecast": values}))

    assert "side by side" in str(unfit(given, made_here, config, {}))


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", '"a"', "[" * 100_000, '{"forecast": [1]}'])
def test_what_holds_no_forecast_is_refused(text: str) -> None:
    assert refusal("one", text)


@pytest.mark.parametrize(
    "other",
    [
        "search.model.width={type='int',low=16,high=32,base=2}",
        "search.model.depth={type='int',low=1,high=1,name='depth'}",
        "search.model.depth={type='int',low=1,high=2,name='layers'}",
        "search={}",
        "train.epochs=1",
    ],
)
def test_a_plan_of_a_study_like_it_is_refused(other: str) -> None:
    """The study searches more than the one of the plan, or calls it otherwise."""
    assert refusal("one", plan_of("one", other))


def test_a_plan_with_a_larger_class_is_gone_by() -> None:
    plan = edited("one", "families.*.classes.*.depth", 7)
    assert refusal("one", plan) is None


def test_nothing_of_a_plan_that_is_refused_is_recorded(tmp_path: Path) -> None:
    config = study_in(tmp_path, bent(STUDIES["one"], "execution={threads=1,workers=0}"))
    (tmp_path / "plan.json").write_text(json.dumps(edited("one", "capacity", 0)), "utf-8")
    with pytest.raises(StudyError, match="plan --json"):
        sweeper.run(config, plan_file=tmp_path / "plan.json")
    assert not config.run_dir.exists() or not (config.run_dir / "ledger.sqlite").exists()
