"""A forked command behaves like the program that a user starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sweeper.faults import VARIABLE
from tests.command_line import CommandLine
from tests.forking import can_fork, forked
from tests.processes import environment_of, start


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["validate", "study.toml"],
        ["status", "runs/none"],
        ["no-such-command"],
        ["validate", "study.toml", "--set", "model.depth=deep"],
    ],
    ids=" ".join,
)
def test_a_forked_command_prints_and_exits_like_a_started_one(
    arguments: list[str], command: CommandLine
) -> None:
    command.write()
    with start(command.directory, command.cache, arguments) as process:
        out, said = process.communicate()
    done = forked(arguments, command.directory, environment_of(command.cache), timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (process.returncode, out, said)


def test_a_forked_command_has_its_own_directory_and_environment(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "nonsense")
    assert VARIABLE in command("validate", "study.toml").stderr
    monkeypatch.delenv(VARIABLE)
    here = Path.cwd()
    assert "study.toml" in command("validate", "study.toml").stderr
    assert Path.cwd() == here


def test_a_command_that_takes_too_long_is_killed(command: CommandLine) -> None:
    command.write()
    with pytest.raises(subprocess.TimeoutExpired):
        forked(["run", "study.toml"], command.directory, environment_of(command.cache), timeout=0.2)
    assert command("--version").returncode == 0


def test_environment_variables_read_on_import_need_a_new_process() -> None:
    environment = environment_of(Path("cache"))
    assert can_fork({**environment, VARIABLE: "x"})
    assert not can_fork({**environment, "JAX_ENABLE_X64": "1"})
    assert os.environ.get("JAX_ENABLE_X64") is None
