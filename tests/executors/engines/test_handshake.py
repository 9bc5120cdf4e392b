"""Machines that would give different rows are refused, with the difference and its fix."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from sweeper.config import parse
from sweeper.errors import Problem
from sweeper.executors.engines.handshake import (
    Kinds,
    MachineReport,
    differences,
    make_survey,
    memory_shortage,
)
from sweeper.process import physical_bytes
from sweeper.rundir import RunDir
from tests.small_studies import DIGITS


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    run_dir = RunDir(tmp_path)
    run_dir.make()
    run_dir.shared_marker.write_text("here", encoding="utf-8")
    return run_dir


@pytest.fixture
def here(run_dir: RunDir) -> MachineReport:
    return MachineReport(**make_survey(parse(DIGITS, Path("study.toml")), run_dir)())


def test_a_machine_matches_itself(here: MachineReport) -> None:
    assert list(differences("worker", here, here)) == []
    assert here.versions["jax"]
    assert here.source


def test_a_survey_runs_without_sweeper(run_dir: RunDir) -> None:
    survey = make_survey(parse(DIGITS, Path("study.toml")), run_dir)
    code = (
        "import pickle, sys; sys.modules['sweeper'] = None; "
        "print(sorted(pickle.load(sys.stdin.buffer)()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=cloudpickle.dumps(survey), capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().strip() == str(sorted(survey()))


def test_if_python_differs_nothing_else_is_reported(here: MachineReport) -> None:
    (problem,) = differences("worker", here, MachineReport(python="3.99"))
    assert problem.where == "worker"
    assert problem.found == f"it has Python 3.99, here {here.python}"


@pytest.mark.parametrize(
    ("part", "key", "value", "told"),
    [
        ("versions", "jax", "0.0.1", "jax 0.0.1, here "),
        ("versions", "equinox", "", "equinox missing, here "),
        ("flags", "XLA_FLAGS", "--xla_x=1", "XLA_FLAGS = '--xla_x=1', here None"),
    ],
)
def test_differences_are_named(
    part: str, key: str, value: str, told: str, here: MachineReport
) -> None:
    changed: Any = {part: {**getattr(here, part), key: value}}
    (problem,) = differences("worker", here, replace(here, **changed))
    assert problem.found.startswith(f"it has {told}")
    assert problem.hint


def test_different_source_of_the_same_version_is_reported(here: MachineReport) -> None:
    (problem,) = differences("worker", here, replace(here, source="00000000"))
    assert problem.found == "its source files of sweeper differ"


def test_a_run_directory_that_is_not_shared_is_reported(
    here: MachineReport, run_dir: RunDir
) -> None:
    missing = {str(run_dir.shared_marker): "No such file or directory"}
    (problem,) = differences("worker", here, replace(here, files=missing))
    assert "meeting is not the same as here (No such file or directory)" in problem.found
    assert "results.dir" in problem.hint


@pytest.mark.parametrize(
    ("data_bytes", "fraction", "said", "hint"),
    [
        (
            3 * 2**20,
            0.8,  # four workers get no larger share
            "the data takes 3 MiB, but each of 4 workers there has 2 MiB",
            "start fewer workers there, or drop columns or rows",
        ),
        (
            2 * 2**20 - 1000,
            0.4,
            "the data takes 2 MiB, but each of 4 workers there has 1 MiB",
            "start fewer workers there, drop columns or rows, or write a larger "
            "execution.memory_fraction",
        ),
    ],
)
def test_a_machine_without_memory_for_the_data_is_reported(
    data_bytes: int, fraction: float, said: str, hint: str
) -> None:
    there = MachineReport("3.11", memory_bytes=10 * 2**20)
    found = f"it has too little memory: {said}"
    problems = list(memory_shortage("worker", there, data_bytes, fraction, 4))
    assert problems == [Problem("worker", "", found, hint)]


@pytest.mark.parametrize("memory_bytes", [20 * 2**20, None])
def test_a_machine_with_enough_or_unknown_memory_is_not_reported(memory_bytes: int | None) -> None:
    there = MachineReport("3.11", memory_bytes=memory_bytes)
    assert list(memory_shortage("worker", there, 3 * 2**20, 0.8, 4)) == []


def test_a_machine_reports_its_memory(here: MachineReport) -> None:
    assert here.memory_bytes == physical_bytes()


def test_a_machine_reports_its_gpus(run_dir: RunDir, tmp_path: Path) -> None:
    for slot, model in (("01", "NVIDIA H200"), ("02", "Tesla T4"), ("03", "NVIDIA H200")):
        (tmp_path / "gpus" / slot).mkdir(parents=True)
        said = f"Model: \t\t {model}\nIRQ:   \t\t 11\n"
        (tmp_path / "gpus" / slot / "information").write_text(said, encoding="utf-8")
    survey = make_survey(parse(DIGITS, Path("study.toml")), run_dir, tmp_path / "gpus")
    assert survey()["gpu_models"] == "NVIDIA H200, Tesla T4"


def test_each_kind_of_processor_and_gpu_is_reported_once() -> None:
    kinds = Kinds(MachineReport("3.11", processor="epyc"))

    def told(host: str, processor: str, gpus: str) -> list[str]:
        return list(kinds.new(host, MachineReport("3.11", processor=processor, gpu_models=gpus)))

    assert told("a", "epyc", "") == told("b", "epyc", "H200") == told("c", "epyc", "H200") == []
    assert told("d", "xeon", "T4") == [
        "d has a different processor (xeon) than this machine (epyc): the last digits of values "
        "computed there may differ from those computed here",
        "d has different GPUs (T4) than b (H200): the last digits of values computed there may "
        "differ from those computed on b",
    ]
    assert told("e", "xeon", "T4") == told("f", "epyc", "H200") == []
