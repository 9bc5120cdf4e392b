"""There are as many programs as classes, and each live trial is in one bucket per round."""

from __future__ import annotations

import json
from collections import Counter

import jax
import pandas as pd
import pytest

import sweeper
from sweeper.results.read import Results
from tests.processes import ROOT

SETTINGS = (
    "study.sampler.name=random",
    "train.epochs=4",
    "schedule.round_epochs=2",
    "schedule.parallel=64",
)
SPACES = {
    "six structures, a program each": (
        "execution.strategy=exact",
        "study.n_trials=32",
        "search.model.depth.high=2",
        "search.model.width.high=64",
    ),
    "forty structures": ("search.model.width={type='int',low=12,high=30,step=2}",),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("six structures, a program each", marks=pytest.mark.slow),
        "forty structures",
    ],
)
def space(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def run(space: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, list[str]]:
    """The results, and the name of every compiled program, in order."""
    directory = tmp_path_factory.mktemp("structures") / "run"
    names: list[str] = []

    def listen(event: str, _seconds: float, **about: str) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(about["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        study = sweeper.load_study(
            ROOT / "studies" / "digits.toml",
            [*SETTINGS, *SPACES[space], f"results.dir={directory}"],
        )
        sweeper.run(study)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return sweeper.open_results(directory), names


def test_trials_of_one_class_shared_one_compiled_program(
    space: str,
    run: tuple[Results, list[str]],
) -> None:
    results, names = run
    trials = results.trials()
    segments = Counter(name for name in names if "segment_" in name)

    classes = set(trials["class_id"])
    structures = trials["structure_id"].nunique()
    if space == "forty structures":
        assert len(classes) < structures / 8
    else:
        assert structures == len(classes) == 6
    assert segments == {f"jit(segment_{class_id})": 1 for class_id in classes}


def test_each_live_trial_is_in_one_bucket_per_round(run: tuple[Results, list[str]]) -> None:
    results, _ = run
    trials, buckets = results.trials().set_index("trial_number"), results.buckets()

    placed = Counter(
        (row.round, number) for row in buckets.itertuples() for number in json.loads(row.trials)
    )
    expected = Counter(
        (round_, number)
        for number, row in trials.iterrows()
        for round_ in range(row.first_round, row.last_round + 1)
    )
    assert placed == expected
    assert (buckets["lanes_live"] == buckets["trials"].map(lambda t: len(json.loads(t)))).all()


def test_a_bucket_has_one_class_and_records_its_times(run: tuple[Results, list[str]]) -> None:
    results, _ = run
    trials, buckets = results.trials().set_index("trial_number"), results.buckets()

    for row in buckets.itertuples():
        lanes = trials.loc[json.loads(row.trials)]
        assert set(lanes["class_id"]) == {row.class_id}
        one = lanes.iloc[0]
        depth, width = one[["padded_depth", "padded_width"]]
        size = f"depth={one.params_depth} width={one.params_width}"
        size = size if pd.isna(depth) else f"depth<={depth:.0f} width<={width:.0f}"
        assert row.class_name == f"{row.strategy} {size}"
    compiled = buckets[buckets["compile_s"] > 0]
    assert set(compiled["class_id"]) == set(trials["class_id"])
    assert set(compiled["round"]) == {1}
    assert (buckets["train_s"] > 0).all()
