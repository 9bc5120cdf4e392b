"""doctor: what it finds on this machine, with a fix for every problem."""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from pathlib import Path

import pytest

from sweeper.preflight import doctor
from sweeper.preflight.doctor import diagnose, file_system
from sweeper.process import Limits
from tests.command_line import CommandLine


def test_a_good_machine_has_no_hints(command: CommandLine) -> None:
    done = command("doctor", "--json")
    found = {one["about"]: one for one in json.loads(done.stdout)["findings"]}
    assert (done.returncode, [o for o in found.values() if o["hint"]]) == (0, [])
    assert {"python", "packages", "cores", "memory", "run directory", "compile cache"} <= {*found}
    assert "jax " in found["packages"]["found"]
    assert "lanes compiled and ran in" in found["vmap"]["found"]


def test_problems_of_the_machine_have_hints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("SWEEPER_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", ".5")
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", ".5")
    wrong = {one.about: one.hint for one in diagnose(tmp_path / "runs") if one.hint}
    assert wrong == {
        "environment": "unset XLA_PYTHON_CLIENT_MEM_FRACTION",
        "compile cache": "set SWEEPER_CACHE_DIR to a directory that you may write to",
    }


@pytest.mark.parametrize("gpus", [(), ("0",)])
def test_an_invalid_memory_fraction_is_reported_if_there_are_gpus(
    gpus: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "90%")
    monkeypatch.setattr(doctor, "visible_gpus", lambda environment: gpus)
    hints = {one.about: one.hint for one in diagnose(tmp_path / "runs") if one.hint}
    hint = "set it to a number such as 0.5, or unset it"
    assert hints == ({"XLA_PYTHON_CLIENT_MEM_FRACTION": hint} if gpus else {})


@pytest.mark.parametrize("may_write", [True, False])
def test_libraries_that_are_compiled_at_each_start_are_named(
    may_write: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "nothing compiled"))
    monkeypatch.setattr(sys, "dont_write_bytecode", not may_write)

    found = {one.about: one for one in islice(diagnose(tmp_path), 3)}

    assert ("imports" in found) is not may_write
    if not may_write:
        assert found["imports"].found.startswith("Python compiles jax, optuna, pandas, scipy and ")
        assert found["imports"].hint.startswith("python -m compileall -qq ")


def test_the_file_system_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    mounts, place = tmp_path / "mounts", tmp_path / "my runs" / "digits"
    place.mkdir(parents=True)
    spaced = str(tmp_path / "my runs").replace(" ", "\\040")
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nserver:/x {spaced} nfs4 rw 0 0\n", encoding="utf-8")
    assert file_system(place, mounts) == "nfs4"
    assert file_system(tmp_path, mounts) == "ext4"
    assert file_system(tmp_path, tmp_path / "none") is None


def test_the_limits_of_control_groups_are_named(tmp_path: Path) -> None:
    findings = diagnose(tmp_path, Limits(0.5, 3 * 2**30))
    found = {one.about: one.found for one in islice(findings, 8)}
    cores, memory = found["cores"], found["memory"]
    assert cores == f"1 of {os.cpu_count()} (the CPU quota of the control group is 0.5)"
    assert memory.startswith("3.0 GiB for this process (the limit of the control group; the ")
