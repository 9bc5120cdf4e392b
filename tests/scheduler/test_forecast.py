"""What a study is expected to cost, and which classes are cheapest for it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from sweeper.config import StudyConfig, parse
from sweeper.scheduler.capacity import LaneLoop
from sweeper.scheduler.cost import shipped
from sweeper.scheduler.forecast import DataSizes, Forecast, forecast, traced_structure
from sweeper.scheduler.lattice import EXACT
from sweeper.scheduler.plan import LiveTrial, plan_round
from sweeper.scheduler.policy import policy_of
from sweeper.scheduler.population import chances, partnered_share
from sweeper.scheduler.signature import Structures
from sweeper.trial import TrialSpec
from tests.programs.conftest import STUDY
from tests.small_studies import PARTS

SIZES = DataSizes(in_size=64, out_size=10, train_rows=1257, val_rows=360)
POWERS = 'search.model.width={type="int",low=16,high=128,base=2}'
DEPTHS = "search.model.depth.high=4"


def study(*overrides: str) -> StudyConfig:
    config = parse(STUDY, Path("study.toml"), [POWERS, DEPTHS, *overrides])
    return config.with_parallel(32)


def foreseen(config: StudyConfig, n_trials: int = 64) -> Forecast:
    return forecast(config, SIZES, shipped("cpu"), "map", traced_structure(config, "map"), n_trials)


def test_a_forecast_survives_json() -> None:
    made = foreseen(study())

    assert Forecast.from_dict(json.loads(json.dumps(made.as_dict()))) == made


def test_every_trial_is_expected_once() -> None:
    found = foreseen(study("search.train.batch_size={type='categorical',choices=[32,64]}"), 100)

    assert len(found.families) == 2  # activations are set at run time, batch sizes are not
    assert sum(family.trials for family in found.families.values()) == pytest.approx(100)


def test_parts_have_the_batch_size_of_their_trials_and_copies_of_their_weights() -> None:
    batches = "search.train.batch_size={type='categorical',choices=[32,64]}"
    kept = "train.ema=0.9", "study.value=best"
    config = parse(PARTS, Path("study.toml"), [batches, *kept]).with_parallel(32)
    found = foreseen(config, 8).families
    works = [work for one in found.values() for work in one.workloads.values()]
    assert (
        sorted((work.batch_size, work.steps) for work in works) == [(32, 39)] * 3 + [(64, 19)] * 3
    )
    assert {work.optimizer_slots for work in works} == {4}


def test_under_vmap_activations_separate_families() -> None:
    config = study()
    traced = traced_structure(config, "vmap")

    found = forecast(config, SIZES, shipped("cpu"), "vmap", traced, 64)

    assert traced == {}
    assert len(found.families) == 2


TABM = "model={kind='tabm', ensemble_size=4}"


def test_trials_of_a_tabm_have_a_lattice_and_cost_more_with_more_members() -> None:
    def seconds(size: int) -> float:
        found = foreseen(study(TABM, f"model.ensemble_size={size}"))
        assert sum(family.trials for family in found.families.values()) == pytest.approx(64)
        return sum(known.train_s for f in found.families.values() for known in f.classes)

    # the state of a lane and what a step costs whatever it computes do not grow
    assert 5 < seconds(32) / seconds(4) < 8


def test_each_kind_of_model_has_its_own_share_of_trials() -> None:
    kinds = "search.model.kind={type='categorical', choices=['mlp', 'tabm']}"
    found = foreseen(study("model={ensemble_size=4}", kinds), 90)

    shares = {json.loads(name)["model.kind"]: f.trials for name, f in found.families.items()}

    assert shares == pytest.approx({"mlp": 45, "tabm": 45})
    assert {f.plain.ensemble_size for f in found.families.values() if f.plain} == {0, 4}


def test_a_tabm_keeps_exact_classes_if_the_recorded_forecast_has_no_lattice_for_it() -> None:
    config = study(TABM)
    record = foreseen(config).as_dict()
    policy = policy_of(config, (), Forecast.from_dict({**record, "families": {}}), 64)
    structures = Structures(lambda spec: config.settings_of(spec.params), lambda _: 1, {})
    params = {"width": 32, "depth": 2, "activation": "relu", "lr": 1e-3, "weight_decay": 0.1}
    specs = [TrialSpec(n, {**params, "width": w}, {}, 0) for n, w in enumerate((32, 32, 64))]

    found = plan_round([LiveTrial(spec, 4) for spec in specs], (), structures, policy)

    assert sorted(known.strategy for known in found.classes) == ["exact", "exact"]
    assert all(bucket.predicted_train_s is None for bucket in found.buckets)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"type": "int", "low": 1, "high": 4}, {1: 0.25, 2: 0.25, 3: 0.25, 4: 0.25}),
        ({"type": "int", "low": 4, "high": 16, "base": 2}, {4: 1 / 3, 8: 1 / 3, 16: 1 / 3}),
        # drawn uniformly in the logarithm over [1, 4), then floored
        ({"type": "int", "low": 1, "high": 3, "log": True}, {1: 0.5, 2: 0.29248, 3: 0.20752}),
    ],
)
def test_values_are_as_likely_as_the_sampler_draws_them(
    entry: dict[str, object], expected: dict[int, float]
) -> None:
    text = ", ".join(f"{k}={json.dumps(v)}" for k, v in entry.items())
    config = study(f"search.model.width={{{text}}}")

    found = chances(config.search["model.width"])

    assert found == pytest.approx(expected, abs=1e-5)


def test_integers_of_a_wide_range_have_few_partners_and_powers_many() -> None:
    wide = study("search.model.width={type='int',low=16,high=256,log=true}", "model.depth=1")

    assert partnered_share(study(), 500) > 0.95
    assert partnered_share(wide, 500) < 0.75


def structures(config: StudyConfig) -> Structures:
    return Structures(
        lambda spec: config.settings_of(spec.params), lambda _: 1, traced_structure(config, "map")
    )


def trial(number: int, width: int, depth: int) -> LiveTrial:
    params = {"width": width, "depth": depth, "activation": "relu", "lr": 0.1, "weight_decay": 0.1}
    return LiveTrial(TrialSpec(number, params, {}, 0), 20)


@pytest.mark.parametrize("strategy", ["auto", "exact", "padded", "process"])
def test_the_requested_strategy_is_used(strategy: str) -> None:
    config = study(f"execution.strategy={strategy}")
    policy = policy_of(config, (), foreseen(config), 64)
    live = [trial(n, 16 << n % 4, 1 + n % 3) for n in range(24)]

    found = plan_round(live, (), structures(config), policy)

    expected = {"auto": {"padded"}}.get(strategy, {strategy})
    assert {program.strategy for program in found.classes} == expected
    widths = {program.padded_width for program in found.classes}
    assert (widths == {None}) == (strategy in ("exact", "process"))


def test_predicted_seconds_and_waste_are_those_of_the_cost_model() -> None:
    config = study()
    made = foreseen(config)
    policy = policy_of(config, (), made, 64)
    (structure,) = {structures(config)(trial(0, 16, 2).spec)}

    (bucket,) = plan_round([trial(0, 16, 2)], (), structures(config), policy).buckets

    best = made.best_class(structure)
    assert best is not None
    padded_s = made.epoch_s(structure, best.padded_size, 4)
    own_s = made.epoch_s(structure, EXACT, 4)
    assert padded_s is not None and own_s is not None
    epochs = bucket.lanes[0].epoch_to
    assert bucket.predicted_train_s == pytest.approx(epochs * padded_s)
    assert bucket.waste_fraction == pytest.approx(1 - own_s / padded_s)


@pytest.mark.parametrize("lane_loop", ["map", "vmap"])
def test_a_trial_goes_to_the_cheapest_class_that_has_room_for_it(lane_loop: LaneLoop) -> None:
    config = study()
    traced = traced_structure(config, lane_loop)
    made = forecast(config, SIZES, shipped("cpu"), lane_loop, traced, 1_000_000)
    structure_of = Structures(lambda spec: config.settings_of(spec.params), lambda _: 1, traced)
    for width, depth in product((16, 32, 64, 128), (1, 2, 3, 4)):
        structure = structure_of(trial(0, width, depth).spec)
        family = made.families[structure.family or ""]
        assert len(family.classes) > 1
        with_room = [
            known
            for known in family.classes
            for _, wide, deep in known.sizes
            if wide >= width and deep >= depth
        ]
        prices = [made.epoch_s(structure, known.padded_size, made.capacity) for known in with_room]

        best = made.best_class(structure)

        assert best is not None and None not in prices
        assert prices[with_room.index(best)] == min(price for price in prices if price)


def test_ten_thousand_trials_justify_more_programs_than_sixty_four() -> None:
    counts = [
        sum(len(family.classes) for family in foreseen(study(), n).families.values())
        for n in (64, 10_000)
    ]

    assert counts[0] < counts[1]


def test_expensive_compiling_makes_fewer_classes() -> None:
    config = study()
    dear = replace(shipped("cpu"), compile_base_s=1e6)

    found = forecast(config, SIZES, dear, "map", traced_structure(config, "map"), 10_000)

    assert [len(family.classes) for family in found.families.values()] == [1]


def test_rounds_of_a_study_without_a_pruner_justify_their_commit() -> None:
    short = study()
    long = study("train.epochs=2000", "schedule.parallel=512", "study.n_trials=512")

    assert policy_of(short, (), foreseen(short), 64).stops == ()
    assert len(policy_of(long, (), foreseen(long, 512), 512).stops) == 3
