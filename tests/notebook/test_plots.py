"""Figures refuse arguments that are not of the study, and name the extra that they need."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

import sweeper.dashboard
from sweeper.errors import SetupError, StudyError
from sweeper.notebook.plots import Plots
from sweeper.rundir import RunDir


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda p: p.history("val_acuracy"),
            "metric: 'val_acuracy' is not an objective of the study; did",
        ),
        (lambda p: p.history(by="tme"), "by: 'tme' .* did you mean 'time'?"),
        (lambda p: p.curves("loss"), "metric: 'loss' is not a recorded metric of the study"),
        (
            lambda p: p.curves(phase="train"),
            "phase: 'train', but val_accuracy has no phases, which only alternating training has; "
            "leave it out; metrics are 'train_loss'",
        ),
        (lambda p: p.history("val_loss"), "metric: 'val_loss' is not an objective of the study"),
        (lambda p: p.curves(trials=[0, True]), "trials: True is not the number of a trial"),
        (lambda p: p.curves(trials=[[0]]), r"trials: \[0\] is not the number of a trial"),
        (lambda p: p.curves(trials=range(7)), "trials: 7 trials; give at most 6"),
        (lambda p: p.slices("lr"), "params: 'lr'; give a list"),
        (lambda p: p.slices([]), r"params: \[\]; give a list"),
        (lambda p: p.slices(3), "params: 3; give a list"),
        (lambda p: p.history(trials="3"), "trials: '3' is not the number of a trial"),
        (lambda p: p.history(trials=1.0), r"trials: 1\.0 is not the number of a trial"),
        (lambda p: p.curves(""), "metric: '' is not a recorded metric"),
        (
            lambda p: p.parallel(["lrr"]),
            "params: 'lrr' is not a parameter of the study; did you mean 'lr'?",
        ),
        (lambda p: p.importance("x"), "metric: 'x' is not an objective of the study"),
        (lambda p: p.pareto("val_accuracy"), "metrics: 'val_accuracy'; give two objectives"),
        (lambda p: p.pareto(3), "metrics: 3; give two objectives"),
    ],
)
def test_wrong_arguments_are_refused(
    run_dir: RunDir, draw: Callable[[Plots], object], message: str
) -> None:
    with pytest.raises(StudyError, match=rf"results\.plot: {message}"):
        draw(Plots(run_dir))


def test_the_text_of_plots_lists_the_charts(run_dir: RunDir) -> None:
    assert repr(Plots(run_dir)) == (
        f"plots of {run_dir.root}: history(), curves(), parallel(), slices(), importance(), "
        "execution(), pareto()"
    )


def test_without_matplotlib_the_extra_is_named(
    run_dir: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [it for it in sys.modules if it.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "sweeper.dashboard.figures", raising=False)
    monkeypatch.delattr(sweeper.dashboard, "figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SetupError, match=r"pip install 'sweeper-jax\[plot\]'"):
        Plots(run_dir).history()
