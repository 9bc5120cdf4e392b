"""Models with a state are kept, exported, loaded, continued and averaged with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from sklearn.datasets import load_digits

import sweeper
from sweeper import api
from sweeper.data.prepare import prepare
from sweeper.export import export
from sweeper.export.ensemble import measure_ensemble
from sweeper.export.ensemble_directory import export_ensemble
from sweeper.export.saved_model import SavedModel
from sweeper.models.stateful import arrays_of
from sweeper.programs.build import Programs
from sweeper.programs.continued import Continuation, read_start, spec_of
from sweeper.programs.saved_file import MODEL_FILE, read_saved
from sweeper.results.ensemble import write_ensemble
from tests.documents import GUIDES, code
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS
from tests.standalone import standalone

(NETS,) = (block for block in code("python", GUIDES["models-and-programs"]) if "BatchNorm" in block)
STUDY = (
    "model={kind='python', function='exported_nets:build', width=8}",
    "search={optimizer.lr={type='float', low=1e-3, high=1e-2, log=true}}",
    "train.epochs=3",
    "study.n_trials=2",
    "study.value=best",
    "results.keep_models=2",
    "results.save_optimizer=true",
    "execution.workers=0",
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished study, with its best model in best/."""
    directory = tmp_path_factory.mktemp("stateful")
    (directory / "exported_nets.py").write_text(NETS, encoding="utf-8")
    results = trained(study_in(directory, DIGITS, *STUDY))
    export(results.run_dir.root, None, 0, directory / "best")
    return directory


@pytest.fixture(scope="module")
def saved(directory: Path) -> SavedModel:
    return sweeper.load(directory / "best", base_dir=directory)


def test_predictions_have_the_recorded_loss_and_are_the_same_without_this_package(
    directory: Path, saved: SavedModel, tmp_path: Path
) -> None:
    x, _ = load_digits(return_X_y=True)
    calls = {"found": "load.outputs(given['rows'])", "again": "load.outputs(given['rows'])"}

    found = standalone(directory / "best", tmp_path, calls, rows=x[:100])

    np.testing.assert_allclose(found["found"], saved.outputs(x[:100]), rtol=1e-5, atol=1e-5)
    assert found["again"].tobytes() == found["found"].tobytes()


def test_it_predicts_with_the_state_of_the_epoch_that_is_judged(
    directory: Path, saved: SavedModel
) -> None:
    config = study_in(directory, DIGITS, *STUDY)
    data = prepare(config)
    outputs = jax.vmap(saved.model)(np.asarray(data.x_test, np.float32))
    row = sweeper.open_results(directory / "run").best(1).iloc[0]

    assert np.mean(np.argmax(outputs, 1) == data.y_test) == pytest.approx(row["test_accuracy"])


def test_it_loads_where_integers_have_another_size(directory: Path, saved: SavedModel) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 64))
    with jax.enable_x64(True):
        again = sweeper.load(directory / "best", base_dir=directory)
        np.testing.assert_allclose(again.outputs(rows), saved.outputs(rows), rtol=1e-5)


def test_its_file_names_each_part_of_the_state(directory: Path) -> None:
    names = read_saved(directory / "best").tensors
    kept = {name.removeprefix("untrained/") for name in names if name.startswith("untrained/")}
    assert kept == {
        "Normed.norm.batch_counter",
        "Normed.norm.batch_state_index/0",
        "Normed.norm.batch_state_index/1",
    }
    assert "model/first/weight" in names


def test_it_is_the_pair_that_equinox_reads_and_trains(
    directory: Path, saved: SavedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(directory))
    import exported_nets  # type: ignore[import-not-found]

    fresh = eqx.filter_eval_shape(exported_nets.build, 64, 10, jax.random.key(0), 8)
    model, state = eqx.tree_deserialise_leaves(directory / "best" / "model.eqx", fresh)

    assert eqx.tree_equal((saved.model.model, saved.model.state), (model, state), typematch=False)
    arrays = eqx.filter(saved.trained.model, eqx.is_inexact_array)
    updates, _ = saved.optimizer.update(arrays, saved.opt_state, arrays)
    assert jax.tree.structure(updates) == jax.tree.structure(arrays)


@pytest.mark.slow
def test_trials_start_from_its_state(directory: Path, saved: SavedModel) -> None:
    start = read_start(directory / "best" / MODEL_FILE, directory)
    program: Any = Programs(spec_of(start.file)).exact(start.settings)

    begun = Continuation(program, program, start, start.settings).state(7, start.settings, 0)

    assert eqx.tree_equal(
        begun.untrained[""], jax.tree.map(np.asarray, arrays_of(saved.model.state))
    )
    longer = ("train.epochs=1", f"results.dir={directory / 'more'}", "optimizer.lr=1e-9")
    config = study_in(directory, DIGITS, *STUDY, *longer, "search={}", "study.n_trials=1")
    api.run(config, continue_from=directory / "best" / MODEL_FILE)
    more = sweeper.open_results(directory / "more").best(1).iloc[0]
    best = sweeper.open_results(directory / "run").best(1).iloc[0]
    assert more["value"] == pytest.approx(best["value"], rel=0.1)


def test_a_float64_state_is_described_where_jax_has_float32(directory: Path) -> None:
    """As to continue from it in float32; JAX warns if it cannot convert to float64."""
    start = read_start(directory / "best" / MODEL_FILE, directory)
    spec = replace(spec_of(start.file), dtype="float64")
    network: Any
    (network,) = Programs(spec).networks(start.settings).values()

    counter, statistics = network.state.values()

    assert (counter.dtype, [one.dtype for one in statistics]) == ("int32", ["float64"] * 2)


@pytest.mark.slow
def test_an_ensemble_averages_its_predictions(directory: Path, tmp_path: Path) -> None:
    run_dir = sweeper.open_results(directory / "run").run_dir
    write_ensemble(run_dir, measure_ensemble(run_dir, 4))
    export_ensemble(run_dir.root, tmp_path / "together")
    x, _ = load_digits(return_X_y=True)
    calls = {"found": "load.predict(given['rows'])"}

    found = standalone(tmp_path / "together", tmp_path, calls, rows=x[:50])["found"]

    together = sweeper.load(tmp_path / "together", base_dir=directory)
    np.testing.assert_array_equal(found, together.predict(x[:50]))
