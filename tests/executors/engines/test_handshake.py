"""Machines that would give different rows are refused, with the difference and its fix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from sweeper.config import parse
from sweeper.executors.engines.handshake import Kinds, differences, make_survey, memory_shortage
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
def here(run_dir: RunDir) -> dict[str, Any]:
    return make_survey(parse(DIGITS, Path("study.toml")), run_dir)()


def test_a_machine_matches_itself(here: dict[str, Any]) -> None:
    assert list(differences(here, here)) == []
    assert here["versions"]["jax"]
    assert here["source"]


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


def test_if_python_differs_nothing_else_is_reported(here: dict[str, Any]) -> None:
    (told,) = differences(here, {"python": "3.99"})
    assert told[0] == f"Python 3.99, here {here['python']}"


@pytest.mark.parametrize(
    ("part", "key", "value", "told"),
    [
        ("versions", "jax", "0.0.1", "jax 0.0.1, here "),
        ("versions", "equinox", "", "equinox missing, here "),
        ("flags", "XLA_FLAGS", "--xla_x=1", "XLA_FLAGS = '--xla_x=1', here None"),
    ],
)
def test_differences_are_named(
    part: str, key: str, value: str, told: str, here: dict[str, Any]
) -> None:
    there = {**here, part: {**here[part], key: value}}
    ((found, hint),) = differences(here, there)
    assert found.startswith(told)
    assert hint


def test_different_source_of_the_same_version_is_reported(here: dict[str, Any]) -> None:
    ((found, _),) = differences(here, {**here, "source": "00000000"})
    assert found == "the source files of sweeper differ"


def test_a_run_directory_that_is_not_shared_is_reported(
    here: dict[str, Any], run_dir: RunDir
) -> None:
    missing = {str(run_dir.shared_marker): "No such file or directory"}
    ((found, hint),) = differences(here, {**here, "files": missing})
    assert "meeting is not the same as here (No such file or directory)" in found
    assert "results.dir" in hint


def test_a_machine_without_memory_for_the_data_is_reported() -> None:
    there = {"memory_bytes": 10 * 2**20}
    assert list(memory_shortage(there, 3 * 2**20, 0.8, 4)) == [
        (
            "too little memory: the data takes 3 MiB, but each of 4 workers there has 2 MiB",
            "start fewer workers there, drop columns or rows, or write a larger "
            "execution.memory_fraction",
        )
    ]


@pytest.mark.parametrize(
    "there", [{"memory_bytes": 20 * 2**20}, {"memory_bytes": None}, {"python": "3.99"}]
)
def test_a_machine_with_enough_or_unknown_memory_is_not_reported(there: dict[str, Any]) -> None:
    assert list(memory_shortage(there, 3 * 2**20, 0.8, 4)) == []


def test_a_machine_reports_its_memory(here: dict[str, Any]) -> None:
    assert here["memory_bytes"] == physical_bytes()


def test_a_machine_reports_its_gpus(run_dir: RunDir, tmp_path: Path) -> None:
    for slot, model in (("01", "NVIDIA H200"), ("02", "Tesla T4"), ("03", "NVIDIA H200")):
        (tmp_path / "gpus" / slot).mkdir(parents=True)
        said = f"Model: \t\t {model}\nIRQ:   \t\t 11\n"
        (tmp_path / "gpus" / slot / "information").write_text(said, encoding="utf-8")
    survey = make_survey(parse(DIGITS, Path("study.toml")), run_dir, tmp_path / "gpus")
    assert survey()["gpu_models"] == "NVIDIA H200, Tesla T4"


def test_each_kind_of_processor_and_gpu_is_reported_once() -> None:
    kinds = Kinds({"processor": "epyc"})

    def told(host: str, processor: str, gpus: str) -> list[str]:
        return list(kinds.new(host, {"processor": processor, "gpu_models": gpus}))

    assert told("a", "epyc", "") == told("b", "epyc", "H200") == told("c", "epyc", "H200") == []
    assert told("d", "xeon", "T4") == [
        "d has a different processor (xeon) than this machine (epyc): the last digits of values "
        "computed there may differ from those computed here",
        "d has different GPUs (T4) than b (H200): the last digits of values computed there may "
        "differ from those computed on b",
    ]
    assert told("e", "xeon", "T4") == told("f", "epyc", "H200") == []
