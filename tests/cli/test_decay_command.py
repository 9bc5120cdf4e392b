"""`plan --decay` shows to which arrays weight decay applies."""

from __future__ import annotations

import json

from sweeper.cli import plan_tables
from sweeper.cli.tables import TextTable
from tests.command_line import STUDY, CommandLine

RULES = """
[optimizer.decay]
linear = { bias = true }
other = false

[train]
"""


def test_plan_shows_what_decays_and_by_which_rule(command: CommandLine) -> None:
    command.write(STUDY.replace("\n[train]\n", RULES))

    planned = command("plan", "study.toml", "--decay", "--json")
    (model,) = json.loads(planned.stdout)["models"]
    assert (planned.returncode, planned.stderr) == (0, "")
    assert [(a["path"], a["decay"], a["rule"]) for a in model["arrays"]] == [
        ("layers[0].weight", 0.0, "other"),
        ("layers[0].bias", 1.0, "linear.bias"),
        ("layers[1].weight", 0.0, "other"),
        ("layers[1].bias", 1.0, "linear.bias"),
    ]


def test_a_setting_that_is_true_or_false_is_named_with_or_without() -> None:
    settings = {"model.depth": 2, "model.layer_norm": True, "model.dropout": False}
    model = {"settings": settings, "part": "", "decayed_parameters": 1, "parameters": 2}
    preview = {"models": [{**model, "arrays": []}], "rules_without_use_in_some_trials": []}
    (table,) = plan_tables.decay(preview)
    assert isinstance(table, TextTable)
    said = "depth 2, with layer_norm, without dropout: weight decay applies to 1 of 2 parameters"
    assert table.title == said


def test_a_column_without_any_layer_is_left_out() -> None:
    """Flax does not say which layer an array is in."""
    array = {"path": "params['a']", "shape": [2], "layer": "", "decay": 0.0, "rule": "default"}
    model = {"settings": {}, "part": "", "decayed_parameters": 0, "parameters": 2}
    model["arrays"] = [array]
    preview = {"models": [model], "rules_without_use_in_some_trials": ["a"]}
    table, *others = plan_tables.decay(preview)
    assert isinstance(table, TextTable)
    assert [column.heading for column in table.columns] == ["array", "shape", "decays", "rule"]
    assert others == ["", "in some trials no array matches a"]
