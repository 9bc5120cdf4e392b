"""The number of XLA threads affects last bits, so all processes of a study use the same."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pandas as pd
import pytest

from sweeper.executors.devices import XLA_THREADS
from sweeper.faults import VARIABLE
from tests.command_line import CommandLine, settings
from tests.forking import run_code

# JAX 0.10 divides its sums among threads
LARGE_BATCHES = settings(
    *("study.n_trials=2", "data.name=digits", "train.batch_size=256", "optimizer.clip_norm=0.1"),
    *("model.width=256", "model.depth=2", "search.train.epochs.low=4"),
)
PRODUCT = """\
import os, sys
import numpy as np

os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
import jax

x, y = np.random.default_rng(0).normal(size=(2, 360, 128)).astype(np.float32)
sys.stdout.write(np.asarray(jax.jit(lambda x, y: x.T @ y)(x, y)).tobytes().hex())
"""
OTHER = 1 + len(os.sched_getaffinity(0))  # a machine with a different number of cores


@pytest.fixture(autouse=True)
def study(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    command.write()
    monkeypatch.delenv(XLA_THREADS, raising=False)


def trials(command: CommandLine, *more: str) -> pd.DataFrame:
    done = command("run", "study.toml", "--quiet", *more)
    assert done.returncode == 0, done.stderr
    return pd.read_parquet(command.run_dir.trials).set_index("trial_number")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> Path:
    """Four trials of the study, as a machine with a different number of cores would train them."""
    there = CommandLine(tmp_path_factory.mktemp("begun"), compile_cache)
    there.write()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(XLA_THREADS, str(OTHER))
        trials(there, *settings("study.n_trials=4"))
    return there.run_dir.root


@pytest.fixture
def begun_elsewhere(begun: Path, command: CommandLine) -> None:
    shutil.copytree(begun, command.run_dir.root)


def check_marked(found: pd.DataFrame, later: int) -> None:
    """Four more were trained with other threads, and are marked."""
    assert found["xla_threads"].tolist() == [OTHER] * 4 + [later] * 4
    told = f"xla_threads: {OTHER} -> {later}"
    assert found["boundary"].fillna("").str.contains(told).tolist() == [False] * 4 + [True] * 4


def losses(found: pd.DataFrame) -> list[float]:
    return found["final_train_loss"].tolist()


@pytest.mark.slow
def test_the_bits_of_a_large_product_depend_on_the_variable_and_not_on_cores(
    tmp_path: Path,
) -> None:
    def product(threads: int) -> str:
        done = run_code(PRODUCT, directory=tmp_path, environment={XLA_THREADS: str(threads)})
        assert done.returncode == 0, done.stderr
        return done.stdout

    one, two = product(1), product(2)
    assert one != two == product(2)


def test_a_worker_with_one_core_gives_the_same_bits_as_a_thread(
    command: CommandLine,
) -> None:
    by_threads = trials(command, *LARGE_BATCHES)
    by_workers = trials(
        command,
        "--fresh",
        *LARGE_BATCHES,
        *settings("execution.strategy=process", "execution.workers=1"),
    )

    assert by_workers["place"].str.startswith("worker").all()
    assert losses(by_workers) == losses(by_threads)
    assert by_workers["xla_threads"].tolist() == [OTHER - 1] * len(by_workers)


@pytest.mark.usefixtures("begun_elsewhere")
def test_a_study_keeps_its_number_of_threads(command: CommandLine) -> None:
    done = command("run", "study.toml", *settings("study.n_trials=8"))

    found = pd.read_parquet(command.run_dir.trials)
    assert f"XLA keeps {OTHER} threads" in done.stderr
    assert found["xla_threads"].tolist() == [OTHER] * 8
    assert not found["boundary"].fillna("").str.contains("xla_threads").any()
    assert command.status()["xla_threads"] == OTHER


OPENED_BEFORE = """\
import os
import jax
import sweeper

