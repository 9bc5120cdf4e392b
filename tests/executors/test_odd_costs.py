"""A study also trains if the constants of the cost model fit no machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from sweeper.api import plan
from sweeper.scheduler.cost import shipped
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS, bent


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 1e300])
def test_a_study_trains_with_any_costs(seconds: float, tmp_path: Path) -> None:
    model = dict.fromkeys(asdict(shipped("cpu")), seconds) | {"backend": "cpu"}
    body = {"measured": True, "fitted_on": "nothing", "model": model}
    (tmp_path / "costs.json").write_text(json.dumps(body), encoding="utf-8")
    costs = (f"execution.costs={tmp_path / 'costs.json'}", "study.pruner.name=none")
    config = study_in(tmp_path, bent(DIGITS, "study.n_trials=2", "train.epochs=1"), *costs)

    assert plan(config).plan.buckets
    assert trained(config).trials()["state"].tolist() == ["COMPLETE"] * 2
