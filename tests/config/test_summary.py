"""A study is shown as tables in which all text is escaped."""

from __future__ import annotations

import re
from pathlib import Path

from tests.in_process import study_in
from tests.small_studies import DIGITS, bent


def test_a_study_shows_its_settings_and_what_it_searches(tmp_path: Path) -> None:
    layers = "search.model.width={type='int',low=8,high=32,base=2,when={'model.depth'=[1,2]}}"
    other = "search.optimizer.lr={type='float',low=1e-5,high=0.1,log=true,or=[0.5]}"
    html = study_in(tmp_path, bent(DIGITS, layers, other))._repr_html_()
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in html.split("<tr>")[1:]]
    assert rows == [
        ["objective", "minimize val_loss"],
        ["trials", "4, proposed by tpe"],
        ["data", "source sklearn, name digits"],
        ["model", "kind mlp"],
        ["optimizer", "name adamw"],
        [
            "train",
            "epochs 6, batch_size 64, program supervised, loss cross_entropy, "
            "metrics [&quot;accuracy&quot;]",
        ],
        ["results", str(tmp_path / "run")],
        ["searched setting", "values", "if"],
        ["model.depth", "1 to 3", ""],
        ["model.width", "8 to 32, powers of 2", "model.depth is 1 or 2"],
        ["model.activation", "relu, tanh", ""],
        ["optimizer.lr", "1e-05 to 0.1 or 0.5, log", ""],
        ["optimizer.weight_decay", "0.0 to 0.5", ""],
    ]


def test_the_text_of_a_study_is_short(tmp_path: Path) -> None:
    study = study_in(tmp_path, DIGITS)
    assert repr(study) == str(study)
    assert str(study).split("\n") == [
        "study digits",
        "  minimize val_loss, 4 trials, proposed by tpe",
        "  searches model.depth 1 to 3; model.width 8 to 32; "
        "model.activation relu, tanh; optimizer.lr 1e-05 to 0.1, log; "
        "optimizer.weight_decay 0.0 to 0.5",
        f"  in {tmp_path / 'run'}",
    ]
