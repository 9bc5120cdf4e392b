"""User-defined code that is edited between two studies of one process, as in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

import sweeper
from sweeper.config.user_code import forget_changed, load_function
from sweeper.models.decay import layer_class
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS

NETS = """\
import equinox as eqx
from sizes import WIDTH


def build(in_size, out_size, *, key):
    return eqx.nn.MLP(in_size, out_size, WIDTH, DEPTH, key=key)
"""
OWN = DIGITS.partition("[search]")[0].replace(
    'kind = "mlp"\ndepth = 2\nwidth = 16\n', 'kind = "python"\nfunction = "nets:build"\n'
)


def parameters(width: int, depth: int) -> int:
    return (64 + 1) * width + (depth - 1) * (width + 1) * width + (width + 1) * 10


@pytest.mark.slow
def test_a_study_trains_the_code_that_exists_at_its_start(tmp_path: Path) -> None:
    nets, sizes = tmp_path / "nets.py", tmp_path / "sizes.py"
    nets.write_text(NETS.replace("DEPTH", "1"))
    sizes.write_text("WIDTH = 8\n")
    config = study_in(tmp_path, OWN, "study.n_trials=2", "train.epochs=1")
    assert {*trained(config).trials()["n_parameters"]} == {parameters(8, 1)}

    nets.write_text(NETS.replace("DEPTH", "1 + 1"))
    sizes.write_text("WIDTH = 16 * 2\n")
    sweeper.run(config, fresh=True)
    found = sweeper.open_results(config.run_dir).trials()
    assert {*found["n_parameters"]} == {parameters(32, 2)}


def test_unchanged_modules_are_imported_once(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text("def one(): ...\n")
    (tmp_path / "edited.py").write_text("def one(): ...\n")
    kept, edited = (load_function(name, tmp_path) for name in ("kept:one", "edited:one"))

    (tmp_path / "edited.py").write_text("def one(): return 1\n")
    assert load_function("edited:one", tmp_path) is edited
    forget_changed(tmp_path)

    assert load_function("kept:one", tmp_path) is kept
    assert load_function("edited:one", tmp_path)() == 1


def test_modules_that_share_a_file_are_imported_again_together(tmp_path: Path) -> None:
    (tmp_path / "shared_layers.py").write_text("class Layer: ...\n")
    for name in ("first_model", "second_model"):
        (tmp_path / f"{name}.py").write_text("from shared_layers import Layer\n")
    names = ("shared_layers:Layer", "first_model:Layer", "second_model:Layer")
    before = [load_function(name, tmp_path) for name in names]

    (tmp_path / "second_model.py").write_text("from shared_layers import Layer\nEDITED = 1\n")
    forget_changed(tmp_path)
    after = [load_function(name, tmp_path) for name in names]

    assert len({*before}) == len({*after}) == 1


def test_a_class_that_a_decay_rule_names_is_imported_again(tmp_path: Path) -> None:
    (tmp_path / "edited_layers.py").write_text("class Layer: ...\n")
    before = layer_class("edited_layers:Layer", tmp_path)

    (tmp_path / "edited_layers.py").write_text("class Layer: ...\n\nEDITED = 1\n")
    forget_changed(tmp_path)

    assert layer_class("edited_layers:Layer", tmp_path) is not before
