"""Conditions, extra values of a range, shared values and a queue, as trials get them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sweeper.config import StudyConfig
from sweeper.results.columns import INT64
from sweeper.results.schema import trials_schema
from sweeper.results.tables import rows_table
from sweeper.scheduler.cost import shipped
from sweeper.scheduler.forecast import DataSizes, forecast
from sweeper.study.ask_tell import Study
from sweeper.study.limits import n_proposals
from tests.in_process import study_in, trained
from tests.round_machine import new_ledger, run, study
from tests.small_studies import DIGITS, PARTS, bent

NORM = "search.model.layer_norm={type='categorical',choices=[true,false]}"
DROPOUT = (
    "search.model.dropout={type='float',low=0.1,high=0.3,or=[0.0],when={'model.layer_norm'=true}}"
)
ACTIVATION = (
    "search.model.activation={type='categorical',choices=['tanh','gelu'],"
    "when={model.dropout=0.0,model.depth=[2,3]}}"
)
RANDOM = "study.sampler.name=random"


def asked(config: StudyConfig, count: int) -> list[dict]:
    return [dict(spec.params) for spec in Study(config).ask(count, 0)]


def test_a_setting_is_only_drawn_with_the_values_that_it_needs() -> None:
    for params in asked(study([NORM, DROPOUT, RANDOM]), 40):
        assert ("dropout" in params) is params["layer_norm"]


def test_a_trial_that_does_not_draw_a_setting_keeps_the_value_of_the_file() -> None:
    config = study([NORM, DROPOUT, RANDOM, "model.dropout=0.7"])
    for params in asked(config, 40):
        expected = params["dropout"] if params["layer_norm"] else 0.7
        assert config.settings_of(params).model.dropout == expected


def test_a_clip_norm_that_is_not_drawn_has_no_effect() -> None:
    clip = "search.optimizer.clip_norm={type='float',low=0.1,high=1.0,when={'model.depth'=1}}"
    traced = study([clip]).settings_of({"depth": 2}).traced()
    assert traced["optimizer.clip_norm"] == float("inf")


def test_what_depends_on_a_setting_that_is_not_drawn_is_not_drawn_either() -> None:
    norm = "search.model.layer_norm={type='categorical',choices=[true],when={'model.depth'=1}}"
    for params in asked(study([norm, DROPOUT, RANDOM]), 40):
        assert ("dropout" in params) is ("layer_norm" in params) is (params["depth"] == 1)


def test_every_trial_draws_the_same_space() -> None:
    specs = Study(study([NORM, DROPOUT, RANDOM])).ask(20, 0)
    assert len({tuple(spec.drawn) for spec in specs}) == 1


def test_an_extra_value_is_as_likely_as_the_range() -> None:
    dropout = "search.model.dropout={type='float',low=0.1,high=0.3,or=[0.0,0.5]}"
    drawn = [params["dropout"] for params in asked(study([dropout, RANDOM]), 300)]
    counts = Counter("range" if 0.1 <= value <= 0.3 else value for value in drawn)
    assert set(counts) == {"range", 0.0, 0.5}
    assert min(counts.values()) > 70


def test_integers_may_have_extra_values() -> None:
    width = "search.model.width={type='int',low=8,high=64,base=2,or=[100]}"
    assert {params["width"] for params in asked(study([width, RANDOM]), 60)} == {8, 16, 32, 64, 100}


def test_a_setting_may_take_the_value_of_another() -> None:
    config = study(["search.optimizer.eps={same_as='optimizer.lr'}", RANDOM])
    for params in asked(config, 10):
        assert "eps" not in params
        assert config.settings_of(params).optimizer.eps == params["lr"]
    assert config.canonical()["search"]["optimizer.eps"] == {"same_as": "optimizer.lr"}


def test_a_number_copied_by_a_structural_setting_splits_trials() -> None:
    config = study(
        [
            "model.kind=python",
            "model.function=nets:build",
            "search.model.gain={same_as='optimizer.lr'}",
        ]
    )
    assert config.n_structures is None


def test_queued_trials_come_first() -> None:
    queue = "study.enqueue=[{depth=3,lr=2e-3},{'model.width'=8},{layer_norm=true,dropout=0.0}]"
    first, second, third, *_ = asked(study([NORM, DROPOUT, RANDOM, queue]), 5)
    assert (first["depth"], first["lr"]) == (3, 2e-3)
    assert second["width"] == 8
    assert (third["layer_norm"], third["dropout"]) == (True, 0.0)
    drawn = asked(study([NORM, DROPOUT, RANDOM]), 1)[0]
    assert first["width"] == drawn["width"]  # as without a queue


@pytest.mark.parametrize("name", ["or", "in steps", "of powers", "log"])
def test_a_queued_value_of_any_range_is_the_trial_s(name: str) -> None:
    entry, value = {
        "or": ("{type='int',low=8,high=64,or=[3]}", 3),
        "in steps": ("{type='int',low=8,high=64,step=7}", 22),
        "of powers": ("{type='int',low=8,high=64,base=2}", 32),
        "log": ("{type='int',low=8,high=64,log=true}", 13),
    }[name]
    config = study([f"search.model.width={entry}", f"study.enqueue=[{{width={value}}}]"])
    assert asked(config, 1)[0]["width"] == value


def test_a_grid_has_each_trial_once_with_conditions() -> None:
    lr = "search.optimizer.lr={type='float',low=1e-3,high=2e-3,step=1e-3}"
    dropout = DROPOUT.replace("high=0.3", "high=0.3,step=0.1")
    config = study([NORM, dropout, lr, "study.sampler.name=grid", "study.n_trials=10000"])
    points = [tuple(sorted(params.items())) for params in asked(config, n_proposals(config))]
    sizes = 3 * 4 * 2  # depth, width, lr
    assert len(points) == len(set(points)) == sizes * (1 + 4)


def test_columns_are_null_where_a_setting_is_not_drawn() -> None:
    config, ledger = study([NORM, DROPOUT, RANDOM]), new_ledger()
    run(config, ledger)
    table = rows_table(ledger.trial_rows(), trials_schema(config))
    for row in table.to_pylist():
        assert (row["params_dropout"] is None) is not row["params_layer_norm"]
        assert ('"dropout"' in row["params_json"]) is row["params_layer_norm"]
    assert table.schema.field("params_depth").type == INT64


def test_a_forecast_counts_trials_under_conditions() -> None:
    norm = NORM.replace("}", ",when={'model.depth'=[2,3]}}")
    config = study([norm, ACTIVATION.replace("model.dropout=0.0,", "")])
    sizes = DataSizes(in_size=64, out_size=10, train_rows=1257, val_rows=360)
    found = forecast(config.with_parallel(32), sizes, shipped("cpu"), "map", {}, 36)
    trials = {
        (family.example.get("layer_norm", False), family.example.get("activation", "relu")): round(
            family.trials, 6
        )
        for family in found.families.values()
    }
    # a third of the trials has depth 1, and neither; the others share four families evenly
    assert trials == {
        (False, "relu"): 12,
        (False, "tanh"): 6,
        (False, "gelu"): 6,
        (True, "tanh"): 6,
        (True, "gelu"): 6,
    }
    assert sum(trials.values()) == 36


# two trials of one class; the second draws what is searched with two epochs
TWO_TRIALS = (
    "study.n_trials=2",
    "study.enqueue=[{epochs=1},{epochs=2}]",
    "search={}",
    "search.train.epochs={type='int',low=1,high=2}",
    "execution={threads=1,workers=0,precision='float64',strategy='exact'}",
)
SUPERVISED = bent(
    DIGITS,
    "data={source='sklearn',name='diabetes',split={val=0.2}}",
    "train={loss='huber',epochs=2,batch_size=64}",
    "optimizer.schedule.name=cosine",
    *TWO_TRIALS,
)
TURNS = bent(PARTS.replace("lr = 1e-3\n", ""), "optimizer.lr=3e-3", "train.warmup.epochs=1")


@pytest.mark.parametrize(
    ("text", "defaults"),
    [
        (SUPERVISED, {"train.huber_delta": 1.0, "optimizer.schedule.end": 0.0}),
        pytest.param(
            bent(TURNS, *TWO_TRIALS), {"train.phases.fit.lr": 3e-3}, marks=pytest.mark.slow
        ),
    ],
    ids=["supervised", "alternating"],
)
def test_trials_that_do_not_draw_a_number_have_its_default(
    tmp_path: Path, text: str, defaults: dict[str, float]
) -> None:
    """As if the default were written, next to a trial of their class that draws another."""
    drawn = [
        f"search.{key}={{type='float',low=0.01,high=0.02,when={{train.epochs=2}}}}"
        for key in defaults
    ]
    written = [f"{key}={value}" for key, value in defaults.items()]
    found = trained(study_in(tmp_path / "drawn", text, *drawn)).trials()
    expected = trained(study_in(tmp_path / "written", text, *written)).trials()
    assert list(found["state"]) == ["COMPLETE", "COMPLETE"]
    assert found["class_id"].nunique() == 1
    assert found["value"][0] == pytest.approx(expected["value"][0], rel=1e-9)
    assert found["value"][1] != pytest.approx(expected["value"][1], rel=1e-6)
