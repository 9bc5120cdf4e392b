"""A plan is accepted only unchanged, and for its own study, data and device."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweeper
from sweeper import api
from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.errors import StudyError
from sweeper.rundir import RunDir
from sweeper.scheduler.cost import shipped
from sweeper.sweep.planning import make_forecast, plan_digests, read_plan
from tests.in_process import prepared, study_in
from tests.small_studies import DIGITS, PARTS, bent

WIDTHS = "search.model.width={type='int',low=16,high=64,base=2}"
STUDIES = {"mlp": bent(DIGITS, "search={}", WIDTHS), "parts": bent(PARTS, "optimizer.lr=1e-2")}


@pytest.fixture(params=STUDIES)
def study(request: pytest.FixtureRequest, tmp_path: Path) -> StudyConfig:
    return study_in(tmp_path, STUDIES[request.param]).with_parallel(32)


@pytest.fixture
def data(study: StudyConfig) -> Dataset:
    return prepared(study)


@pytest.fixture
def plan(study: StudyConfig, data: Dataset) -> dict[str, Any]:
    """The parts of the output of `plan --json` that are read again."""
    forecast = make_forecast(study, data, None).as_dict()
    return {"forecast": forecast, "digests": plan_digests(study, data, forecast)}


def written(plan: object, directory: Path) -> Path:
    path = directory / "plan.json"
    path.write_text(plan if isinstance(plan, str) else json.dumps(plan), encoding="utf-8")
    return path


def refusal(plan: object, config: StudyConfig, data: Dataset) -> str:
    with pytest.raises(StudyError) as refused:
        read_plan(written(plan, config.base_dir), config, data)
    message = str(refused.value)
    assert message.endswith("write it again with `python -m sweeper plan STUDY --json > plan.json`")
    return message


def test_a_study_follows_its_own_plan(
    study: StudyConfig, data: Dataset, plan: dict[str, Any]
) -> None:
    read = read_plan(written(plan, study.base_dir), study, data)
    assert read == make_forecast(study, data, None)


@pytest.mark.parametrize("first", [0, 1])
def test_a_plan_names_its_data_by_the_rows_of_the_first_fold_as_earlier_versions_did(
    first: int, study: StudyConfig, data: Dataset, plan: dict[str, Any]
) -> None:
    n_rows, n_val = len(data.x_train) + len(data.x_val), len(data.x_val)
    folds = np.where(np.arange(n_rows) < n_val, first, 1 - first)
    features = np.concatenate([data.x_train, data.x_val])
    scale = np.ones((2, data.n_features))
    of_folds = replace(data, x_train=features, x_val=data.x_val[:0], fold_of=folds)
    of_folds = replace(of_folds, fold_scale=scale, fold_shift=scale)

    digests = plan_digests(study, of_folds, plan["forecast"])

    assert (digests["data"] == plan["digests"]["data"]) == (first == 0)


def test_a_plan_of_a_study_with_other_settings_is_refused(
    study: StudyConfig, data: Dataset, plan: dict[str, Any]
) -> None:
    other = sweeper.load_study(study.base_dir / "study.toml", ["train.epochs=1"])
    assert "plan.json: study changed since it was written" in refusal(plan, other, data)


def test_a_plan_for_other_rows_is_refused(
    study: StudyConfig, data: Dataset, plan: dict[str, Any]
) -> None:
    fewer = replace(data, x_train=data.x_train[:-8], y_train=data.y_train[:-8])
    assert "data changed since" in refusal(plan, study, fewer)


def test_a_plan_for_other_costs_is_refused(
    study: StudyConfig, data: Dataset, plan: dict[str, Any]
) -> None:
    costs = {**shipped("cpu").as_dict(), "compile_base_s": 1.0}
    (study.base_dir / "costs.json").write_text(json.dumps({"model": costs}), encoding="utf-8")
    other = sweeper.load_study(study.base_dir / "study.toml", ["execution.costs=costs.json"])
    assert "device changed since" in refusal(plan, other, data)


@pytest.mark.parametrize("study", ["mlp"], indirect=True)
def test_a_study_that_has_begun_says_that_other_costs_have_no_effect(study: StudyConfig) -> None:
    costs = {**shipped("cpu").as_dict(), "compile_base_s": 1.0}
    (study.base_dir / "costs.json").write_text(json.dumps({"model": costs}), encoding="utf-8")
    said: list[str] = []
    for given in ("execution.threads=1", "execution.costs=costs.json", "execution.threads=1"):
        config = study_in(study.base_dir, STUDIES["mlp"], "study.n_trials=1", given)
        sweeper.run(config, observer=lambda event: said.append(str(event)))
    idle = [one for one in said if "execution.costs" in one]
    assert len(idle) == 1
    assert 'was not set when the lattice was planned and is "costs.json" now' in idle[0]


def test_an_edited_plan_is_refused(study: StudyConfig, data: Dataset, plan: dict[str, Any]) -> None:
    edited = {**plan, "forecast": {**plan["forecast"], "capacity": 0}}
    assert "forecast changed since" in refusal(edited, study, data)


@pytest.mark.parametrize("study", ["mlp"], indirect=True)
def test_a_plan_whose_other_contents_were_edited_is_refused(study: StudyConfig) -> None:
    data = prepared(study)
    whole = json.loads(json.dumps(api.plan(study).as_dict(), default=str))
    assert read_plan(written(whole, study.base_dir), study, data)
    for edit in ({"lattice": []}, {"lane_loop": "vmap"}, {"trials_outside_lattice": 3.0}):
        assert "other contents changed since" in refusal({**whole, **edit}, study, data)
    digests = {key: one for key, one in whole["digests"].items() if key != "other contents"}
    earlier = {**whole, "notes": ["of an earlier version"], "digests": digests}
    assert read_plan(written(earlier, study.base_dir), study, data)


def test_everything_that_changed_is_named(
    study: StudyConfig, data: Dataset, plan: dict[str, Any]
) -> None:
    other = sweeper.load_study(study.base_dir / "study.toml", ["train.epochs=1"])
    edited = {**plan, "forecast": {}}
    assert "study and forecast changed since" in refusal(edited, other, data)


def test_a_plan_that_cannot_be_a_forecast_is_refused(
    study: StudyConfig, data: Dataset, plan: dict[str, Any]
) -> None:
    forecast: dict[str, Any] = {"costs": 3}
    signed = {"forecast": forecast, "digests": plan_digests(study, data, forecast)}
    assert "not a plan that this version can read" in refusal(signed, study, data)


def test_settings_that_do_not_affect_a_plan_do_not_invalidate_it(
    study: StudyConfig, data: Dataset, plan: dict[str, Any]
) -> None:
    settings = [
        *("results.keep_models=1", "execution.threads=1", "execution.retries=3"),
        *("study.n_trials=999", "study.seed=5", "study.name=other", "schedule.parallel=5"),
    ]
    other = sweeper.load_study(study.base_dir / "study.toml", settings)
    assert read_plan(written(plan, study.base_dir), other, data)


@pytest.mark.parametrize("study", ["mlp"], indirect=True)
@pytest.mark.parametrize(
    "text", ["", "[]", "3", "{}", '"a"', "[" * 100_000, '{"digests": 3}', '{"digests": {}}']
)
def test_a_file_that_is_not_a_plan_is_refused(text: str, study: StudyConfig, data: Dataset) -> None:
    assert "not a plan that this version can read" in refusal(text, study, data)


@pytest.mark.parametrize("study", ["mlp"], indirect=True)
def test_a_plan_without_digests_is_refused(
    study: StudyConfig, data: Dataset, plan: dict[str, Any]
) -> None:
    """As earlier versions wrote them."""
    assert "KeyError: 'digests'" in refusal({"forecast": plan["forecast"]}, study, data)


@pytest.mark.parametrize("study", ["mlp"], indirect=True)
def test_nothing_from_a_refused_plan_is_recorded(study: StudyConfig, plan: dict[str, Any]) -> None:
    edited = {**plan, "forecast": {**plan["forecast"], "capacity": 0}}
    with pytest.raises(StudyError, match="forecast changed"):
        sweeper.run(study, plan_file=written(edited, study.base_dir))
    assert not RunDir(study.run_dir).ledger.exists()