jax.devices()
{since}
study = sweeper.load_study("study.toml", ["study.n_trials=8"])
sweeper.run(study)
"""


@pytest.mark.usefixtures("begun_elsewhere")
@pytest.mark.parametrize(
    "since", ["", "os.sched_setaffinity(0, [0])", f"os.environ['{XLA_THREADS}'] = '{OTHER}'"]
)
def test_rows_are_marked_if_the_caller_had_opened_devices(since: str, command: CommandLine) -> None:
    code = OPENED_BEFORE.format(since=since)
    done = run_code(code, directory=command.directory)
    assert done.returncode == 0, done.stderr

    found = pd.read_parquet(command.run_dir.trials)
    check_marked(found, OTHER - 1)


@pytest.mark.usefixtures("begun_elsewhere")
@pytest.mark.parametrize("text", ["{}", None, '"xla_threads": -3'])
def test_without_a_status_the_ledger_determines_the_threads(
    text: str | None, command: CommandLine
) -> None:
    status = command.run_dir.status
    if text is None:
        status.unlink()
    else:
        told = status.read_text(encoding="utf-8")
        told = told.replace(f'"xla_threads": {OTHER}', text) if text.startswith('"') else text
        status.write_text(told, encoding="utf-8")

    found = trials(command, *settings("study.n_trials=8"))

    assert found["xla_threads"].tolist() == [OTHER] * 8


def test_the_ledger_of_a_killed_study_determines_the_threads(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, "ledger.close:end=kill@1")
        patch.setenv(XLA_THREADS, str(OTHER))
        killed = command("run", "study.toml", *settings("study.n_trials=4"))
    assert killed.returncode == -signal.SIGKILL
    command.run_dir.status.unlink()

    found = trials(command, *settings("study.n_trials=8"))

    assert found["xla_threads"].tolist() == [OTHER] * 8


@pytest.mark.parametrize("number", ["", "x", "99999999999"])
def test_an_invalid_number_of_threads_is_refused(
    number: str, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(XLA_THREADS, number)

    done = command("run", "study.toml")

    told = (
        f"{XLA_THREADS}: {number!r} is not a number of threads for XLA; set it to 1 to 1024, or "
        "unset it"
    )
    assert (done.returncode, done.stderr.strip()) == (3, told)
    assert not command.run_dir.root.exists()


def test_doctor_says_how_to_set_the_number_of_threads(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(XLA_THREADS, "x")

    assert "set it to 1 to 1024, or unset it" in command("doctor").stdout


@pytest.mark.usefixtures("begun_elsewhere")
def test_rows_trained_with_other_threads_are_marked(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(XLA_THREADS, str(OTHER + 1))

    found = trials(command, *settings("study.n_trials=8"))

    check_marked(found, OTHER + 1)


def test_a_trial_is_repeated_with_its_number_of_threads(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(XLA_THREADS, str(OTHER))
    trials(command, *LARGE_BATCHES)
    monkeypatch.delenv(XLA_THREADS)
    assert command("trial", str(command.run_dir.root), "1", "-o", "one.toml").returncode == 0
    again = (command.directory / "one.toml").read_text(encoding="utf-8")

    done = command("reproduce", str(command.run_dir.root), "1", "--quiet")

    assert f"xla_threads = {OTHER}\n" in again
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("bit-equal\n")


@pytest.mark.usefixtures("begun_elsewhere")
@pytest.mark.slow
def test_a_trial_file_keeps_its_number_of_threads_or_warns(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("trial", str(command.run_dir.root), "3", "-o", "three.toml").returncode == 0

    def again(*more: str) -> tuple[list[int], str]:
        done = command("run", "three.toml", *settings("results.dir=again"), *more)
        assert done.returncode == 0, done.stderr
        found = pd.read_parquet(command.directory / "again/trials.parquet")
        return found["xla_threads"].tolist(), done.stderr

    assert [again()[0], again("--fresh")[0]] == [[OTHER], [OTHER]]
    monkeypatch.setenv(XLA_THREADS, str(OTHER + 1))
    threads, told = again("--fresh")

    assert threads == [OTHER + 1]
    assert f"had {OTHER} for this trial: its last digits may differ" in told
