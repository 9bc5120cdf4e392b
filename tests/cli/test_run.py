"""`run`, `validate` and `plan` on a small study, as a user starts them."""

from __future__ import annotations

import json
import re
import signal
import time

import pytest

from sweeper.results.formatting import time_spent
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from tests.command_line import CommandLine, settings, wait_for
from tests.processes import finish

ENDLESS = settings("study.n_trials=100_000")
ENDLESS_ROUND = settings(
    "search.train.epochs={type='int', low=1_000_000, high=1_000_001}",
    "schedule.round_epochs=1_000_000",
)
DIVERGING = settings("search.optimizer.lr={type='float', low=1e36, high=1e38}")
WIDTHS = settings("search.model.width={type='int', low=8, high=10_000}")

NOTES = """
notes = open("notes.txt", "w")

def note(text):
    notes.write(text)
"""
NOTING = """
import jax.numpy as jnp
from notes import note

note("loaded")

def half(outputs, y):
    return jnp.asarray(0.5)
"""


@pytest.fixture(autouse=True)
def study(command: CommandLine) -> None:
    command.write()


def test_a_run_ends_with_the_best_trials_and_the_paths_of_the_results(
    command: CommandLine,
) -> None:
    done = command("run", "study.toml")
    run_dir = RunDir(command.directory / "runs" / "wine")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("12 complete, 0 pruned, 0 failed\n\n")
    assert lines[2:4] == [["best", "trials"], ["trial", "val_loss", "lr", "epochs"]]
    values = [float(line[1]) for line in lines[4:14]]
    assert values == sorted(values)
    places = lines.index(["trials", "runs/wine/trials.parquet"])
    comparison = " ".join(word for line in lines[15:places] for word in line)
    assert comparison.startswith("best val_loss ")
    assert "; majority class 1.067, logistic regression 0.08887 on the " in comparison
    assert "on the test rows: test_loss " in comparison
    assert "; majority class 1.09, logistic regression 0.03512" in comparison
    assert lines[places - 1 : places + 4] == [
        [],
        ["trials", "runs/wine/trials.parquet"],
        ["metrics", "runs/wine/metrics"],
        ["buckets", "runs/wine/buckets.parquet"],
        ["models", "runs/wine/models"],
    ]
    assert (
        " ".join(word for line in lines[places + 4 :] for word in line)
        == f"time: {time_spent(read_status(run_dir).spent_s)}"
    )
    said = done.stderr.splitlines()
    assert re.fullmatch(r"wine: 12 trials in .*runs/wine", said[0])
    assert any(line.startswith("best val_loss ") for line in said)
    assert said[-1].startswith("100 %, round ")


def test_json_is_all_that_a_quiet_run_prints_and_status_gives_the_same(
    command: CommandLine,
) -> None:
    done = command("run", "study.toml", "--quiet", "--json")
    shown = command("status", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["state"] == "finished"
    assert json.loads(done.stdout) == json.loads(shown.stdout)


def test_a_study_without_a_completed_trial_ends_with_1(command: CommandLine) -> None:
    done = command("run", "study.toml", *DIVERGING)
    assert done.returncode == 1, done.stderr
    assert "0 complete, 0 pruned, 12 diverged, 0 failed\n\n" in done.stdout
    assert re.search(r"\ndiverged  12 trials  the loss .* not finite.*\n\nno trial", done.stdout)
    status = command.status()
    assert (status["counts"]["PRUNED"], status["diverged"]) == (12, 12)
    assert " 12 diverged" in command("status").stdout
    assert "\nno trial completed; `python -m sweeper trials runs/wine` shows why" in done.stdout
    again = command("run", "study.toml", *DIVERGING, "--quiet")
    assert (again.returncode, again.stdout) == (1, "")
    assert "runs/wine: no trial completed (12 diverged); `python -m " in again.stderr
    _forget_diverged(command)
    assert " 12 diverged" in command("status").stdout, "earlier versions did not count them"


def _forget_diverged(command: CommandLine) -> None:
    """Write the status file as an earlier version did."""
    path = command.run_dir.status
    status = json.loads(path.read_text(encoding="utf-8"))
    del status["diverged"]
    path.write_text(json.dumps(status), encoding="utf-8")


def test_ctrl_c_commits_and_the_same_command_resumes(command: CommandLine) -> None:
    with command.started("run", "study.toml", *ENDLESS) as process:
        wait_for("best val_loss", process)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "waiting for the current buckets, then stopping; press Ctrl-C again" in said
    assert "run the same command to resume" in out
    stopped = command.status()
    assert stopped["state"] == "interrupted"
    shown = command("status").stdout
    assert (" unfinished, " in shown, "running" in shown.lower()) == (True, False)
    again = command("run", "study.toml", *settings("study.n_trials=1"))
    assert again.returncode == 0, again.stderr
    assert f"resuming after round {stopped['round']}" in again.stderr


def test_ctrl_c_twice_stops_at_once(command: CommandLine) -> None:
    with command.started("run", "study.toml", *ENDLESS_ROUND) as process:
        while not command.run_dir.status.exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        wait_for("waiting for the current buckets", process)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=5) == 130
    assert command.status()["state"] == "interrupted"


