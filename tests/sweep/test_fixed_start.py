"""The column `fixed_start` says whether trials began with the same weights, whatever the key."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from sweeper.config import StudyConfig
from tests import in_process
from tests.in_process import study_in
from tests.small_studies import DIGITS

NETS = """\
import equinox as eqx, jax, jax.numpy as jnp


def pretrained(in_size, out_size, key, scale=1.0):
    linear = eqx.nn.Linear(in_size, out_size, key=jax.random.key(0))
    return eqx.tree_at(lambda linear: linear.weight, linear, scale * linear.weight)


def mixed(in_size, out_size, key, is_drawn=False):
    return eqx.nn.Linear(in_size, out_size, key=key if is_drawn else jax.random.key(0))
"""
MLP = 'kind = "mlp"\ndepth = 2\nwidth = 16\n'
SMALL = ("data.name=iris", "study.n_trials=2", "train.epochs=1", "execution.workers=0")


def study(directory: Path, model: str, *overrides: str) -> StudyConfig:
    (directory / "nets.py").write_text(NETS, encoding="utf-8")
    text = DIGITS.partition("[search]")[0].replace(MLP, model)
    return study_in(directory, text, *SMALL, *overrides)


def trained(config: StudyConfig) -> pd.DataFrame:
    trials = in_process.trained(config).trials()
    assert trials["state"].tolist() == ["COMPLETE"] * len(trials)
    return trials


def test_replicates_with_a_declared_fixed_start_differ_by_the_data_order(
    tmp_path: Path,
) -> None:
    model = 'kind = "python"\nfunction = "nets:pretrained"\nfixed_start = true\n'
    trials = trained(study(tmp_path, model, "study.replicates=2", "train.batch_size=16"))

    assert trials["fixed_start"].tolist() == [True, True]
    assert (trials["value_std"] > 0).all()


@pytest.mark.filterwarnings("ignore:.*same initial weights for every key")
def test_the_column_is_recorded_for_each_trial(tmp_path: Path) -> None:
    model = 'kind = "python"\nfunction = "nets:mixed"\n'
    searched = "search.model={is_drawn={type='categorical',choices=[true,false]}}"
    trials = trained(study(tmp_path, model, searched, "study.sampler.name=grid"))

    assert (trials["fixed_start"] != trials["params_is_drawn"]).all()
    assert set(trials["fixed_start"]) == {True, False}


def test_studies_without_a_user_defined_model_lack_the_column(tmp_path: Path) -> None:
    assert "fixed_start" not in trained(study(tmp_path, MLP, "study.n_trials=1"))
