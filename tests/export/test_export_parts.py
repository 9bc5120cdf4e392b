"""Models of several parts are exported as one directory, and trials start from them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.stats import wasserstein_distance
from sklearn.datasets import load_diabetes

import sweeper
from sweeper.config import parse
from sweeper.data.prepare import prepare
from sweeper.errors import StudyError
from sweeper.export import export
from sweeper.export.saved_model import SavedModel
from sweeper.programs.generator_critic import directions
from sweeper.programs.saved_file import MODEL_FILE
from sweeper.rundir import RunDir
from sweeper.sweep.warm_start import describe_start, find_start
from sweeper.trial import words
from tests.in_process import study_in, trained
from tests.processes import ROOT
from tests.small_studies import COUPLED, PARTS, bent, write_mixture
from tests.standalone import standalone

SAVING = ("study.n_trials=3", "train.epochs=3", "results.save_optimizer=true")
NETS = """
import equinox as eqx
class Head(eqx.Module):
    mlp: eqx.nn.MLP
    def __call__(self, x, *, key):
        return self.mlp(x, key=key)
def build(in_size, out_size, key, layers):
    return Head(eqx.nn.MLP(in_size, out_size, 4, layers, key=key))
"""
STUDIES = {
    "alternating": bent(
        PARTS,
        *SAVING,
        "train.warmup.epochs=1",  # each phase occurs within the three epochs
        "train.phases.fit.epochs=1",
        "model.c={input='a',kind='python',function='heads:build',layers=1}",
        "data.split={val=0.2,test=0.1}",
        "search={optimizer={b1={type='float',low=0.5,high=0.9}}}",
    ),
    "coupled": bent(
        COUPLED,
        *SAVING,
        "model.generator={in_size=2,kind='python',function='heads:build',layers=1}",
        "search={optimizer={generator={lr={type='float',low=1e-4,high=1e-2,log=true}}}}",
    ),
}
WIDTH = {"alternating": 10, "coupled": 2}
# code for a fresh interpreter, which knows nothing of the study
ELSEWHERE = """
import sys
import jax, numpy as np, sweeper
saved = sweeper.load(sys.argv[1], trust_code=True)
outputs = jax.vmap(saved.model)(np.load(sys.argv[2]))
makes = "generator" in saved.model.parts
made = saved.generate(5) if makes else saved.predict(np.load(sys.argv[2]))
np.savez(sys.argv[3], made=made, **outputs)
"""


@pytest.fixture(
    scope="module", params=["alternating", pytest.param("coupled", marks=pytest.mark.slow)]
)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished study, with its best model exported."""
    directory = tmp_path_factory.mktemp(request.param)
    write_mixture(directory)
    (directory / "heads.py").write_text(NETS, encoding="utf-8")
    results = trained(study_in(directory, STUDIES[request.param]))
    export(results.run_dir.root, None, 0, directory / "best")
    return directory


@pytest.fixture
def saved(study: Path) -> SavedModel:
    return sweeper.load(study / "best", base_dir=study)


def width_of(saved: SavedModel) -> int:
    """The number of inputs of the model: those of a row, or noise."""
    return WIDTH[saved.settings.train.program]