def test_validate_and_plan_write_nothing(command: CommandLine) -> None:
    validated = command("validate", "study.toml", "--json")
    planned = command("plan", "study.toml", "--json")
    assert json.loads(validated.stdout)["n_trials"] == 12
    buckets = json.loads(planned.stdout)["first_round"]["buckets"]
    assert [bucket["trials"] for bucket in buckets] == [[0, 1, 2, 3]]
    assert [path.name for path in command.directory.iterdir()] == ["study.toml"]


def test_plan_shows_what_splits_buckets_and_who_shares_a_program(command: CommandLine) -> None:
    done = command("plan", "study.toml", *WIDTHS)
    lines = done.stdout.splitlines()
    assert any(line.split() == ["model.width", "width", "9993", "yes"] for line in lines)
    assert any(line.split() == ["optimizer.lr", "lr", "-", "no"] for line in lines)
    assert lines[-1].startswith("0 % of the trials will have another of the same structure; ")
    assert "base = 2" in lines[-1]


def test_an_error_quotes_what_the_user_wrote(command: CommandLine) -> None:
    done = command("validate", "study.toml", *settings("model.widht=a [bold]wide[/bold] one"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'model.width'?" in done.stderr
    wrong = command("validate", "study.toml", *settings("model.activation=[bold]relu[/bold]"))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "[bold]relu[/bold]" in wrong.stderr


def test_a_study_continues_when_nobody_reads_its_output(command: CommandLine) -> None:
    with command.started("run", "study.toml") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stderr.close()
        code = process.wait(timeout=120)

    assert code == 0
    assert command.status()["state"] == "finished"


def test_a_damaged_compile_cache_is_fixed_silently(command: CommandLine) -> None:
    cache = command.directory / "cache"
    alone = CommandLine(command.directory, cache)
    assert alone("run", "study.toml").returncode == 0
    entries = [path for path in cache.rglob("*-cache") if "segment" in path.name]
    for entry in entries:
        entry.write_bytes(b"damaged")

    second = alone("run", "study.toml", "--fresh")
    again = alone("run", "study.toml", "--fresh")

    assert entries
    assert (second.returncode, again.returncode) == (0, 0)
    assert "Error reading" not in second.stderr
    assert alone.status()["n_cache_hits"] == len(entries)


def test_a_file_that_a_user_module_leaves_open_is_written(command: CommandLine) -> None:
    (command.directory / "notes.py").write_text(NOTES, encoding="utf-8")
    (command.directory / "own.py").write_text(NOTING, encoding="utf-8")
    words = ("run", "study.toml", *settings("train.metrics=['own:half']", "study.n_trials=1"))
    with command.started(*words) as process:
        finish(process)
    assert (command.directory / "notes.txt").read_text(encoding="utf-8") == "loaded"
