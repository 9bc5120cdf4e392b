"""`plan --decay` shows to which arrays weight decay applies."""

from __future__ import annotations

import json

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
