"""A command ends at once if nothing is lost by that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

# a program with exit actions, before and after it declares that it ends at once
PROGRAM = """\
import atexit, sys
{before}
from sweeper.process import as_program, note_foreign_code

class Late:
    def __del__(self):
        print("torn down", flush=True)

late = Late()

def command():
    atexit.register(print, "registered")
    {command}

as_program(command)
"""


def ended(command: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """How a program with this code ends."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(command=command, before=before)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_exits_with_its_code_after_exit_handlers(code: int) -> None:
    done = ended(f"sys.exit({code})")
    assert (done.returncode, done.stdout, done.stderr) == (code, "registered\n", "")


def test_output_is_flushed_at_exit() -> None:
    done = ended("print('said', end='', file=sys.stderr); print('answer', end=''); sys.exit(0)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "answerregistered\n", "said")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("note_foreign_code(); sys.exit(0)", 0),
        ("sys.exit()", 0),
        ("sys.exit('a reason')", 1),
        ("raise RuntimeError", 1),
    ],
)
def test_python_is_torn_down_if_user_code_was_loaded(command: str, code: int) -> None:
    done = ended(command)
    assert (done.returncode, done.stdout) == (code, "registered\ntorn down\n")


def test_earlier_exit_handlers_still_run() -> None:
    done = ended("sys.exit(3)", before="atexit.register(print, 'before')")
    assert (done.returncode, done.stdout) == (3, "registered\nbefore\ntorn down\n")


def test_a_program_that_runs_the_module_continues_after_it(tmp_path: Path) -> None:
    words = ["-m", "cProfile", "-o", str(tmp_path / "profile"), "-m", "sweeper", "--version"]
    around = (
        "import runpy, sys\nsys.argv = ['sweeper', '--version']\ntry:\n"
        "    runpy.run_module('sweeper', run_name='__main__')\n"
        "except SystemExit:\n    print('goes on')\n    sys.exit(5)\n"
    )
    for arguments, code, last in ((words, 0, ""), (["-c", around], 5, "goes on\n")):
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout.partition("\n")[2]) == (code, last)
    assert (tmp_path / "profile").stat().st_size


def test_a_file_that_user_code_leaves_open_is_flushed(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "said = open('said.txt', 'w')\nsaid.write('all of it')\n\n\n"
        "def loss(outputs, y):\n    return ((outputs - y) ** 2).mean()\n",
        encoding="utf-8",
    )
    (tmp_path / "study.toml").write_text(
        'version = 1\n[study]\nname = "own"\nmetric = "val_loss"\ndirection = "minimize"\n'
        'n_trials = 1\n[data]\nsource = "sklearn"\nname = "diabetes"\n[model]\ndepth = 1\n'
        'width = 8\n[optimizer]\nname = "adam"\nlr = 1e-3\n[train]\nloss = "own:loss"\n'
        'task = "numbers"\nepochs = 1\nbatch_size = 32\n',
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "sweeper", "validate", "study.toml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "said.txt").read_text(encoding="utf-8") == "all of it"
