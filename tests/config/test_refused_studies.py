"""Studies that cannot run are refused with line, key and fix, before any file is written."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command_line import STUDY, CommandLine, contents, settings, wait_for

LOG_OF_0 = 'optimizer.weight_decay = { type = "float", low = 0.0'
# the replaced text, its replacement; then the exit code and the only line of output
BROKEN = {
    "text for a number": (
        ("n_trials = 12", 'n_trials = "many"'),
        2,
        "study.toml:7: study.n_trials: 'many' is not an integer; write an integer",
    ),
    "an unknown setting": (
        ("width = 8", "width = 8\ndropuot = 0.1"),
        2,
        "study.toml:19: model.dropuot: no such setting; did you mean 'model.dropout'?",
    ),
    "an unknown table": (
        ("[schedule]", "[shedule]"),
        2,
        "study.toml:34: shedule: no such setting; did you mean 'schedule'?",
    ),
    "a search of no setting": (
        ("optimizer.lr = {", "optimizer.rl = {"),
        2,
        "study.toml:31: search.optimizer.rl: no such setting; did you mean 'optimizer.lr'?",
    ),
    "an unknown sampler": (
        ('"tpe", n_startup_trials = 4', '"tep"'),
        2,
        "study.toml:8: study.sampler.name: no sampler 'tep'; did you mean 'tpe'?",
    ),
    "an unknown option of a sampler": (
        ("n_startup_trials", "n_startup"),
        2,
        "study.toml:8: study.sampler.n_startup: 'tpe' has no such option; its options are ",
    ),
    "low above high": (
        ("low = 2, high = 4", "low = 5, high = 4"),
        2,
        "study.toml:32: search.train.epochs.low: ",
    ),
    "a logarithm of 0": (
        ('optimizer.lr = { type = "float", low = 1e-4', LOG_OF_0),
        2,
        "study.toml:31: search.optimizer.weight_decay.low: log with low 0.0; ",
    ),
    "a metric that is not reported": (
        ('"val_loss"', '"val_accuracy"'),
        2,
        "study.toml:5: study.metric: ",
    ),
    "a missing setting": (
        ("batch_size = 32\n", ""),
        2,
        "study.toml:24: train.batch_size: missing; write batch_size = ...",
    ),
    "no TOML": (
        ("width = 8", "width = "),
        2,
        "study.toml:18: ",
    ),
    "a missing data file": (
        ('source = "sklearn"\nname = "wine"', 'source = "csv"\npath = "rows.csv"\ntarget = "y"'),
        3,
        "study.toml:12: data.path: no file 'rows.csv' in ",
    ),
    "a batch larger than the training part": (
        ("batch_size = 32", "batch_size = 512"),
        3,
        "study.toml:28: train.batch_size: a batch of 512 rows, but the training part has ",
    ),
    "a place below a file": (
        ("[execution]", '[results]\ndir = "study.toml/run"\n\n[execution]'),
        3,
        "study.toml:39: results.dir: cannot write to study.toml/run",
    ),
    "a place that the system keeps": (
        ("[execution]", '[results]\ndir = "/proc/run"\n\n[execution]'),
        3,
        "study.toml:39: results.dir: cannot write to /proc/run",
    ),
}


def refused(done: subprocess.CompletedProcess[str], code: int, *starts: str) -> None:
    """Check that a command printed only lines that begin this way, and exited with `code`."""
    said = done.stderr.splitlines()
    assert (done.returncode, done.stdout, len(said)) == (code, "", len(starts)), done.stderr
    for line, expected in zip(said, starts, strict=True):
        assert line.startswith(expected)
        assert re.search(r"; .+", line), f"names no fix: {line}"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> CommandLine:
    """A finished study; tests change a copy of it."""
    command = CommandLine(tmp_path_factory.mktemp("finished"), compile_cache)
    command.write()
    assert command("run", "study.toml", "--quiet").returncode == 0
    return command


@pytest.fixture
def used(finished: CommandLine, command: CommandLine) -> CommandLine:
    """A directory in which the study has been run."""
    shutil.copytree(finished.directory, command.directory, dirs_exist_ok=True)
    return command


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_study_file_is_refused(broken: str, command: CommandLine) -> None:
    (before, after), code, said = BROKEN[broken]
    command.write(STUDY.replace(before, after, 1))
    there = contents(command.directory)

    refused(command("run", "study.toml"), code, said)
    assert contents(command.directory) == there


def test_all_problems_of_a_study_file_are_reported_at_once(command: CommandLine) -> None:
    command.write(STUDY.replace("depth = 1", 'depth = "deep"'))

    refused(
        command("run", "study.toml", *settings("model.widht=4", "study.metric=val_los")),
        2,
        "--set: study.metric: 'val_los' is not reported; ",
        "--set: model.widht: no such setting; did you mean 'model.width'?",
        "study.toml:17: model.depth: 'deep' is not an integer; ",
    )


def test_a_missing_study_file_is_refused(command: CommandLine) -> None:
    command.write()

    refused(command("run", "studi.toml"), 2, "studi.toml: ")
    assert sorted(contents(command.directory)) == ["study.toml"]


def test_the_directory_of_another_study_is_refused(used: CommandLine) -> None:
    there = contents(used.directory)
    other = settings("study.name=beer", "study.seed=4", "results.dir=runs/wine")

    refused(
        used("run", "study.toml", *other),
        2,
        '--set: study.name: was "wine" when the study in runs/wine began, now "beer"; ',
        "--set: study.seed: was 0 when the study in runs/wine began, now 4; ",
    )
    assert contents(used.directory) == there


@pytest.mark.parametrize("more", [["--fresh"], settings("results.dir=runs/other")])
def test_problems_are_reported_before_a_directory_is_made_or_moved(
    more: list[str], used: CommandLine
) -> None:
    there = contents(used.directory)

    refused(
        used("run", "study.toml", *more, *settings("execution.costs=none.json")),
        3,
        "--set: execution.costs: no file 'none.json' in ",
    )
    assert contents(used.directory) == there


def test_a_directory_with_other_files_is_refused_and_never_moved(command: CommandLine) -> None:
    command.write()
    command.run_dir.root.mkdir(parents=True)
    (command.run_dir.root / "thesis.tex").write_text("dear")
    there = contents(command.directory)

    refused(
        command("run", "study.toml", "--fresh"),
        2,
        "study.toml: results.dir: runs/wine contains 'thesis.tex' but no ledger; ",
    )
    assert contents(command.directory) == there


def flip_a_digit(path: Path) -> None:
    """Change one bit in the value of a trial, as a bad disk does."""
    content = bytearray(path.read_bytes())
    place = content.index(b'"value":') + len(b'"value":0.')
    content[place] ^= 1
    path.write_bytes(content)


def empty(path: Path) -> None:
    """Cut a file to nothing, as a full disk does."""
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [flip_a_digit, empty])
def test_a_damaged_ledger_is_refused(harm, used: CommandLine) -> None:
    harm(used.run_dir.ledger)
    there = contents(used.directory)

    refused(used("run", "study.toml"), 3, "runs/wine/ledger.db: ")
    assert contents(used.directory) == there


def test_a_second_process_on_a_study_is_refused(command: CommandLine) -> None:
    command.write()
    endless = settings("study.n_trials=100_000")
    with command.started("run", "study.toml", *endless) as first:
        wait_for("best val_loss", first)
        for fresh in ([], ["--fresh"]):
            refused(
                command("run", "study.toml", *endless, *fresh),
                4,
                f"runs/wine: another process runs this study (pid {first.pid} on ",
            )
        assert first.poll() is None
    assert [path.name for path in command.run_dir.root.parent.iterdir()] == ["wine"]


def test_validate_refuses_the_same_directories_as_run(used: CommandLine) -> None:
    there = contents(used.directory)

    refused(used("validate", "study.toml", *settings("study.seed=4")), 2, "--set: study.seed: ")
    assert used("validate", "study.toml").returncode == 0
    assert contents(used.directory) == there