def test_a_fresh_interpreter_elsewhere_has_the_same_outputs(
    study: Path, saved: SavedModel, tmp_path: Path
) -> None:
    x = np.random.default_rng(0).normal(size=(5, width_of(saved))).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    moved = study.with_name(f"{study.name} moved")
    study.rename(moved)  # neither study nor module is in its old place
    try:
        record = shutil.copy(moved / "best" / MODEL_FILE, tmp_path)
        (moved / "heads.py").rename(moved / "gone.py")
        done = subprocess.run(
            [sys.executable, "-c", ELSEWHERE, record, "x.npy", "found.npz"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )
    finally:
        (moved / "gone.py").rename(moved / "heads.py")
        moved.rename(study)

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    expected = dict(jax.vmap(saved.model)(x))
    expected["made"] = saved.generate(5) if "generator" in expected else saved.predict(x)
    with np.load(tmp_path / "found.npz") as found:
        assert {*found} == {*expected}
        for name, outputs in expected.items():
            np.testing.assert_array_equal(found[name], outputs)


def test_equinox_alone_gives_the_same(study: Path, saved: SavedModel, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(5, width_of(saved)))
    makes = "generator" in saved.model.parts
    calls = {"found": "load.generate(5, seed=3)" if makes else "load.predict(given['x'])"}

    found = standalone(study / "best", tmp_path, calls, x=x)["found"]

    expected = saved.generate(5, seed=3) if makes else saved.predict(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("study", ["alternating"], indirect=True)
def test_predictions_reach_the_recorded_metrics(study: Path, saved: SavedModel) -> None:
    row: Any = sweeper.open_results(study / "run").best(1).iloc[0]
    data = prepare(sweeper.load_study(study / "study.toml"))
    rows, targets = load_diabetes(return_X_y=True)
    of_test = [int(np.argmin(np.abs(saved.features(rows) - x).sum(1))) for x in data.x_test]

    squares = (saved.predict(rows[of_test]) - targets[of_test]) ** 2

    assert np.mean(squares) == pytest.approx(row["test_loss_data"], rel=1e-5)
    with pytest.raises(ValueError, match="none of the models generates rows"):
        saved.generate(3)


def test_coupled_models_without_a_generator_are_called(tmp_path: Path) -> None:
    """They neither predict nor generate."""
    train = "{program='coupled',objective='own:losses',task='numbers',epochs=1,batch_size=8}"
    parts = "{a={depth=0,width=1,out_size=2},b={input='a',depth=0,width=1,out_size=1}}"
    study = "train={}", f"train={train}", "model={}", f"model={parts}", "study.metric=val_loss_b"
    own = bent(COUPLED, *study, "optimizer={}", "optimizer={name='sgd',lr=1}", "data.mode=''")
    config = parse(own.replace('mode = ""\n', ""), tmp_path / "study.toml", ["search={}"])
    nothing: Any = None
    saved = SavedModel(nothing, config.settings_of({}), {}, "")
    with pytest.raises(ValueError, match=r"none of the models generates rows; use model$"):
        saved.generate(3)
    with pytest.raises(ValueError, match="make no joint predictions; `model` returns"):
        saved.predict(np.zeros((2, 2)))


@pytest.mark.parametrize("study", ["coupled"], indirect=True)
def test_rows_are_generated_in_the_units_of_the_data(study: Path, saved: SavedModel) -> None:
    """For the noise that trials are measured with, the distance to the data is that in the row."""
    row: Any = sweeper.open_results(study / "run").best(1).iloc[0]
    data = prepare(sweeper.load_study(study / "study.toml"))
    with np.load(study / "rows.npz") as file:
        x = file["x"]
    scaled = np.concatenate([data.x_train, data.x_val, data.x_test])
    slope = np.ptp(x, axis=0) / np.ptp(scaled, axis=0)
    offset = x.mean(axis=0) - scaled.mean(axis=0) * slope
    shared = jax.random.wrap_key_data(words(0, "latent of evaluation")[:2])
    noise = jax.random.normal(jax.random.fold_in(shared, 0), (len(data.x_val), 2))
    drawn = np.random.default_rng(7).standard_normal((40, 2)).astype(np.float32)

    made, rows = (
        jax.vmap(saved.model)(given)["generator"] * slope + offset for given in (noise, drawn)
    )

    ways = directions(0, 2)
    apart = [wasserstein_distance(made @ w, (data.x_val * slope + offset) @ w) for w in ways]
    assert np.mean(apart) == pytest.approx(row["final_val_sliced_wasserstein"], rel=1e-4)
    np.testing.assert_allclose(saved.generate(40, seed=7), rows, rtol=1e-4)
    with pytest.raises(ValueError, match="make no joint predictions"):
        saved.predict(x)


def test_each_part_has_its_own_optimizer_and_state(saved: SavedModel) -> None:
    parts = saved.model.parts
    assert {*saved.optimizer} == {*saved.opt_state} == {*parts}
    for name, part in parts.items():
        arrays = eqx.filter(part, eqx.is_inexact_array)
        gradients = jax.tree.map(lambda leaf: leaf * 0, arrays)
        updates, _ = saved.optimizer[name].update(gradients, saved.opt_state[name], arrays)
        fresh = saved.optimizer[name].init(arrays)
        assert jax.tree.structure(updates) == jax.tree.structure(arrays)
        assert jax.tree.structure(fresh) == jax.tree.structure(saved.opt_state[name])


def test_trials_start_from_a_model_with_the_same_parts(study: Path) -> None:
    start, told = study / "best" / MODEL_FILE, list[Any]()
    first = sweeper.open_results(study / "run")
    metric = str(first.study["settings"]["study"]["metric"])

    def values(directory: Path) -> np.ndarray:
        metrics = sweeper.open_results(directory).metrics()
        chosen = metrics[(metrics["metric"] == metric) & (metrics["epoch"] == 1)]
        return chosen.sort_values("trial_number")["value"].to_numpy()

    config = sweeper.load_study(study / "study.toml", [f"results.dir={study / 'more'}"])
    sweeper.run(config, continue_from=start, observer=told.append)

    assert not [event for event in told if hasattr(event, "message")]
    best = first.best(1).iloc[0]["value"]
    np.testing.assert_allclose(values(study / "more"), best, rtol=0.05)
    assert np.ptp(values(study / "more")) < np.ptp(values(study / "run"))

    part = "critic" if metric.endswith("wasserstein") else "b"
    saved_width = sweeper.load(start, base_dir=study).settings.model.parts[part].width
    wider = f"model.{part}.width={saved_width + 1}"
    for setting, expected in (
        (
            wider,
            f"model.{part}.width: {saved_width + 1}, but the model in {start} has {saved_width}; "
            f"write width = {saved_width}",
        ),
        (
            f"search.model.{part}.depth={{type='int',low=1,high=2,name='depth'}}",
            f"search.model.{part}.depth: trials with depth 2 cannot start from {start}, which has "
            f"1; remove it, and write depth = 1 in [model.{part}]",
        ),
    ):
        config = sweeper.load_study(study / "study.toml", [f"results.dir={study / 'no'}", setting])
        with pytest.raises(StudyError) as refusal:
            sweeper.run(config, continue_from=start)
        assert str(refusal.value) == f"overrides: {expected}"


ALL_ADAM = "optimizer={a={name='adam'},b={name='adam'},c={name='adam'}}"
ALL_RATES = [f"train.phases.{phase}.lr=1e-3" for phase in ("fit", "follow")]


@pytest.mark.parametrize("study", ["alternating"], indirect=True)
def test_other_optimizers_of_parts_start_fresh_and_say_whose_they_are(
    study: Path, tmp_path: Path
) -> None:
    text = bent(STUDIES["alternating"], "optimizer={}", "search={}", *ALL_RATES)
    (tmp_path / "study.toml").write_text(bent(text, ALL_ADAM), encoding="utf-8")
    shutil.copy(study / "heads.py", tmp_path)
    config = sweeper.load_study(tmp_path / "study.toml")
    start = find_start(config, RunDir(tmp_path / "run"), study / "best", fresh=True)
    assert start is not None
    assert [*describe_start(config, start, prepare(config))] == [
        "trials of adam (a), adam (b) and adam (c) start with its weights and a fresh optimizer: "
        "the saved state is for adam (all parts)"
    ]
