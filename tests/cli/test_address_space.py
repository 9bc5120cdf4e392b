"""A limit on address space that is too small is refused before anything large is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sweeper
from sweeper.cli import address_space
from sweeper.errors import SetupError

GIB = 1 << 30
FOUND = "RLIMIT_AS: the address space is limited to 1 GiB, too little for the libraries; allow"


@pytest.mark.parametrize("words", ["run study.toml", "predict best rows.csv", "best", "doctor"])
def test_commands_refuse_a_low_limit_on_address_space(words: str, tmp_path: Path) -> None:
    command = f"ulimit -v {GIB >> 10} && exec '{sys.executable}' -m sweeper {words}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(FOUND)
    assert len(done.stderr.splitlines()) == 1


def test_functions_refuse_a_low_limit_on_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_space, "_limit", lambda: GIB)
    with pytest.raises(SetupError, match=FOUND):
        sweeper.open_results("runs/none")


@pytest.mark.parametrize("limit", [None, 1 << 50])
def test_other_limits_on_address_space_are_accepted(
    limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address_space, "_limit", lambda: limit)
    address_space.check_address_space()
