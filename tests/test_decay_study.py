"""A study whose decay follows rules is planned, run and gone on with from the command line."""

from __future__ import annotations

import json

from tests.command_line import STUDY, CommandLine

RULES = """
[optimizer.decay]
linear = { bias = true }
other = false

[train]
"""


def test_plan_shows_what_decays_and_a_study_keeps_to_its_rules(command: CommandLine) -> None:
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

    few = ("--set", "study.n_trials=1", "--quiet")
    assert command("run", "study.toml", *few).returncode == 0
    again = command("run", "study.toml", *few, "--set", "optimizer.decay.linear.bias=false")
    assert again.returncode == 2
    assert "optimizer.decay.linear.bias: was True when the study in" in again.stderr
