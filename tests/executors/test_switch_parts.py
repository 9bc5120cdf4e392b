"""Models of several parts with the strategy switch: branches of one program on two devices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

from sweeper import open_results
from sweeper.config import parse
from sweeper.trial import TrialSpec
from tests.processes import finish, start
from tests.programs.conftest import Bench
from tests.small_studies import COUPLED, PARTS, bent, write_mixture

RELATIVE = 1e-9  # float64; on several devices XLA takes some sums in another order
SWITCHED = (
    "study.n_trials=4",
    "study.sampler={name='grid'}",
    "schedule={round_epochs=2}",
    "execution={strategy='switch',threads=1,workers=0,precision='float64'}",
    "results.keep_models=0",
)
STUDIES = {
    "alternating, a program for each phase": bent(
        PARTS,
        *SWITCHED,
        "train.switching=flag",
        "train.epochs=6",
        "search={model={b={depth={type='int',low=0,high=1,name='depth_b'}}}}",
        "search.train.phases.fit.lr={type='categorical',choices=[1e-3,1e-4],name='lr_fit'}",
    ),
    "coupled": bent(
        COUPLED,
        *SWITCHED,
        "train.epochs=3",
        "model.generator.depth=0",
        "search={model={critic={width={type='int',low=4,high=8,step=4}}}}",
        "search.optimizer.generator.lr={type='categorical',choices=[1e-3,1e-4]}",
    ),
}
TWO = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}


@pytest.fixture
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.usefixtures("_float64")
@pytest.mark.slow
@pytest.mark.parametrize("program", STUDIES)
def test_trials_of_two_structures_on_two_devices_equal_those_alone(
    program: str, compile_cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(STUDIES[program], encoding="utf-8")
    write_mixture(tmp_path)
    run = ["run", "study.toml", "--quiet", "--set", "results.dir=run"]

    finish(start(tmp_path, compile_cache, run, environment=TWO))

    results = open_results(tmp_path / "run")
    trials, metrics = results.trials(), results.metrics()
    assert set(trials["state"]) == {"COMPLETE"}
    assert set(trials["strategy"]) == {"switch"}
    assert (trials["class_id"].nunique(), trials["structure_id"].nunique()) == (1, 2)
    assert set(trials["device"]) == {"cpu:0", "cpu:1"}
    study = Bench(parse(STUDIES[program], tmp_path / "study.toml"), tmp_path)
    for _, its in trials.groupby("structure_id"):
        numbers = its.set_index("trial_number")["params_json"].map(json.loads)
        specs = [TrialSpec(int(n), params, params, 0) for n, params in numbers.to_dict().items()]
        for number, curve in study.curves(specs).items():
            own = metrics[metrics["trial_number"] == number]
            found = own.pivot(index="epoch", columns="metric", values="value")
            columns = [*study.config.train.metric_names]
            np.testing.assert_allclose(found[columns].to_numpy(), curve, rtol=RELATIVE)
