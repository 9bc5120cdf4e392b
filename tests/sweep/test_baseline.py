"""A study measures its simple models once, next to training, and shows them at its end."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

import sweeper
from sweeper.api import check, plan
from sweeper.config import StudyConfig
from sweeper.dashboard.study import PublishedStudy
from sweeper.dashboard.views.status import status_view
from sweeper.export import export
from sweeper.results.baseline import read_baseline
from sweeper.rundir import RunDir
from tests.command_line import STUDY, CommandLine
from tests.in_process import study_in

SMALL = ("study.n_trials=2", "search={}", "optimizer.lr=1e-5", "train.metrics=['accuracy']")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyConfig:
    """A finished study whose trials learn almost nothing."""
    config = study_in(tmp_path_factory.mktemp("compared"), STUDY, *SMALL)
    sweeper.run(config)
    return config


def test_simple_models_are_written_next_to_the_results(study: StudyConfig) -> None:
    found = read_baseline(RunDir(study.run_dir))
    assert found is not None
    assert [model.name for model in found.models] == ["majority class", "logistic regression"]
    assert {*found.models[1].scores} == {
        *("val_loss", "val_accuracy", "test_loss", "test_accuracy")
    }


def test_a_resumed_study_keeps_them_and_a_new_one_finds_the_same(
    study: StudyConfig, tmp_path: Path
) -> None:
    path = RunDir(study.run_dir).baseline
    stamp, before = path.stat().st_mtime_ns, path.read_bytes()
    sweeper.run(study)
    assert path.stat().st_mtime_ns == stamp
    other = study_in(tmp_path, STUDY, *SMALL)
    sweeper.run(other)
    assert RunDir(other.run_dir).baseline.read_bytes() == before


def test_plan_shows_those_that_a_run_would_find(study: StudyConfig, tmp_path: Path) -> None:
    found = read_baseline(RunDir(study.run_dir))
    assert found is not None
    planned = plan(study_in(tmp_path, STUDY, *SMALL)).as_dict()["baseline"]
    assert planned == asdict(found)
    assert check(study).warnings == check(study_in(tmp_path, STUDY, *SMALL)).warnings


def test_a_damaged_file_is_written_again_by_the_next_run(
    study: StudyConfig, tmp_path: Path
) -> None:
    shutil.copytree(study.run_dir, tmp_path / "run")
    copy = study_in(tmp_path, STUDY, *SMALL)
    RunDir(copy.run_dir).baseline.write_text("{}", encoding="utf-8")
    sweeper.run(copy)
    assert RunDir(copy.run_dir).baseline.read_bytes() == RunDir(study.run_dir).baseline.read_bytes()


def test_best_the_page_and_the_model_card_show_them(
    study: StudyConfig, command: CommandLine, tmp_path: Path
) -> None:
    shown = command("best", str(study.run_dir)).stdout
    assert "simple models on the same rows" in shown
    assert "logistic regression" in shown
    assert "the best, is not better than logistic regression on the test rows" in shown

    facts, *notes = status_view(PublishedStudy(RunDir(study.run_dir)))[1:]
    found = read_baseline(RunDir(study.run_dir))
    assert found is not None
    scores = [f"{model.name} {model.scores['val_loss']:.4g}" for model in found.models]
    assert ["simple models", ", ".join(scores)] in facts["items"]
    assert any("not better than logistic regression" in note["text"] for note in notes)

    export(study.run_dir, None, 0, tmp_path / "best")
    card = (tmp_path / "best" / "README.md").read_text(encoding="utf-8")
    assert "Simple models, fitted to the same training rows, for comparison:" in card
    assert "| model | val_loss | " in card
    assert "| logistic regression | " in card
    assert "the best, is not better than logistic regression on the test rows" in card
