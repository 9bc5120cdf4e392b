"""A study of `coupled` is planned, refused and trained like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper import api
from sweeper.data.dataset import Dataset
from sweeper.errors import StudyError
from sweeper.preflight.user_functions import check_coupled
from tests.in_process import prepared, study_in, trained
from tests.small_studies import COUPLED, write_mixture

OWN = """
import jax
import jax.numpy as jnp


def losses(models, batch, key):
    guess = jax.vmap(models["teacher"])(batch.x)
    told = jax.lax.stop_gradient(guess)
    return {
        "teacher": jnp.mean((guess - batch.y) ** 2),
        "pupil": jnp.mean((jax.vmap(models["pupil"])(batch.x) - told) ** 2),
    }


def half(models, batch, key):
    return {"teacher": losses(models, batch, key)["teacher"]}


def rows(models, batch, key):
    return {**losses(models, batch, key), "pupil": jax.vmap(models["pupil"])(batch.x)[:, 0]}


def wrong(models, batch, key):
    return models["nobody"](batch.x)
"""
# two models, one of which follows the other, on data with a target
PUPIL = (
    'data={source="sklearn",name="diabetes"}',
    "model={teacher={depth=1,width=8,out_size=1},pupil={depth=1,width=4,out_size=1}}",
    'optimizer={teacher={name="adam",lr=1e-2},pupil={name="sgd",lr=1e-2}}',
    'search={optimizer={pupil={lr={type="float",low=1e-3,high=1e-1,log=true}}}}',
    'train={program="coupled",objective="own:losses",task="numbers",epochs=3,batch_size=32}',
    "study.metric=val_loss_pupil",
)


def write_rows(directory: Path) -> None:
    """A mixture of two, and a user-defined objective next to it."""
    write_mixture(directory)
    (directory / "own.py").write_text(OWN)


def test_a_user_defined_objective_trains_each_model_by_its_loss(tmp_path: Path) -> None:
    write_rows(tmp_path)
    config = study_in(tmp_path, COUPLED, *PUPIL)

    results = trained(config)

    trials = results.trials()
    assert (trials["state"] == "COMPLETE").all()
    assert trials["final_val_loss_teacher"].nunique() == 4  # each has its own weights
    curves = results.metrics()
    assert {*curves["metric"]} >= {"train_loss_teacher", "val_loss_pupil"}


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The data of `PUPIL`."""
    return prepared(study_in(tmp_path_factory.mktemp("targets"), COUPLED, *PUPIL))


@pytest.mark.parametrize(
    ("objective", "found", "hint"),
    [
        (
            "own:half",
            "'own:half' returns losses of teacher, but the models are teacher, pupil",
            'return {"teacher": ..., "pupil": ...}',
        ),
        (
            "own:rows",
            "'own:rows' returns float32 of shape (4,) as the loss of pupil",
            "return one floating-point number per model, the mean over examples",
        ),
        (
            "own:wrong",
            "'own:wrong' raised KeyError: 'nobody' (own.py, line 24) for a batch whose x has shape "
            "(4, 10) and y (4, 1)",
            "fix the function",
        ),
        (
            "own:lossse",
            "no function 'lossse' in the module 'own'",
            "did you mean 'own:losses'?",
        ),
    ],
)
def test_an_objective_that_cannot_be_compiled_is_refused(
    objective: str, found: str, hint: str, tmp_path: Path, targets: Dataset
) -> None:
    write_rows(tmp_path)
    config = study_in(tmp_path, COUPLED, *PUPIL, f"train.objective={objective}")

    with pytest.raises(StudyError) as refusal:
        check_coupled(config, targets)

    (problem,) = refusal.value.problems
    assert (problem.key, problem.found, problem.hint) == ("train.objective", found, hint)


def test_a_generator_with_the_wrong_output_size_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path)
    config = study_in(tmp_path, COUPLED, "model.generator.out_size=3")

    with pytest.raises(StudyError) as refusal:
        api.check(config)

    (problem,) = refusal.value.problems
    assert problem.key == "model.generator.out_size"
    assert problem.found == "3 outputs, but the rows of the data have 2 features"


def test_plan_shows_the_modes_of_the_data(tmp_path: Path) -> None:
    write_rows(tmp_path)
    preview = api.plan(study_in(tmp_path, COUPLED)).as_dict()

    assert [mode["name"] for mode in preview["data"]["modes"]] == ["0", "1"]
    assert preview["data"]["outputs"] == 0
