"""TabM is trained, resumed, exported and predicts, and refused where it has no meaning."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

import sweeper
from sweeper.errors import StudyError
from sweeper.export import export
from sweeper.export.reproduce import alone, compare_with_record
from sweeper.rundir import RunDir
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS
from tests.standalone import standalone

TABM = (
    "model={kind='tabm', ensemble_size=3, depth=2, width=8, dropout=0.1}",
    "search={optimizer.lr={type='float', low=1e-4, high=1e-2, log=true}}",
    "train.epochs=2",
    "train.metrics=[]",
    "study.n_trials=1",
)
NUMBERS = ("data.name=diabetes", "data.split.stratify=false", "train.loss=mse")
BINARY = ("data.name=breast_cancer", "train.loss=binary_cross_entropy")


PLE = (*NUMBERS, "model.numbers=ple", "model.n_bins=4")
PLR = (*NUMBERS, "model.numbers=plr", "model.n_frequencies=3", "model.embedding_size=2")
CASES = {"numbers": NUMBERS}
SLOW = {"classes": (), "plr": PLR, "one logit": BINARY, "ple": PLE}


@pytest.mark.parametrize(
    "case",
    [*CASES.values(), *(pytest.param(case, marks=pytest.mark.slow) for case in SLOW.values())],
    ids=[*CASES, *SLOW],
)
def test_an_export_predicts_the_same_without_this_package(
    case: tuple[str, ...], tmp_path: Path
) -> None:
    study = study_in(tmp_path, DIGITS, *TABM, *case)
    results = trained(study)
    export(results.run_dir.root, None, 0, tmp_path / "best")
    model = sweeper.load(tmp_path / "best")
    rows = np.random.default_rng(0).normal(size=(7, len(model.feature_names)))
    calls = {"found": "load.predict(given['rows'])"}
    found = standalone(tmp_path / "best", tmp_path, calls, rows=rows)["found"]
    np.testing.assert_allclose(found, model.predict(rows), rtol=1e-5)
    assert "TabM" in (tmp_path / "best" / "README.md").read_text(encoding="utf-8")


def test_the_kind_can_be_searched(tmp_path: Path) -> None:
    study = study_in(
        tmp_path,
        DIGITS,
        "model={depth=1, width=8, ensemble_size=2}",
        "search={model.kind={type='categorical', choices=['mlp', 'tabm']}, "
        "model.ensemble_size={type='int', low=2, high=3, when={model.kind=['tabm']}}}",
        "study.n_trials=4",
        "study.sampler={name='random'}",
        "train.epochs=1",
    )
    trials = trained(study).trials()
    sizes = dict(zip(trials["params_kind"], trials["n_parameters"], strict=True))
    assert sizes["mlp"] < sizes["tabm"]


@pytest.mark.slow
def test_trials_of_different_size_and_activation_share_programs_and_are_reproduced(
    tmp_path: Path,
) -> None:
    study = study_in(
        tmp_path,
        DIGITS,
        "model={ensemble_size=2, depth=1, width=8}",
        "search={model.kind={type='categorical', choices=['mlp', 'tabm']}, "
        "model.activation={type='categorical', choices=['tanh', 'relu']}, "
        "model.width={type='int', low=4, high=20}}",
        "study.n_trials=8",
        "study.sampler={name='random'}",
        "train.epochs=1",
        "execution.strategy='padded'",
        "results.keep_models=8",
    )
    results = trained(study)
    trials = results.trials()
    of_tabm = trials[trials["params_kind"] == "tabm"]
    assert set(of_tabm["params_activation"]) == {"tanh", "relu"}
    assert of_tabm["class_id"].nunique() == 1
    assert set(of_tabm["strategy"]) == {"padded"}
    number = int(of_tabm[of_tabm["params_activation"] == "relu"]["trial_number"].iloc[0])
    config, _ = alone(results.run_dir, number, tmp_path / "again")
    trained(config)
    assert compare_with_record(results.run_dir, RunDir(tmp_path / "again"), number).differing == 0
    export(results.run_dir.root, number, 0, tmp_path / "best")
    assert sweeper.load(tmp_path / "best").model.activation is jax.nn.relu


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.depth=0", "model.depth: TabM has at least one hidden layer"),
        ("model.layer_norm=true", "model.layer_norm"),
        ("model.ensemble_size=0", "model.ensemble_size"),
        ("train={program='own:Program', task='classes', epochs=2}", "not its members"),
    ],
)
def test_what_it_has_not_is_refused(change: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=message):
        study_in(tmp_path, DIGITS, *TABM, change)


KINDS = "search.model.kind={type='categorical', choices=['mlp', 'tabm']}"
OF_MLP = "when={model.kind='mlp'}"
ONLY_MLP = "search.model.kind={type='categorical', choices=['mlp']}"
SOME_KINDS = f"{KINDS[:-1]}, when={{model.activation='relu'}}}}"
ACTIVATIONS = "search.model.activation={type='categorical', choices=['relu', 'tanh']}"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["search.model.depth={type='categorical', choices=[1, 0]}"], "search.model.depth"),
        (["search.model.depth={type='int', low=1, high=3, or=[0]}"], "search.model.depth"),
        ([KINDS, "search.model.depth={type='int', low=0, high=3}"], "search.model.depth"),
        ([KINDS, "model.depth=0"], "model.depth"),
        (
            [KINDS, "model.depth=0", f"search.model.depth={{type='int', low=1, high=3, {OF_MLP}}}"],
            "model.depth",
        ),
        ([KINDS, f"search.model.depth={{type='int', low=0, high=3, {OF_MLP}}}"], ""),
        ([ONLY_MLP, "model.depth=0"], ""),
        (
            [
                *(ACTIVATIONS, SOME_KINDS, "model.kind='mlp'"),
                "search.model.depth={type='int', low=0, high=1, when={model.activation='tanh'}}",
            ],
            "",
        ),
    ],
)
def test_a_depth_of_0_is_refused_only_if_a_trial_with_it_is_a_tabm(
    changes: list[str], key: str, tmp_path: Path
) -> None:
    if not key:
        assert study_in(tmp_path, DIGITS, *TABM, *changes)
        return
    with pytest.raises(StudyError) as refused:
        study_in(tmp_path, DIGITS, *TABM, *changes)
    (problem,) = refused.value.problems
    assert (problem.key, problem.hint) == (key, "write 1 or more")
    assert "TabM has at least one hidden layer" in problem.found
