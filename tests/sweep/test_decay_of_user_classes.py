"""A study whose decay rules name a class of the user, in worker processes and when it resumes."""

from __future__ import annotations

from pathlib import Path

import pytest

import sweeper
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS, bent

NETS = """\
import equinox as eqx


class Head(eqx.Module):
    linear: eqx.nn.Linear

    def __call__(self, x):
        return self.linear(x)


def build(in_size, out_size, *, key):
    return Head(eqx.nn.Linear(in_size, out_size, key=key))
"""
OWN = bent(
    DIGITS,
    "model={kind='python',function='decayed_head:build'}",
    "search={optimizer={lr={type='float',low=1e-3,high=1e-1}}}",
    "optimizer.weight_decay=0.5",
    "optimizer.decay={linear=false,other=true}",
    "train.epochs=2",
)
RULE = "optimizer.decay={'decayed_head:Head'=false,other=true}"


@pytest.mark.slow
def test_a_rule_for_a_user_defined_class_works_in_workers_and_on_resume(tmp_path: Path) -> None:
    for name in ("here", "workers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "decayed_head.py").write_text(NETS, encoding="utf-8")
    here = trained(study_in(tmp_path / "here", OWN, RULE)).trials()

    workers = (RULE, "execution.workers=1")
    trained(study_in(tmp_path / "workers", OWN, *workers, "study.n_trials=2"))
    sweeper.run(study_in(tmp_path / "workers", OWN, *workers))
    resumed = sweeper.open_results(tmp_path / "workers" / "run").trials()

    columns = ["trial_number", "state", "value"]
    assert [*here["state"]] == ["COMPLETE"] * 4
    assert resumed[columns].equals(here[columns])
