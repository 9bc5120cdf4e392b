"""A forked command behaves like the program that a user starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.faults import VARIABLE
from tests.command_line import CommandLine, settings, wait_for
from tests.forking import Fork, can_fork, forked, run_code
from tests.processes import environment_of, is_alive, start


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
    with start(command.directory, command.cache, arguments, forked=False) as process:
        out, said = process.communicate()
    done = forked(arguments, command.directory, environment_of(command.cache), timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (process.returncode, out, said)


def test_what_a_fork_prints_goes_where_it_is_not_redirected(
    command: CommandLine, capfd: pytest.CaptureFixture[str]
) -> None:
    fork = Fork(
        ["-m", "sweeper", "status", "runs/none"],
        cwd=command.directory,
        env=environment_of(command.cache),
        stdout=subprocess.PIPE,
    )
    assert fork.communicate(timeout=60)[0] == b""
    assert "runs/none" in capfd.readouterr().err


def test_a_forked_command_has_its_own_directory_and_environment(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "nonsense")
    assert VARIABLE in command("validate", "study.toml").stderr
    monkeypatch.delenv(VARIABLE)
    here = Path.cwd()
    assert "study.toml" in command("validate", "study.toml").stderr
    assert Path.cwd() == here


CODE = """\
import os, signal, sys
print(sys.argv[1:], os.getcwd(), os.environ["GIVEN"], flush=True)
print("an error", file=sys.stderr, flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_forked_code_ends_like_that_of_a_new_python(end: str, tmp_path: Path) -> None:
    words, given = ["-c", CODE.format(end=end), "a", "b"], {**os.environ, "GIVEN": "x"}
    new = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=given, capture_output=True, text=True
    )
    done = run_code(*words[1:], directory=tmp_path, environment={"GIVEN": "x"})
    assert (done.returncode, done.stdout, done.stderr) == (new.returncode, new.stdout, new.stderr)
    assert done.stdout == f"['a', 'b'] {tmp_path} x\n"


def test_a_fork_can_be_asked_waited_for_and_stopped_as_a_process(command: CommandLine) -> None:
    command.write()
    words = ["run", "study.toml", *settings("study.n_trials=100_000")]
    with start(command.directory, command.cache, words, own_group=True) as process:
        assert isinstance(process, Fork)
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
        assert os.getpgid(process.pid) == process.pid
        wait_for("best val_loss", process)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == process.poll() == 130
    assert not is_alive(process.pid)


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
