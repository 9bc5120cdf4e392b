"""Figures show the charts of the page, and notebooks show figures, studies and results."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sweeper.dashboard.blocks import axis, categories, points
from sweeper.notebook.plots import Plots
from sweeper.rundir import RunDir
from tests.dashboard.conftest import run_dir
from tests.documents import GUIDES, code, section
from tests.small_studies import DIGITS

__all__ = ["run_dir"]
pytestmark = pytest.mark.integration

DRAWN = {  # the labels of the axes of the first chart
    "history": ("trial number", "val_accuracy"),
    "curves": ("epoch", "val_accuracy"),
    "parallel": ("", ""),
    "slices": None,
    "importance": None,
    "execution": None,
    "pareto": None,
}
CELLS = (
    "import sweeper",
    "study = sweeper.load_study('study.toml', ['study.n_trials=2', 'train.epochs=1'])",
    "study",
    "results = sweeper.run(study)",
    "results",
    "results.plot.history()",
)


@pytest.mark.parametrize("name", DRAWN)
def test_each_figure_is_an_image(run_dir: RunDir, name: str) -> None:
    figure = getattr(Plots(run_dir), name)()
    image, size = figure._repr_png_()
    assert image.startswith(b"\x89PNG")
    pixels = int.from_bytes(image[16:20]), int.from_bytes(image[20:24])
    assert pixels == pytest.approx((2 * size["width"], 2 * size["height"]), abs=2)
    if (labels := DRAWN[name]) is not None:
        axes = figure.axes[0]
        assert (axes.get_xlabel(), axes.get_ylabel()) == labels


def test_a_figure_is_written_as_shown(
    run_dir: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run_dir.root, tmp_path / "runs" / "digits")
    monkeypatch.chdir(tmp_path)
    (block,) = code("python", section("Plots", GUIDES["python"]))
    exec(block, {})
    assert "<svg" in Path("slices.svg").read_text("utf-8")


def test_the_numbers_of_many_rounds_do_not_overlap() -> None:
    from sweeper.dashboard.figures import draw

    rounds = [str(number) for number in range(1, 601)]
    option = {
        "xAxis": categories("round", rounds),
        "yAxis": axis("time", "s"),
        "series": [{"type": "bar", "name": "training", "color": "#0072b2", "data": [1.0] * 600}],
    }
    figure = draw("many rounds", [[(option, 240), (option, 240)]])
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert len(boxes) > 5
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


@pytest.mark.parametrize("log", [False, True])
def test_a_range_of_one_value_is_in_the_middle(log: bool) -> None:
    from sweeper.dashboard.figures import draw

    only = points("complete", ("params_width", "value"), "complete") | {
        "color": "#0072b2",
        "symbolSize": 6,
        "data": [[8, 0.5], [8, 0.25]],
    }
    option = {
        "xAxis": axis("width", log=log, min=8, max=8),
        "yAxis": axis("val_loss"),
        "series": [only],
    }
    (axes,) = draw("one width", [[(option, 240)]]).axes
    assert axes.get_xlim() == ((4, 16) if log else (7.5, 8.5))
    (drawn,) = axes.collections
    assert len(drawn.get_offsets()) == 2


def test_the_ring_of_the_best_trial_is_not_cut_at_the_edge(run_dir: RunDir) -> None:
    axes = Plots(run_dir).history(by="time", better_half=True).axes[0]
    (ring,) = [it for it in axes.collections if not len(it.get_facecolors())]
    ((_, value),) = ring.get_offsets().tolist()
    low, high = axes.get_ylim()
    assert low <= value <= high
    assert not ring.get_clip_on()


def test_both_ends_of_a_parallel_axis_are_labelled(run_dir: RunDir) -> None:
    axes = Plots(run_dir).parallel(["lr"]).axes[0]
    last = [text for text in axes.texts if text.get_position()[0] > 1]
    assert [text.get_position()[1] for text in last if text.get_position()[1] in (0, 1)] == [0, 1]


def test_text_of_a_study_is_not_a_formula(run_dir: RunDir) -> None:
    from sweeper.dashboard.figures import draw

    figure = draw("costs $1 or $2\x1b", [], ["$x$"])
    assert figure.get_suptitle() == "costs \\$1 or \\$2\\x1b"
    figure._repr_png_()


def test_cells_show_a_study_its_card_its_page_and_a_figure(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    (tmp_path / "study.toml").write_text(DIGITS, "utf-8")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(it) for it in CELLS])
    nbclient.NotebookClient(book, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown: list[Any] = [
        [output for output in cell.outputs if "data" in output] for cell in book.cells
    ]
    assert [len(outputs) for outputs in shown] == [0, 0, 1, 1, 1, 1]
    assert "2 of 2 trials" in shown[3][0]["data"]["text/html"]
    assert shown[3][0]["data"]["text/plain"].endswith("; finished")
    assert shown[4][0]["data"]["text/html"].startswith("<iframe srcdoc=")
    assert "image/png" in shown[5][0]["data"]
