"""Views are plain data, made without a browser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweeper.config.json_schema import study_schema
from sweeper.dashboard.blocks import Block, chart, line
from sweeper.dashboard.packing import as_json
from sweeper.dashboard.trials import PublishedTrials
from sweeper.dashboard.views.failures import failures_view
from sweeper.dashboard.views.history import (
    FEASIBLE_ONLY,
    best_so_far,
    better_half,
    history_view,
)
from sweeper.dashboard.views.importance import by_importance, importance_view
from sweeper.dashboard.views.parallel import parallel_view
from sweeper.dashboard.views.pareto import front_of, pareto_view
from sweeper.dashboard.views.scales import wants_log
from sweeper.dashboard.views.slices import GREATEST, LEAST, bound_hint, slices_view
from tests.dashboard.small_tables import SEARCH, trials_of

NAN = float("nan")
ABSURD = 1e7  # the least bound that only excludes absurd values


def charts(blocks: list[Block]) -> list[Block]:
    """Every chart in blocks, including alternatives."""
    found = [block for block in blocks if block["kind"] == "chart"]
    for block in blocks:
        inner = [block.get("blocks", []), *(own for _, own in block.get("alternatives", []))]
        found += [chart for own in inner for chart in charts(own)]
    return found


def test_the_best_so_far_steps_when_it_improves() -> None:
    values = [3.0, 2.0, 2.5, None, 1.0, 1.5]
    trials = trials_of([{"value": value, "params_lr": 1e-3} for value in values])
    steps = [(0.0, 3.0), (1.0, 2.0), (4.0, 1.0), (5.0, 1.0)]
    assert best_so_far(trials, 0, "trial_number") == steps
    at_times = [(1.0, 3.0), (2.0, 2.0), (5.0, 1.0), (6.0, 1.0)]
    assert best_so_far(trials, 0, "finished_at") == at_times


def test_only_feasible_complete_trials_count_as_the_best_so_far() -> None:
    values = [(3.0, True), (0.5, False), (2.0, True), (0.1, False), (9.0, True)]
    rows = [{"value": value, "feasible": feasible, "params_lr": 0.1} for value, feasible in values]
    trials = trials_of(rows)
    best = [(0.0, 3.0), (2.0, 2.0), (4.0, 2.0)]
    assert best_so_far(trials, 0, "trial_number") == best
    assert better_half(trials, 0) == {"min": 2.0, "max": 3.0}
    assert FEASIBLE_ONLY in [block.get("text") for block in history_view(trials)]
    lines = [own for own in charts(history_view(trials))[0]["option"]["series"] if "data" in own]
    assert [own["data"] for own in lines] == [best]
    none = trials_of([{**row, "feasible": False} for row in rows])
    assert best_so_far(none, 0, "trial_number") == []
    assert better_half(none, 0) == {}
    for view in (history_view(none), parallel_view(none, ["params_lr"])):
        assert "No trial is complete yet." not in [block.get("text") for block in view]


def test_only_trials_with_the_best_value_are_tied() -> None:
    values = [(1.0, "COMPLETE"), (0.5, "COMPLETE"), (0.5, "COMPLETE"), (0.5, "PRUNED")]
    trials = trials_of([{"value": value, "state": state} for value, state in values])
    assert trials.tied() == [1, 2]
    assert trials_of([{"value": 1.0}, {"value": 0.5}]).tied() == []


def test_the_history_can_leave_the_worse_half_out() -> None:
    trials = trials_of([{"value": value, "params_lr": 1e-3} for value in (900.0, 3.0, 1.0)])
    assert better_half(trials, 0) == {"min": 1.0, "max": 3.0}
    assert len(charts(history_view(trials))) == 4


@pytest.mark.parametrize(
    ("values", "log"),
    [
        ([1, 10, 100, 1000], True),
        ([1e-300, 1e-300, 1e300, 1e308], True),
        ([1, 2, 3], False),
        ([-1, 10, 1000, 9000], False),
        ([1e-9], False),
    ],
)
def test_an_axis_is_logarithmic_if_sizes_differ(values: list[float], log: bool) -> None:
    assert wants_log(np.array([*values, NAN], float)) is log


def test_equal_values_have_a_narrow_axis() -> None:
    trials = trials_of([{"value": 1.0, "params_lr": 1e-3}] * 3)
    for view in (history_view(trials), slices_view(trials, ["params_lr"])):
        for one in charts(view):
            ends = one["option"]["yAxis"]["min"], one["option"]["yAxis"]["max"]
            assert ends == (0.99, 1.01)


def lr_at(*values: float) -> PublishedTrials:
    """Twenty poor trials in the middle, then good ones at these rates."""
    poor = [{"value": 9.0 + i, "params_lr": 1e-3} for i in range(20)]
    return trials_of(
        [*poor, *({"value": 1.0 + i / 99, "params_lr": v} for i, v in enumerate(values))]
    )


def test_best_trials_at_an_end_of_the_range_are_reported() -> None:
    hint = bound_hint(lr_at(9.9e-3, 9.8e-3, 9.95e-3, 9.7e-3, 1e-3), "params_lr")
    assert hint is not None
    assert hint.startswith("lr: 4 of the 5 best trials are at the upper end of the range, 0.01;")
    assert bound_hint(lr_at(9.9e-3, 2e-4, 1e-3, 2e-3, 3e-3), "params_lr") is None


def test_trials_are_the_best_by_all_objectives() -> None:
    """Most of the best by the first alone are at an end of the range, but not on the front.

    Which lines are drawn, and whose curves a report contains, is decided in the same way.
    """
    middle = [{"value": 2.0 + i, "value_1": -float(i), "params_lr": 1e-3} for i in range(10)]
    dominated = [{"value": 2.5, "value_1": 5.0 + i, "params_lr": 9.9e-3} for i in range(10)]
    both = ["val_loss", "n_parameters"], ["minimize", "minimize"]
    trials = trials_of([*dominated, *middle], SEARCH, *both)
    assert trials.best(10).tolist() == [*range(10, 20)]
    assert trials.best(12).tolist() == [*range(10, 20), 0, 1]
    assert bound_hint(trials, "params_lr") is None
    poor = {"value": 1.0, "value_1": -99.0, "params_lr": 1e-3, "feasible": False}
    limited = trials_of([{**row, "feasible": True} for row in middle] + [poor], SEARCH, *both)
    assert limited.best(20).tolist() == [*range(10)]


def test_a_short_range_of_integers_gets_no_hint_by_itself() -> None:
    search = {"model.depth": {"type": "int", "low": 1, "high": 2}}
    rows = [{"value": float(i), "params_depth": 1 + i // 12} for i in range(24)]
    assert bound_hint(trials_of(rows, search), "params_depth") is None


def test_a_wider_range_is_not_proposed_if_the_setting_cannot_have_one() -> None:
    rows = [{"value": float(i), "params_layers": i // 6} for i in range(60)]
    for low, is_hinted in ((0, False), (-1, True)):
        search = {"model.depth": {"type": "int", "low": low, "high": 9, "name": "layers"}}
        assert (bound_hint(trials_of(rows, search), "params_layers") is not None) is is_hinted
        rows = [{**row, "params_layers": row["params_layers"] - 1} for row in rows]


def test_limits_of_ranges_are_those_of_the_settings() -> None:
    limits: dict[str, dict[str, set[float]]] = {"minimum": {}, "maximum": {}}

    def visit(node: Any, *path: str) -> None:
        if isinstance(node, list):
            for one in node:
                visit(one, *path)
        if not isinstance(node, dict):
            return
        for limit, end in (("minimum", "low"), ("maximum", "high")):
            if limit in node and path[-1] == end:
                limits[limit].setdefault(path[-2], set()).add(node[limit])
        for key, inner in node.get("properties", {}).items():
            visit(inner, *path, key)
        for key in ("anyOf", "oneOf", "allOf", "then", "else"):
            visit(node.get(key), *path)
        for key in ("additionalProperties", "patternProperties"):
            visit(node.get(key), *path, "<name>")

    visit(study_schema()["properties"]["search"], "search")
    assert limits["minimum"] == {name: {limit} for name, limit in LEAST.items()}
    bounds = {n: own for n, own in limits["maximum"].items() if max(own) < ABSURD}
    assert bounds == {name: {limit} for name, limit in GREATEST.items()}


@pytest.mark.parametrize(("key", "kind"), [("model.depth", "tabm"), ("model.a.depth", "tabm")])
def test_fewer_hidden_layers_than_tabm_needs_are_not_proposed(key: str, kind: str) -> None:
    rows = [{"value": float(i), "params_layers": 1 + i // 6} for i in range(60)]
    search = {key: {"type": "int", "low": 1, "high": 10, "name": "layers"}}
    trials = trials_of(rows, search)
    model = {"kind": kind} if key == "model.depth" else {"kind": "parts", "a": {"kind": kind}}
    for settings, is_hinted in (({"model": model}, False), ({"model": {"kind": "mlp"}}, True)):
        of = replace(trials, said={**trials.said, "settings": settings})
        assert (bound_hint(of, "params_layers") is not None) is is_hinted


def test_failures_are_grouped_by_message() -> None:
    error = {"state": "FAIL", "reason": "error", "error_type": "ValueError", "value": None}
    rows = [
        {"value": 1.0, "params_lr": 0.1},
        {
            **error,
            "params_lr": 0.2,
            "error_message": "ValueError: <b>bad</b> (x.py, line 1)\n\nTraceback\n at x",
        },
        {
            **error,
            "params_lr": 0.3,
            "error_message": "ValueError: <b>bad</b> (x.py, line 1)\n\nTraceback\n at y",
        },
        {"value": None, "state": "PRUNED", "reason": "diverged", "params_lr": 0.4},
    ]
    reasons, messages = failures_view(trials_of(rows))
    assert [row[:3] for row in reasons["rows"]] == [["error", "FAIL", 2], ["diverged", "PRUNED", 1]]
    assert messages["rows"] == [
        [
            2,
            "ValueError",
            {
                "summary": "ValueError: <b>bad</b> (x.py, line 1)",
                "text": "ValueError: <b>bad</b> (x.py, line 1)\n\nTraceback\n at x",
            },
            "lr=0.2",
            {"trials": [1, 2]},
        ]
    ]


def test_the_pareto_front_is_of_complete_and_feasible_trials() -> None:
    pairs = [(1.0, 9.0), (2.0, 2.0), (3.0, 3.0), (9.0, 1.0), (0.5, 0.5)]
    rows = [
        {"value": a, "value_1": b, "params_lr": 0.1, "feasible": number != 4}
        for number, (a, b) in enumerate(pairs)
    ]
    trials = trials_of(rows, SEARCH, ["val_loss", "n_parameters"], ["minimize", "minimize"])
    assert front_of(trials) == [0, 1, 3]
    drawn, table = pareto_view(trials)
    assert [row[0] for row in table["rows"]] == [{"trials": [n]} for n in (0, 1, 3)]
    assert len(charts([drawn])) == 1


def test_importance_is_shown_once_it_is_computed() -> None:
    (told,) = importance_view([], 4)
    assert told["text"] == (
        "Not computed: importances need at least 10 complete trials, but this study has 4. "
        "Pruned trials do not count."
    )
    (told,) = importance_view([], 10)
    assert told["text"].startswith("Not computed yet")
    rows = [
        {"metric": "val_loss", "parameter": "lr", "importance": 0.75, "n_trials": 50},
        {"metric": "val_loss", "parameter": "width", "importance": 0.25, "n_trials": 50},
    ]
    (chart,) = charts(importance_view(rows, 50))
    assert chart["option"]["yAxis"]["data"] == ["width", "lr"]
    (bars,) = chart["option"]["series"]
    assert (bars["name"], bars["data"]) == ("PED-ANOVA", [0.25, 0.75])
    names = ["params_a", "params_width", "params_lr"]
    assert by_importance(names, rows) == ["params_lr", "params_width", "params_a"]


def importance_row(name: str, ped_anova: float, fanova: float | None, n: int) -> dict[str, Any]:
    row = {"metric": "val_loss", "parameter": name, "importance": ped_anova, "fanova": fanova}
    return {**row, "rank_correlation": -0.5, "n_trials": 40, "n_trials_with": n}


def test_fanova_orders_the_parameters() -> None:
    rows = [
        importance_row("width", 0.79, 0.1, 40),
        importance_row("lr", 0.15, 0.82, 40),
        importance_row("dropout", 0.06, None, 8),
    ]
    reading, warning, shown = importance_view(rows, 40)
    assert "fANOVA" in reading["text"] and not reading["warning"]
    assert warning["warning"] and "dropout (8)" in warning["text"]
    (chart,), (_, [_, table]) = charts([shown]), shown["alternatives"][0]
    assert chart["option"]["yAxis"]["data"] == ["dropout", "width", "lr"]
    assert [own["name"] for own in chart["option"]["series"]] == ["PED-ANOVA", "fANOVA"]
    assert chart["option"]["legend"]["data"] == ["fANOVA", "PED-ANOVA"]  # as bars, from the top
    assert table["rows"][0] == ["lr", 0.82, 0.15, -0.5, 40]
    assert table["rows"][2] == ["dropout", None, 0.06, -0.5, 8]
    assert by_importance(["params_width", "params_lr"], rows) == ["params_lr", "params_width"]


@pytest.mark.parametrize(("n_trials", "is_few"), [(29, True), (30, False)])
def test_importance_of_few_trials_gets_a_warning(n_trials: int, is_few: bool) -> None:
    row = importance_row("lr", 0.5, 0.5, n_trials) | {"n_trials": n_trials}
    told = [block["text"] for block in importance_view([row], 40) if block.get("warning")]
    assert ["are from 29 complete trials" in text for text in told] == [True] * is_few


OF_TRIALS: list[Callable[[PublishedTrials], list[Block]]] = [
    history_view,
    failures_view,
    pareto_view,
    lambda trials: parallel_view(trials, list(trials.parameters)),
    lambda trials: slices_view(trials, list(trials.parameters)),
]
ODD: dict[str, list[dict[str, Any]]] = {
    "one trial": [{"value": 1.0, "params_lr": 1e-3}],
    "no value": [{"value": None, "state": "FAIL", "reason": "error", "params_lr": 1e-3}] * 3,
    "inactive": [{"value": 1.0, "params_lr": None}] * 3,
    "equal values": [{"value": 2.0, "params_lr": 1e-3}] * 30,
    "diverged": [{"value": None, "state": "PRUNED", "reason": "diverged", "params_lr": 1e-3}] * 3,
    "huge": [{"value": 1e300, "params_lr": 1e-3}, {"value": -1e300, "params_lr": 1e-3}],
}


@pytest.mark.parametrize("view", OF_TRIALS)
@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
def test_odd_studies_are_shown(
    view: Callable[[PublishedTrials], list[Block]], rows: list[Any]
) -> None:
    assert as_json(view(trials_of(rows)))


@pytest.mark.parametrize(
    ("direction", "best", "ends"),
    [
        ("minimize", "low", ["10 or more", "val_loss 1"]),
        ("maximize", "high", ["11", "val_loss 2 or less"]),
    ],
)
def test_the_colours_of_parallel_coordinates_show_values(
    direction: str, best: str, ends: list[str]
) -> None:
    rows = [{"value": float(value), "params_lr": 1e-3} for value in range(1, 12)]
    trials = trials_of(rows, direction=direction)
    scale = parallel_view(trials, list(trials.parameters))[1]["option"]["visualMap"]
    assert (scale["best"], scale["text"]) == (best, ends)


DIVERGED = {"value": None, "state": "PRUNED", "reason": "diverged", "params_lr": 1e-2}


@pytest.mark.parametrize(
    ("direction", "values", "edge"),
    [
        ("minimize", [1.0, 2.0], 2.06),
        ("maximize", [1.0, 2.0], 0.94),
        ("minimize", [1.0, 10.0, 1e6], 2.291e6),
        ("minimize", [3.0], 3.18),
        ("minimize", [], 0.0),
    ],
)
def test_diverged_trials_are_drawn_at_the_worst_edge(
    direction: str, values: list[float], edge: float
) -> None:
    rows = [{"value": value, "params_lr": 1e-3} for value in values]
    trials = trials_of([*rows, DIVERGED], direction=direction)
    (shown,) = charts(slices_view(trials, ["params_lr"]))
    crosses = shown["option"]["series"][0]
    assert crosses["name"] == crosses["tone"] == "diverged"
    assert crosses["where"] == ["reason", "diverged"]
    assert crosses["edges"] == [None, pytest.approx(edge)]
    assert "legend" in shown["option"]
    _, parallel = parallel_view(trials, ["params_lr"])
    _, lines = parallel["option"]["series"]
    assert (lines["only"], lines["name"]) == ([len(values)], "diverged")
    assert lines["edges"] == [None, pytest.approx(edge)]
    assert parallel["option"]["legend"]["data"] == ["diverged"]
    assert ("visualMap" in parallel["option"]) is bool(values)


def test_the_better_half_has_diverged_trials_at_its_end() -> None:
    rows = [{"value": value, "params_lr": 1e-3} for value in (9.0, 3.0, 1.0)]
    trials = trials_of([*rows, DIVERGED])
    edges = [chart["option"]["series"][0]["edges"] for chart in charts(history_view(trials))]
    assert edges == [[None, 9.48]] * 2 + [[None, 3.0]] * 2


def test_the_mark_of_diverged_trials_is_only_shown_if_any_diverged() -> None:
    trials = lr_at(1e-3)
    shown = [*charts(slices_view(trials, ["params_lr"])), *charts(history_view(trials))]
    names = {own["name"] for chart in shown for own in chart["option"]["series"]}
    assert names == {"pruned", "complete", "selected", "best so far"}
    assert len(charts(parallel_view(trials, ["params_lr"]))[0]["option"]["series"]) == 1


def test_parallel_coordinates_show_at_most_a_hundred_diverged_trials() -> None:
    trials = trials_of([{"value": 1.0, "params_lr": 1e-3}, *[DIVERGED] * 250])
    *_, parallel = parallel_view(trials, ["params_lr"])
    lines = parallel["option"]["series"][1]
    assert len(lines["only"]) == 84 and lines["name"] == "diverged, 84 of 250"


def test_a_chart_begins_below_the_rows_of_its_legend() -> None:
    def room(*names: str) -> tuple[int, int, int]:
        option = {"legend": {}, "series": [line(name, [], "best") for name in names]}
        found = chart("", option)["option"]["grid"]
        return found["top"], found["lower"], found["below"]

    one, several = room("short", "names"), room(*["a name of twenty let"] * 4)
    assert (one[0], one[1]) == (34, 34)
    assert (several[0], several[1]) == (34, 56)
    assert several[2] > 350 > one[2]


def test_hundreds_of_parameters_are_shown_in_pages() -> None:
    search = {f"model.p{i}": {"type": "float", "low": 0.0, "high": 1.0} for i in range(300)}
    rows = [{"value": float(n), **{f"params_p{i}": 0.5 for i in range(300)}} for n in range(4)]
    trials = trials_of(rows, search)
    assert len(charts(slices_view(trials, list(trials.parameters)))) == 300
    note, parallel = parallel_view(trials, list(trials.parameters))
    assert "most important of 300 parameters" in note["text"]
    assert len(parallel["option"]["parallelAxis"]) == 13


def test_every_axis_and_chart_is_named(tmp_path: Path) -> None:
    trials = lr_at(1e-3, 2e-3)
    for view in OF_TRIALS:
        for shown in charts(view(trials)):
            assert shown["place"]["label"]
            for name in ("xAxis", "yAxis"):
                assert shown["option"].get(name, {"name": "parallel"})["name"]
