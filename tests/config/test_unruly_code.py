"""A user-defined model function that changes the directory, and raises a BaseException."""

from __future__ import annotations

import pytest

from sweeper.results.read import open_results
from tests.command_line import STUDY, CommandLine, settings
from tests.small_studies import bent

_OWN = """\
import os
import tempfile

import equinox as eqx


class Stop(BaseException):
    pass


def net(in_size, out_size, z, *, key):
    os.chdir(tempfile.gettempdir())
    if z == 777:
        raise Stop("no such z")
    return eqx.nn.MLP(in_size, out_size, 8, 1, key=key)
"""
_GIVEN = (
    'model={kind="python",function="own:net",z=1}',
    'search={"model.z"={type="int",low=1,high=100000}}',
    "study.enqueue=[{z=777}]",
    "study.n_trials=3",
    "train.epochs=1",
)


@pytest.mark.parametrize(
    "where",
    [
        ("execution.threads=0", "execution.workers=1"),
        pytest.param((), marks=pytest.mark.slow),
    ],
)
def test_a_trial_that_raises_fails_alone_and_results_stay_in_place(
    where: tuple[str, ...], command: CommandLine
) -> None:
    command.write(bent(STUDY, *_GIVEN))
    (command.directory / "own.py").write_text(_OWN, encoding="utf-8")
    with command.started("run", "study.toml", *settings(*where)) as process:
        shown, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "2 complete, 0 pruned, 1 failed\n" in shown
    assert "failed   trial 0  Stop: no such z (own.py, line 14)\n" in shown
    assert list(open_results(command.run_dir.root).trials()["state"]) == ["FAIL", *2 * ["COMPLETE"]]

    again = command("run", "study.toml", *settings(*where))
    assert again.returncode == 0, again.stderr
    assert "2 complete, 0 pruned, 1 failed\n" in again.stdout
