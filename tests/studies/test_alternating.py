"""A study of parts trained in turns: killed, resumed, in workers, and what it keeps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import sweeper
from sweeper.cli.new_study import begin_again
from sweeper.config import StudyConfig, load
from sweeper.data.prepare import prepare
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.results.read import Results
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from tests.command_line import CommandLine
from tests.in_process import study_in, trained
from tests.processes import finish, kill, start
from tests.small_studies import PARTS, bent

EPOCHS = 20
STUDY = bent(
    PARTS,
    "study.n_trials=5",
    "study.sampler.name=random",
    "data.split={val=0.2,test=0.1}",
    "model.c={input='a',kind='python',function='heads:build',layers=1}",
    f"train.epochs={EPOCHS}",
    "train.metrics=['r2']",
    "train.phases.fit={epochs=2,loss='data',trains=['a','b']}",
    "search={}",
    "search.train.phases.fit.lr={type='float',low=1e-4,high=1e-2,log=true,name='lr_fit'}",
    "search.train.phases.fit.epochs={type='int',low=1,high=2,name='fit_epochs'}",
    "schedule={parallel=2,round_epochs=2}",
    "execution={strategy='exact',threads=1,workers=0}",
    "results.keep_models=2",
)
# a pair of trials takes ten rounds of two epochs: the second is half done after 15
MIDDLE = 15
HEADS = """\
import equinox as eqx
def build(in_size, out_size, key, layers):
    return eqx.nn.MLP(in_size, out_size, 4, layers, key=key)
"""


def turns_in(directory: Path, *overrides: str) -> StudyConfig:
    directory.mkdir(exist_ok=True)
    (directory / "heads.py").write_text(HEADS, encoding="utf-8")
    return study_in(directory, STUDY, *overrides)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return trained(turns_in(tmp_path_factory.mktemp("turns")))


def test_metrics_name_the_phase_of_each_trial_and_epoch(results: Results) -> None:
    trials = results.trials().set_index("trial_number")
    metrics = results.metrics()

    assert trials["params_fit_epochs"].nunique() == 2
    for number, its in metrics.groupby("trial_number"):
        fit = int(trials.loc[number, "params_fit_epochs"])
        for epoch, phases in its.groupby("epoch")["phase"]:
            is_fit = epoch <= 3 or (epoch - 4) % (fit + 1) < fit
            assert set(phases) == {"fit" if is_fit else "follow"}
    names = {f"{part}_loss_{loss}" for part in ("train", "val") for loss in ("data", "follow")}
    assert set(metrics["metric"]) == names | {"val_r2"}


def test_a_kept_model_predicts_what_its_row_says(results: Results) -> None:
    config = sweeper.load_study(results.run_dir.root.parent / "study.toml")
    data = prepare(config)
    kept = results.trials().dropna(subset="model_path")
    assert len(kept) == 2
    for row in kept.itertuples():
        settings = config.settings_of({"lr_fit": row.params_lr_fit, "fit_epochs": 1})
        program = Programs(data_spec(config, data)).exact(settings)
        like = program.saver.model(program.layout.init(int(row.trial_number), settings))
        path = results.run_dir.root / str(row.model_path)
        outputs: Any = jax.vmap(eqx.tree_deserialise_leaves(path, like))(data.x_test)

        assert set(outputs) == {"a", "b", "c"}
        unit = data.y_scale[0] ** 2
        by_data = np.mean((outputs["b"] - data.y_test) ** 2) * unit
        by_b = np.mean((outputs["c"] - outputs["b"]) ** 2) * unit
        assert by_data == pytest.approx(row.test_loss_data, rel=1e-5)
        assert by_b == pytest.approx(row.test_loss_follow, rel=1e-5)


def values(of: Results, number: int) -> list[Any]:
    rows = of.metrics()
    rows = rows[rows["trial_number"] == number].sort_values(["epoch", "metric"])
    return rows[["epoch", "metric", "phase", "value"]].to_numpy().tolist()


def test_a_trial_is_run_again_bit_for_bit(results: Results, tmp_path: Path) -> None:
    first = results.run_dir.root
    begin_again(first, 3, first.parent / "again.toml")

    again = trained(load(first.parent / "again.toml", [f"results.dir={tmp_path / 'again'}"]))

    assert len(values(again, 3)) == 5 * EPOCHS
    assert values(again, 3) == values(results, 3)


@pytest.mark.slow
def test_a_trial_of_a_padded_class_is_run_again_bit_for_bit(tmp_path: Path) -> None:
    widths = "search.model.a.width={type='int',low=4,high=8,name='width_a'}"
    settings = ("execution.strategy=padded", "study.n_trials=3", "train.epochs=6", widths)
    first = trained(turns_in(tmp_path, *settings))
    begin_again(first.run_dir.root, 1, tmp_path / "again.toml")

    again = trained(load(tmp_path / "again.toml", [f"results.dir={tmp_path / 'again'}"]))

    assert "[trial.class.sizes]\n" in (tmp_path / "again.toml").read_text(encoding="utf-8")
    assert first.trials()["params_width_a"].nunique() > 1
    assert set(again.trials()["padded_parts"]) <= set(first.trials()["padded_parts"])
    assert values(again, 1) == values(first, 1)


def run_killed(directory: Path, cache: Path, *settings: str) -> Results:
    """Killed when two trials have ended and two are half done, then resumed to its end."""
    turns_in(directory)
    run_dir = RunDir(directory / "run")
    words = [word for setting in ("results.dir=run", *settings) for word in ("--set", setting)]
    process = start(directory, cache, ["run", "study.toml", "--quiet", *words])
    while not (run_dir.status.exists() and read_status(run_dir).round >= MIDDLE):
        assert process.poll() is None
        time.sleep(0.005)
    assert kill(process) == []
    finish(start(directory, cache, ["run", "study.toml", "--quiet", *words]))
    return sweeper.open_results(run_dir.root)


@pytest.mark.slow
def test_a_kill_changes_nothing_in_a_worker_with_a_program_for_each_phase(
    results: Results, compile_cache: Path, tmp_path: Path
) -> None:
    """It is a different class, so only the trained results are the same, bit for bit."""
    settings = ("execution.strategy=process", "execution.workers=1", "train.switching=flag")
    found = run_killed(tmp_path, compile_cache, *settings)

    assert set(found.trials()["place"]) == {"worker 0"}
    for name in ("trial_number", "value", "test_loss_follow", "epochs_done"):
        assert found.trials()[name].to_list() == results.trials()[name].to_list()
    order = ["trial_number", "epoch", "metric"]
    ours, theirs = (one.metrics().sort_values(order) for one in (found, results))
    for name in ("metric", "phase", "value"):
        assert ours[name].to_list() == theirs[name].to_list()


def test_plan_shows_parts_and_phases(command: CommandLine) -> None:
    turns_in(command.directory)

    validated, planned = command("validate", "study.toml"), command("plan", "study.toml")

    assert (validated.returncode, planned.returncode) == (0, 0), planned.stderr
    assert "train.phases.fit.epochs" in planned.stdout
