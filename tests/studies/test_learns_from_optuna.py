"""An Optuna study is imported, its space widened, searched further, killed and resumed."""

from __future__ import annotations

import math
import signal
from pathlib import Path

import optuna
import pytest

from sweeper.faults import VARIABLE
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.study.optuna_storage import open_storage
from tests.command_line import CommandLine, settings
from tests.digest import deterministic_digest
from tests.processes import start

N_EARLIER = 200
WIDER = settings(
    "study.n_trials=100",
    "search.optimizer.lr.low=1e-5",
    "search.optimizer.lr.high=1.0",
    "search.optimizer.weight_decay={type='float',low=0.0,high=0.5}",
)


def stored(path: Path) -> str:
    """The URL of an Optuna study of 200 trials in the space that `STUDY` searches."""
    url, memory = f"sqlite:///{path}", optuna.storages.InMemoryStorage()
    sampler = optuna.samplers.TPESampler(seed=0)
    study = optuna.create_study(storage=memory, study_name="old", sampler=sampler)

    def loss(trial: optuna.Trial) -> float:
        epochs = trial.suggest_int("epochs", 2, 4)
        rate = math.log10(trial.suggest_float("lr", 1e-4, 1e-1, log=True))
        return 0.3 + 0.1 * (rate + 1.5) ** 2 - 0.02 * epochs

    study.optimize(loss, n_trials=N_EARLIER)
    open_storage(url)
    optuna.copy_study(from_study_name="old", from_storage=memory, to_storage=url)
    return url


@pytest.mark.slow
def test_a_study_that_learns_and_is_killed_ends_with_the_same_rows(command: CommandLine) -> None:
    command.write()
    names = ("--map", "lr=optimizer.lr", "--map", "epochs=train.epochs", "--metric", "val_loss")
    assert command("import-optuna", stored(command.directory / "old.db"), *names).returncode == 0
    learning = ("--learn-from", "runs/old", "--quiet")
    digests: list[str] = []
    for place in ("unbroken", "killed"):
        run = ("run", "study.toml", *WIDER, *settings(f"results.dir={place}"))
        if place == "killed":
            # `kill -9` once rounds are committed, within a round, and while one is committed
            for fault in (
                "ledger.close:end=kill@9",
                "train:end=kill@9",
                "ledger.close:begin=kill@7",
            ):
                environment = {VARIABLE: fault}
                arguments = [*run, *learning]
                with start(
                    command.directory, command.cache, arguments, environment=environment
                ) as process:
                    process.communicate(timeout=300)
                assert process.returncode == -signal.SIGKILL
        ended = command(*run, *learning)
        assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
        run_dir = RunDir(command.directory / place)
        status = read_status(run_dir)
        assert (status.state, sum(status.counts.values())) == ("finished", 100)
        assert status.learned == {str(command.directory / "runs" / "old"): N_EARLIER}
        digests.append(deterministic_digest(run_dir))
    assert digests[0] == digests[1]
