"""Requests to a running study: they are recorded, answered, and repeated by a resume."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pandas as pd
import pytest

import sweeper
from sweeper.config import StudyConfig, load, parse
from sweeper.errors import StudyError
from sweeper.export.trial_file import trial_file
from sweeper.faults import Fault, plan_faults
from sweeper.ledger import Ledger
from sweeper.results.events import Event, RoundClosed, Warned
from sweeper.results.status import read_status, write_status
from sweeper.rundir import RunDir
from sweeper.study.ask_tell import Study
from sweeper.sweep.requests import EnqueueRequest, PendingRequest, Requests, StopRequest
from sweeper.sweep.send_request import new_key, read_values, send
from sweeper.sweep.verify import restore_ledger
from tests.command_line import STUDY
from tests.digest import deterministic_digest
from tests.in_process import study_in, trained

FEW = ("study.n_trials=7", "schedule.parallel=3")
VALUES = {"lr": 0.0123}


@pytest.fixture(autouse=True)
def _no_faults() -> Iterator[None]:
    yield
    plan_faults(None)


class Asking:
    """Leaves requests once round 1 is closed, and keeps what the study says."""

    def __init__(self, config: StudyConfig, *requests: PendingRequest) -> None:
        self._run_dir = RunDir(config.run_dir)
        self._requests = list(requests)
        self.said: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Warned):
            self.said.append(event.message)
        if isinstance(event, RoundClosed):
            while self._requests:
                send(self._run_dir, self._requests.pop(0))


def asked() -> tuple[PendingRequest, ...]:
    """One request of each kind, and some that the study refuses."""
    return (
        EnqueueRequest(new_key(), VALUES),
        StopRequest(new_key(), 1),
        StopRequest(new_key(), 99),
        StopRequest(new_key(), 6, waits=False),
        EnqueueRequest(new_key(), {"lr": 0.05, "epochs": 3}, waits=False),
    )


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyConfig, Asking]:
    config = study_in(tmp_path_factory.mktemp("asked"), STUDY, *FEW)
    asking = Asking(config, *asked())
    sweeper.run(config, observer=asking)
    return config, asking


def rows(config: StudyConfig) -> pd.DataFrame:
    return sweeper.open_results(config.run_dir).trials().set_index("trial_number")


def test_a_stopped_trial_is_pruned_with_its_last_value(
    unbroken: tuple[StudyConfig, Asking],
) -> None:
    row = rows(unbroken[0]).loc[1]
    assert (row["state"], row["reason"], row["epochs_done"]) == ("PRUNED", "stopped", 2)
    assert row["value"] == row["final_val_loss"]


def test_the_next_proposals_have_the_values_that_are_enqueued(
    unbroken: tuple[StudyConfig, Asking],
) -> None:
    found = rows(unbroken[0])
    given = found[found["enqueued"]]
    assert len(found) == 7
    assert given["params_lr"].tolist() == [0.0123, 0.05]
    assert given["params_epochs"].iloc[1] == 3
    assert found["enqueued"].sum() == 2
    assert set(given["told_through_round"]) <= {1, 2}


def test_requests_are_answered(unbroken: tuple[StudyConfig, Asking]) -> None:
    config, asking = unbroken
    run_dir = RunDir(config.run_dir)
    answers = [json.loads(path.read_text("utf-8")) for path in run_dir.own_requests()]
    first = rows(config).query("enqueued").index[0]
    assert answers == [
        {"is_granted": True, "text": f"trial {first} has these values"},
        {"is_granted": True, "text": "trial 1 is stopped after epoch 2"},
        {"is_granted": False, "text": "trial 99 does not exist: numbers go from 0 to 6"},
    ]
    assert "request to stop trial 6: trial 6 is not in training yet" in asking.said


def test_requests_are_recorded(unbroken: tuple[StudyConfig, Asking]) -> None:
    ledger = Ledger.read(RunDir(unbroken[0].run_dir).ledger)
    rounds = list(ledger.closed_rounds())
    ledger.close()
    enqueued = [request for one in rounds for request in one.requests]
    stopped = [request for one in rounds for request in one.closing.requests]
    assert [request.params for request in enqueued] == [VALUES, {"lr": 0.05, "epochs": 3}]
    assert [(request.number, request.params) for request in stopped] == [(1, None)]


def test_a_ledger_that_is_restored_names_the_requests_it_has_lost(tmp_path: Path) -> None:
    config = study_in(tmp_path, STUDY, *FEW)
    run_dir, asking = RunDir(config.run_dir), Asking(config, *asked())

    def hear(event: Event) -> None:
        if isinstance(event, RoundClosed) and event.status.round == 1:
            shutil.copy(run_dir.backup, tmp_path / "early.db")
        asking(event)

    sweeper.run(config, observer=hear)
    found = rows(config)
    enqueued = found[found["enqueued"]].index.tolist()
    latest = run_dir.backup.read_bytes()
    for copy, lost in ((latest, ""), ((tmp_path / "early.db").read_bytes(), "trial 1 was stopped")):
        run_dir.ledger.write_bytes(b"")
        run_dir.backup.write_bytes(copy)
        said = restore_ledger(run_dir)
        assert "requests that were granted later (enqueue, stop --trial) are lost" in said
        assert ("later rows may differ" in said) is bool(lost)
        assert lost in said
        assert all((f"trial {number} was enqueued" in said) is bool(lost) for number in enqueued)


@pytest.mark.parametrize(
    "instants",
    [
        ("ledger.open:end", "ledger.close:end"),
        pytest.param(("ledger.open:begin", "ledger.close:begin"), marks=pytest.mark.slow),
    ],
)
def test_a_crash_around_the_record_changes_no_row(
    instants: tuple[str, str], unbroken: tuple[StudyConfig, Asking], tmp_path: Path
) -> None:
    config = study_in(tmp_path, STUDY, *FEW)
    asking = Asking(config, *asked())
    opening, closing = instants
    plan_faults(f"{opening}=raise@2")
    with pytest.raises(Fault):
        sweeper.run(config, observer=asking)
    plan_faults(f"{closing}=raise")
    with pytest.raises(Fault):
        sweeper.run(config)
    plan_faults(None)
    sweeper.run(config)
    assert deterministic_digest(RunDir(config.run_dir)) == deterministic_digest(
        RunDir(unbroken[0].run_dir)
    )


def test_a_trial_that_is_run_again_is_stopped_by_its_own_number(tmp_path: Path) -> None:
    few = ("study.n_trials=2", "search={optimizer.lr={type='float',low=1e-4,high=0.1}}")
    study = trained(study_in(tmp_path, STUDY, *few))
    file = tmp_path / "trial.toml"
    file.write_text(trial_file(study.run_dir.root, 1, file), encoding="utf-8")
    again = trained(load(file))
    write_status(again.run_dir, replace(read_status(again.run_dir), state="interrupted"))
    for number, found in ((1, "trial 1 has ended: COMPLETE"), (5, "the only trial is 1")):
        with pytest.raises(StudyError, match=found):
            sweeper.command("stop", str(again.run_dir.root), "--trial", str(number))


def test_what_nothing_takes_is_taken_by_the_next_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = study_in(tmp_path, STUDY, *FEW)
    stop, directory = threading.Event(), str(config.run_dir)

    def stop_early(event: Event) -> None:
        if isinstance(event, RoundClosed):
            stop.set()

    sweeper.run(config, observer=stop_early, stop=stop)
    trials, status = RunDir(config.run_dir).trials, read_status(RunDir(config.run_dir))
    trials.rename(tmp_path / trials.name)
    write_status(RunDir(config.run_dir), replace(status, state="running"))
    with pytest.raises(StudyError, match="the study has only just begun; ask again"):
        sweeper.command("enqueue", directory, "--set", "optimizer.lr=0.0456")
    (tmp_path / trials.name).rename(trials)
    write_status(RunDir(config.run_dir), status)
    sweeper.command("enqueue", directory, "--set", "optimizer.lr=0.0456")
    assert "the study is interrupted: its next `run` takes the request" in capsys.readouterr().out
    refused = {
        ("enqueue", directory): "no value is given",
        ("enqueue", directory, "--set", "lr=7"): "--set lr: 7 is not one of its values",
        ("enqueue", directory, "--set", "lr=0.01", "--set", "optimizer.lr=0.01"): "given twice",
        ("enqueue", directory, "--set", "lr='ü'"): "'ü' is not one of its values",
        ("enqueue", directory, "--set", "lr=nan"): "nan is not one of its values",
        ("stop", directory, "--trial", "7"): "trial 7 does not exist; numbers go from 0 to 6",
    }
    for words, found in refused.items():
        with pytest.raises(StudyError) as caught:
            sweeper.command(*words)
        assert found in str(caught.value)
    (RunDir(config.run_dir).requests / "1-a.json").write_text("{}", encoding="utf-8")
    asking = Asking(config)
    sweeper.run(config, observer=asking)
    assert rows(config).query("enqueued")["params_lr"].tolist() == [0.0456]
    assert "the request 1-a.json is refused: it contains no known request" in asking.said
    with pytest.raises(StudyError, match="the study is finished"):
        sweeper.command("stop", directory, "--trial", "0")
    sweeper.command("enqueue", directory, "--set", "lr=0.0789")
    assert "the study is finished: run it with a larger study.n_trials" in capsys.readouterr().out
    sweeper.run(study_in(tmp_path, STUDY, *FEW, "study.n_trials=8"))
    assert rows(config).query("enqueued")["params_lr"].tolist() == [0.0456, 0.0789]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"enqueue": {"optimizer.lr": 10**400}}, "optimizer.lr: an integer of more than 64 bits"),
        (
            {"enqueue": {"lr": reduce(lambda inner, _: {"a": inner}, range(600), 1)}},
            "too many nest",
        ),
        ({"stop": -3}, "it contains no known request"),
    ],
)
def test_a_file_that_is_not_a_request_never_ends_a_study(
    tmp_path: Path, body: dict, reason: str
) -> None:
    config = study_in(tmp_path, STUDY)
    said: list[str] = []
    requests = Requests(RunDir(config.run_dir), config.search, lambda e: said.append(str(e)))
    file = RunDir(config.run_dir).requests / "1-a.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({**body, "waits": True}), encoding="utf-8")
    assert requests.pending() == []
    assert (reason in said[0], file.exists()) == (True, False)
    if (values := body.get("enqueue")) is not None:
        _, (problem,) = read_values(config, "run", [*values.items()])
        assert reason.rpartition(": ")[2] in str(problem)


@pytest.mark.parametrize("sampler", ["tpe", "random", "qmc", "cmaes", "nsgaii"])
def test_every_sampler_but_grid_proposes_what_is_enqueued(sampler: str) -> None:
    config = parse(STUDY, Path("study.toml"), [f"study.sampler={{name={sampler!r}}}"])
    study, plain = Study(config), Study(config)
    study.enqueue(1, VALUES)
    given, drawn = study.ask(3, 0), plain.ask(3, 0)
    assert [spec.number for spec in given] == [0, 1, 2]
    assert given[1].params["lr"] == VALUES["lr"]
    assert given[0] == drawn[0]


def test_a_grid_refuses_requests() -> None:
    grid = ("study.sampler={name='grid'}", "search.optimizer.lr={type='categorical',choices=[1]}")
    config = parse(STUDY, Path("study.toml"), grid)
    _, (problem,) = read_values(config, "run", [("optimizer.lr", 1)])
    assert "the grid proposes each of its points once" in str(problem)


def test_an_enqueued_value_that_the_trial_may_leave_out_is_refused() -> None:
    search = (
        "search={model.depth={type='int',low=1,high=3},model.layer_norm={type='categorical',"
        "choices=[true,false]},model.dropout={type='float',low=0.1,high=0.5,"
        "when={model.depth=[2,3],model.layer_norm=true}}}"
    )
    config = parse(STUDY, Path("study.toml"), [search])
    whole = [("depth", 2), ("layer_norm", True), ("dropout", 0.3)]
    assert not read_values(config, "run", whole)[1]
    _, (problem,) = read_values(config, "run", [("depth", 2), ("dropout", 0.3)])
    assert (problem.key, problem.found, problem.hint) == (
        "--set model.dropout",
        "used only with model.layer_norm = true, which the sampler may not draw",
        "give model.layer_norm, too",
    )
    _, (problem,) = read_values(config, "run", [("depth", 1), ("dropout", 0.3)])
    assert (problem.key, problem.found) == ("--set model.dropout", "not used with model.depth = 1")
