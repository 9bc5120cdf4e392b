"""Runs in MLflow have the numbers of the Parquet files."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sweeper.cli.main import command
from sweeper.errors import SetupError
from sweeper.rundir import RunDir
from tests.integrations import published

# SQLAlchemy warns of what MLflow uses
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("default")]

Log = Callable[..., None]


@pytest.fixture(scope="module", params=["database", "server"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database of MLflow, or a server of one; to make its tables takes longest."""
    directory = tmp_path_factory.mktemp("mlflow")
    database = f"sqlite:///{directory / 'mlflow.db'}"
    if request.param == "database":
        yield database
        return
    with serving(database, directory) as address:
        yield address


@contextmanager
def serving(database: str, directory: Path) -> Iterator[str]:
    """A server of MLflow on this machine: its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port]
    command += ["--workers", "1", "--backend-store-uri", database]
    command += ["--artifacts-destination", str(directory / "artifacts")]
    with (directory / "log").open("w+b") as log:
        process = subprocess.Popen(
            command, cwd=directory, stdout=log, stderr=subprocess.STDOUT, process_group=0
        )
        try:
            while not answers(int(port)):
                assert process.poll() is None, (directory / "log").read_text()
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def answers(port: int) -> bool:
    """Whether something listens at this port."""
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def log(run_dir: RunDir, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Logs to the database; artifacts are in the current directory."""
    monkeypatch.chdir(tmp_path)
    root = str(run_dir.root.absolute())

    def log(*options: str) -> None:
        command("log", root, "--to", "mlflow", "--uri", uri, *options)

    return log


def client(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(uri)


def runs(uri: str, experiment: str) -> tuple[Any, dict[int, Any]]:
    """The run of the study, and those of its trials by number."""
    found = client(uri)
    known = found.get_experiment_by_name(experiment).experiment_id
    every = found.search_runs([known])
    (parent,) = (run for run in every if "sweeper.trial" not in run.data.tags)
    trials = [run for run in every if "sweeper.trial" in run.data.tags]
    by_number = {int(run.data.tags["sweeper.trial"]): run for run in trials}
    assert len(by_number) == len(trials)
    assert {run.data.tags["mlflow.parentRunId"] for run in trials} <= {parent.info.run_id}
    return parent, by_number


def history(uri: str, run: Any, name: str) -> list[tuple[int, float]]:
    found = client(uri).get_metric_history(run.info.run_id, name)
    return sorted((it.step, it.value) for it in found)


def test_runs_have_the_numbers_of_the_tables(run_dir: RunDir, uri: str, log: Log) -> None:
    log("--top", "3", "--project", "numbers")
    parent, trials = runs(uri, "numbers")
    rows, chosen = published.rows(run_dir), published.best(run_dir, 3)
    assert {*trials} == {*chosen}
    for number, run in trials.items():
        params = json.loads(rows[number]["params_json"])
        assert {n: type(params[n])(it) for n, it in run.data.params.items()} == params
        for metric, curve in published.curves(run_dir, number).items():
            assert history(uri, run, metric) == curve
        outcome = published.outcome(rows[number])
        assert {name: run.data.metrics[name] for name in outcome} == outcome
        assert (run.info.status, run.data.tags["state"]) == ("FINISHED", "COMPLETE")
    assert [it for _, it in history(uri, parent, "val_loss")] == published.history(run_dir)
    assert parent.data.metrics["best.value"] == rows[chosen[0]]["value"]
    assert parent.data.params["study.n_trials"] == "8"
    assert json.loads(parent.data.params["search.activation"])["choices"] == ["relu", "tanh"]
    files = {it.path for it in client(uri).list_artifacts(parent.info.run_id)}
    assert files >= {"trials.parquet", "metrics", "report.html", "study.toml"}


def test_logging_again_updates_the_same_runs(run_dir: RunDir, uri: str, log: Log) -> None:
    log("--top", "1", "--project", "again")
    first, _ = runs(uri, "again")
    log("--all", "--project", "again")
    log("--all", "--project", "again")
    parent, trials = runs(uri, "again")
    assert parent.info.run_id == first.info.run_id
    assert {*trials} == {*published.rows(run_dir)}
    assert [it for _, it in history(uri, parent, "val_loss")] == published.history(run_dir)
    (best,) = published.best(run_dir, 1)
    for metric, curve in published.curves(run_dir, best).items():
        assert history(uri, trials[best], metric) == curve


def test_a_run_that_was_cut_off_is_made_again(run_dir: RunDir, uri: str, log: Log) -> None:
    log("--top", "1", "--project", "cut")
    _, trials = runs(uri, "cut")
    ((number, run),) = trials.items()
    client(uri).update_run(run.info.run_id, status="RUNNING")
    log("--top", "1", "--project", "cut")
    _, again = runs(uri, "cut")
    assert again[number].info.run_id != run.info.run_id
    assert history(uri, again[number], "val_loss") == published.curves(run_dir, number)["val_loss"]


def test_a_deleted_experiment_is_refused(run_dir: RunDir, uri: str, log: Log) -> None:
    there = client(uri)
    there.delete_experiment(there.create_experiment("gone"))
    with pytest.raises(SetupError, match="the experiment gone was deleted"):
        log("--project", "gone")
