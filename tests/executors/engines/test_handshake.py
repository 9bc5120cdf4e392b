"""Machines that would give other rows are refused, with what differs and its fix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from sweeper.config import parse
from sweeper.executors.engines.handshake import Kinds, differences, survey_of, want_of_memory
from sweeper.process import physical_bytes
from sweeper.rundir import RunDir
from tests.small_studies import DIGITS


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    run_dir = RunDir(tmp_path)
    run_dir.make()
    run_dir.meeting.write_text("here", encoding="utf-8")
    return run_dir


@pytest.fixture
def here(run_dir: RunDir) -> dict[str, Any]:
    return survey_of(parse(DIGITS, Path("study.toml")), run_dir)()


def test_a_machine_is_as_itself(here: dict[str, Any]) -> None:
    assert list(differences(here, here)) == []
    assert here["versions"]["jax"]
    assert here["source"]


def test_a_survey_needs_nothing_of_sweeper_where_it_is_made(run_dir: RunDir) -> None:
    survey = survey_of(parse(DIGITS, Path("study.toml")), run_dir)
    code = (
        "import pickle, sys; sys.modules['sweeper'] = None; "
        "print(sorted(pickle.load(sys.stdin.buffer)()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=cloudpickle.dumps(survey), capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().strip() == str(sorted(survey()))


def test_another_python_is_all_that_is_told(here: dict[str, Any]) -> None:
    (told,) = differences(here, {"python": "3.99"})
    assert told[0] == f"Python 3.99, here {here['python']}"


@pytest.mark.parametrize(
    ("part", "key", "value", "told"),
    [
        ("versions", "jax", "0.0.1", "jax 0.0.1, here "),
        ("versions", "equinox", "", "equinox absent, here "),
        ("flags", "XLA_FLAGS", "--xla_x=1", "XLA_FLAGS = '--xla_x=1', here None"),
    ],
)
def test_what_differs_is_named(
    part: str, key: str, value: str, told: str, here: dict[str, Any]
) -> None:
    there = {**here, part: {**here[part], key: value}}
    ((found, hint),) = differences(here, there)
    assert found.startswith(told)
    assert hint


def test_other_source_of_the_same_version_is_told(here: dict[str, Any]) -> None:
    ((found, _),) = differences(here, {**here, "source": "00000000"})
    assert found == "sweeper with other source files than here"


def test_a_run_directory_that_is_not_shared_is_told(here: dict[str, Any], run_dir: RunDir) -> None:
    missing = {str(run_dir.meeting): "No such file or directory"}
    ((found, hint),) = differences(here, {**here, "files": missing})
    assert "meeting that is here (No such file or directory)" in found
    assert "results.dir" in hint


def test_a_machine_without_room_for_the_data_is_told() -> None:
    there = {"memory_bytes": 10 * 2**20}
    assert list(want_of_memory(there, 3 * 2**20, 0.8, 4)) == [
        (
            "too little memory: the data take 3 MiB, and each of 4 workers there has 2 MiB",
            "start fewer there, drop columns or rows, or write a larger execution.memory_fraction",
        )
    ]


@pytest.mark.parametrize(
    "there", [{"memory_bytes": 20 * 2**20}, {"memory_bytes": None}, {"python": "3.99"}]
)
def test_a_machine_with_room_or_that_does_not_tell_is_not(there: dict[str, Any]) -> None:
    assert list(want_of_memory(there, 3 * 2**20, 0.8, 4)) == []


def test_a_machine_tells_the_memory_that_it_has(here: dict[str, Any]) -> None:
    assert here["memory_bytes"] == physical_bytes()


def test_a_machine_tells_its_gpus(run_dir: RunDir, tmp_path: Path) -> None:
    for slot, model in (("01", "NVIDIA H200"), ("02", "Tesla T4"), ("03", "NVIDIA H200")):
        (tmp_path / "gpus" / slot).mkdir(parents=True)
        said = f"Model: \t\t {model}\nIRQ:   \t\t 11\n"
        (tmp_path / "gpus" / slot / "information").write_text(said, encoding="utf-8")
    survey = survey_of(parse(DIGITS, Path("study.toml")), run_dir, tmp_path / "gpus")
    assert survey()["gpu_models"] == "NVIDIA H200, Tesla T4"


def test_each_kind_of_processor_and_of_gpu_is_told_of_once() -> None:
    kinds = Kinds({"processor": "epyc"})

    def told(host: str, processor: str, gpus: str) -> list[str]:
        return list(kinds.new(host, {"processor": processor, "gpu_models": gpus}))

    assert told("a", "epyc", "") == told("b", "epyc", "H200") == told("c", "epyc", "H200") == []
    assert told("d", "xeon", "T4") == [
        "d has another processor (xeon) than this machine (epyc): values computed there may differ "
        "from those computed here in their last digits",
        "d has other GPUs (T4) than b (H200): values computed there may differ from those computed "
        "on b in their last digits",
    ]
    assert told("e", "xeon", "T4") == told("f", "epyc", "H200") == []
