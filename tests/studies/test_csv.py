"""A user's own table: errors are named by column and line; when they are fixed, the study runs."""

from __future__ import annotations

import random

import sweeper
from tests.command_line import STUDY, CommandLine

STUDY_FILE = STUDY.replace('name = "wine"\nsplit', 'path = "fruit.csv"\ntarget = "kind"\nsplit')
STUDY_FILE = STUDY_FILE.replace('"sklearn"', '"csv"').replace("test = 0.1", "test = 0.1, STRATIFY")
STUDY_FILE = STUDY_FILE.replace("STRATIFY", "stratify = true").replace("= 32", "= 8")

HEADER = "weight,colour,ripe,kind"
COLOURS = {"apple": ["red", "green"], "lemon": ["yellow"], "plum": ["blue", "green"]}


def fruit(rows: int = 60) -> list[str]:
    """The lines of a table with a column of text and a target of text; line 1 is the header."""
    draws = random.Random(0)
    lines = [HEADER]
    for row in range(rows):
        kind = list(COLOURS)[row % 3]
        weight = draws.gauss(50 + 40 * (row % 3), 5)
        lines.append(f"{weight:.1f},{draws.choice(COLOURS[kind])},{draws.random():.2f},{kind}")
    return lines


def write(command: CommandLine, lines: list[str]) -> None:
    """Write the study file, and `lines` next to it as its data."""
    command.write(STUDY_FILE)
    (command.directory / "fruit.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_a_bad_table_is_refused_by_column_and_line_and_runs_once_fixed(
    command: CommandLine,
) -> None:
    lines = fruit()
    good = lines[6]
    lines[6] = "," + good.split(",", 1)[1]  # line 7 of the file
    lines[12] = lines[12].replace(lines[12].split(",")[1], "")
    lines.append("120.0,brown,0.5,kiwi")
    write(command, lines)
    refused = command("run", "study.toml")

    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.splitlines() == [
        "study.toml:12: data.path: column 'weight' of fruit.csv: 1 value is missing (line 7); "
        "write impute = \"median\", fix the file or add 'weight' to data.drop",
        "study.toml:12: data.path: column 'colour' of fruit.csv: 1 value is missing (line 13); "
        'write impute = "median" (a missing category is then a category of its own), fix the '
        "file or add 'colour' to data.drop",
        "study.toml:14: data.split.stratify: a class needs 3 rows to be in each part, but class "
        "'kiwi' has 1 (line 62); add rows, remove the class or write stratify = false",
    ]
    assert not command.run_dir.root.exists()

    # fixed
    write(command, fruit())
    done = command("run", "study.toml")
    assert done.returncode == 0, done.stderr
    results = sweeper.open_results(command.run_dir.root)
    trials, metrics = results.trials(), results.metrics()
    assert trials["trial_number"].tolist() == list(range(12))
    assert trials["state"].eq("COMPLETE").all()
    assert len(metrics) == 2 * trials["epochs_done"].sum()  # train_loss and val_loss
    best = results.best().iloc[0]
    assert best["value"] == trials["value"].min()
    assert f"{best['value']:.4g}" in done.stdout
    assert results.buckets()["lanes_live"].sum() == trials["epochs_done"].sum()

    # the same study does not resume with other data
    write(command, fruit(61))
    other = command("run", "study.toml")
    assert other.returncode == 2
    changed = "study.toml:10: data: the data has changed since the study in runs/wine began; "
    assert other.stderr.startswith(changed)

    # nor are its trials repeated on them, to be compared with the recorded values
    for words in (("confirm",), ("reproduce",), ("refit", "--to", "home")):
        refused = command(words[0], "runs/wine", *words[1:], "--quiet")
        assert (refused.returncode, refused.stdout) == (2, ""), words
        assert refused.stderr.startswith(f"{changed}restore it, or start the study over"), words
    assert not command.run_dir.confirm.exists()
    assert not command.run_dir.refit.exists()
    assert not (command.directory / "home").exists()
