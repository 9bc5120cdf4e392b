"""How many threads XLA has decides on last bits, so all processes of a study have as many."""

from __future__ import annotations

import os

import pandas as pd
import pytest

from sweeper.worker import XLA_THREADS
from tests.command_line import CommandLine, settings

# XLA parts the sums of a product over so many rows among its threads
LARGE_BATCHES = settings(
    "data.name=digits",
    "train.batch_size=512",
    "optimizer.clip_norm=0.1",
    "model.width=128",
    "model.depth=2",
)
OTHER = 1 + len(os.sched_getaffinity(0))  # a machine with another number of cores


@pytest.fixture(autouse=True)
def study(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    command.write()
    monkeypatch.delenv(XLA_THREADS, raising=False)


def trials(command: CommandLine, *more: str) -> pd.DataFrame:
    done = command("run", "study.toml", "--quiet", *more)
    assert done.returncode == 0, done.stderr
    return pd.read_parquet(command.run_dir.trials).set_index("trial_number")


def losses(found: pd.DataFrame) -> list[float]:
    return found["final_train_loss"].tolist()


def test_a_worker_with_one_core_gives_the_bits_of_a_thread(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(XLA_THREADS, "2")
    by_threads = trials(command, *LARGE_BATCHES)
    by_workers = trials(
        command,
        "--fresh",
        *LARGE_BATCHES,
        *settings("execution.strategy=process", "execution.workers=1"),
    )
    monkeypatch.setenv(XLA_THREADS, "1")
    by_one_thread = trials(command, "--fresh", *LARGE_BATCHES)

    assert by_workers["place"].str.startswith("worker").all()
    assert losses(by_workers) == losses(by_threads)
    assert losses(by_one_thread) != losses(by_threads)
    assert by_workers["xla_threads"].tolist() == [2] * len(by_workers)


def test_a_study_keeps_to_the_threads_that_it_began_with(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(XLA_THREADS, str(OTHER))
    trials(command, *settings("study.n_trials=4"))
    monkeypatch.delenv(XLA_THREADS)

    done = command("run", "study.toml", *settings("study.n_trials=8"))

    found = pd.read_parquet(command.run_dir.trials)
    assert f"XLA keeps to {OTHER} threads" in done.stderr
    assert found["xla_threads"].tolist() == [OTHER] * 8
    assert not found["boundary"].fillna("").str.contains("xla_threads").any()
    assert command.status()["xla_threads"] == OTHER


def test_rows_that_other_threads_trained_say_so(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(XLA_THREADS, str(OTHER))
    trials(command, *settings("study.n_trials=4"))
    monkeypatch.setenv(XLA_THREADS, str(OTHER + 1))

    found = trials(command, *settings("study.n_trials=8"))

    assert found["xla_threads"].tolist() == [OTHER] * 4 + [OTHER + 1] * 4
    told = f"xla_threads: {OTHER} -> {OTHER + 1}"
    assert found["boundary"].fillna("").str.contains(told).tolist() == [False] * 4 + [True] * 4


def test_a_trial_is_run_again_with_the_threads_that_it_had(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(XLA_THREADS, str(OTHER))
    trials(command, *LARGE_BATCHES)
    monkeypatch.delenv(XLA_THREADS)
    assert command("trial", str(command.run_dir.root), "3", "-o", "three.toml").returncode == 0
    again = (command.directory / "three.toml").read_text(encoding="utf-8")

    done = command("reproduce", str(command.run_dir.root), "3", "--quiet")

    assert f"xla_threads = {OTHER}\n" in again
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("bit-equal\n")
