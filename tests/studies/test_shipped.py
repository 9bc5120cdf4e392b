"""Each study file of the project trains unchanged, except for fewer trials and epochs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.results.read import open_results
from tests.command_line import CommandLine, settings

STUDIES = Path(__file__).parents[2] / "studies"
LONG = ("heat", "residual")  # whose structures take long to compile
NAMES = [
    pytest.param(name, marks=[pytest.mark.slow] * (name in LONG))
    for name in sorted(path.stem for path in STUDIES.glob("*.toml"))
]
EPOCHS = {"alternating": 16}  # to reach each phase


@pytest.mark.parametrize("name", NAMES)
def test_every_trial_of_it_completes(name: str, command: CommandLine) -> None:
    shutil.copytree(STUDIES, command.directory / "studies")
    _make_data((STUDIES / f"{name}.toml").read_text(encoding="utf-8"), command.directory)
    epochs, n_trials = EPOCHS.get(name, 1), 1 if name in LONG else 6

    done = command(
        "run",
        f"studies/{name}.toml",
        *settings(
            f"study.n_trials={n_trials}", f"train.epochs={epochs}", f"results.dir=runs/{name}"
        ),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    trials = open_results(command.directory / "runs" / name).trials()
    assert set(trials["state"]) == {"COMPLETE"}, trials["error_message"]
    assert set(trials["epochs_done"]) == {epochs}


def _make_data(study: str, directory: Path) -> None:
    """Run the Python at the top of a study file for its data, if there is any."""
    given = re.search(r'^# Data: python -c "(.+)"$', study, re.MULTILINE)
    if given is not None:
        subprocess.run([sys.executable, "-c", given[1]], cwd=directory, check=True)
