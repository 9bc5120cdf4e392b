"""A study that searches floats of its own model, from plan to a repeated trial."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import sweeper
from sweeper import api
from sweeper.cli.new_study import begin_again
from sweeper.config import StudyConfig, load
from sweeper.errors import StudyError
from sweeper.export.directory import export
from sweeper.sweep.session.session import with_recorded_rules
from tests.in_process import study_in, trained
from tests.small_studies import bent

NETS = """\
import equinox as eqx
import jax


class Net(eqx.Module):
    linear: eqx.nn.Linear
    slope: float

    def __init__(self, in_size, out_size, key, slope, bound=1.0):
        self.linear = eqx.nn.Linear(in_size, out_size, key=key)
        self.slope = slope
        assert bound < 9

    def __call__(self, x):
        return jax.nn.leaky_relu(self.linear(x), self.slope)
"""
STUDY = """\
version = 1
study = { name = "floats", metric = "val_loss", direction = "minimize", n_trials = 2 }
data = { source = "sklearn", name = "iris" }
model = { kind = "python", function = "nets:Net" }
optimizer = { name = "adam", lr = 1e-2 }
train = { loss = "cross_entropy", epochs = 2, batch_size = 16 }
execution = { strategy = "exact", threads = 1, workers = 0 }

[search]
model.slope = { type = "float", low = 0.01, high = 0.3 }
"""
BOUND = "search.model.bound={type='float',low=1.0,high=2.0}"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., StudyConfig]:
    directory = tmp_path_factory.mktemp("floats")

    def of(name: str, *changes: str) -> StudyConfig:
        own = directory / name
        own.mkdir(exist_ok=True)
        (own / "nets.py").write_text(NETS, encoding="utf-8")
        return study_in(own, bent(STUDY, *changes))

    return of


@pytest.fixture(scope="module")
def results(study: Callable[..., StudyConfig]) -> sweeper.Results:
    return trained(study("new"))


def test_its_trials_share_a_program(results: sweeper.Results) -> None:
    trials = results.trials()

    assert [*trials["state"]] == ["COMPLETE", "COMPLETE"]
    assert trials["params_slope"].nunique() == 2
    assert trials["class_id"].nunique() == 1
    assert results.study["settings"]["traced_arguments"] == ["model.slope"]


def test_a_trial_of_it_is_run_again_bit_for_bit(results: sweeper.Results, tmp_path: Path) -> None:
    run_dir = results.run_dir.root
    begin_again(run_dir, 1, run_dir.parent / "again.toml")

    again = trained(load(run_dir.parent / "again.toml", [f"results.dir={tmp_path / 'again'}"]))

    one, other = (found.trial(1) for found in (results, again))
    assert one is not None
    assert other is not None
    columns = ["value", "final_train_loss", "test_loss", "class_id"]
    assert [one[name] for name in columns] == [other[name] for name in columns]


def test_an_exported_model_has_the_float_of_its_trial_and_trials_start_from_it(
    study: Callable[..., StudyConfig], results: sweeper.Results, tmp_path: Path
) -> None:
    best, run_dir = results.best(1).iloc[0], results.run_dir.root

    export(run_dir, None, 0, tmp_path / "best")
    model = sweeper.load(tmp_path / "best", base_dir=run_dir.parent).model

    assert type(model.slope) is float
    assert model.slope == best["params_slope"]
    same = study("from", "search={}", "study.n_trials=1", f"model.slope={model.slope}")
    assert sweeper.run(same, continue_from=tmp_path / "best").state == "finished"
    with pytest.raises(StudyError, match=r"cannot start from .*, which has 0\.\d"):
        sweeper.run(study("other"), continue_from=tmp_path / "best")


def test_an_mlp_next_to_models_with_traced_floats_is_exported_without_their_code(
    study: Callable[..., StudyConfig], tmp_path: Path
) -> None:
    mixed = (
        "model={function='nets:Net',depth=1,width=4}",
        "search.model.kind={type='categorical',choices=['mlp','python']}",
        "study.enqueue=[{kind='mlp'}]",
        "study.n_trials=1",
    )
    run_dir = trained(study("mixed", *mixed)).run_dir

    export(run_dir.root, 0, 0, tmp_path / "mlp")

    model = sweeper.load(tmp_path / "mlp")
    assert model.settings.model.kind == "mlp"
    assert load(tmp_path / "mlp" / "trial.toml").trial is not None
    assert not (tmp_path / "mlp" / "nets.py").exists()
    assert "own code" not in (tmp_path / "mlp" / "README.md").read_text(encoding="utf-8")


def test_a_study_that_began_without_traced_floats_goes_on_without(
    study: Callable[..., StudyConfig], results: sweeper.Results
) -> None:
    old = trained(study("old", "traced_arguments=[]", "study.n_trials=1"))
    assert "traced_arguments" not in old.study["settings"]
    config = study("old")

    trials = trained(config).trials()

    assert with_recorded_rules(config).traced_arguments == ()
    assert with_recorded_rules(config, fresh=True).traced_arguments is None
    assert with_recorded_rules(study("new")).traced_arguments == ("model.slope",)
    assert trials["class_id"].nunique() == 2
    expected = results.trials()["value"].to_numpy()
    assert trials["value"].to_numpy() == pytest.approx(expected, rel=1e-5)


TAKES = r"at least [^;,]+"


@pytest.mark.slow
def test_validate_and_plan_give_the_same_warning(study: Callable[..., StudyConfig]) -> None:
    config = study("other", BOUND)

    preview, checked = api.plan(config), api.check(config)

    (warning,) = (one for one in checked.warnings if "is continuous" in one)
    # each measures how long the model compiles
    notes = [re.sub(TAKES, "", note) for note in preview.as_dict()["notes"]]
    assert re.sub(TAKES, "", warning) in notes and re.search(TAKES, warning)
    assert warning.startswith("search.model.bound")
    assert "Python code needs its value (nets.py, line 12)" in warning
    space = {row["setting"]: row["splits_buckets"] for row in preview.as_dict()["space"]}
    assert space == {"model.slope": "no", "model.bound": "yes"}
