"""A study's share of memory belongs to its process, and is fixed when that opens its devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forking import run_code
from tests.round_machine import STUDY

TWO_STUDIES = """\
import os
from pathlib import Path

before = dict(os.environ)
from sweeper.config import parse
from sweeper.executors.claims import claim_devices
from sweeper.executors.open_devices import own_fraction

for fraction in (0.5, 0.3):
    settings = ["execution.workers=0", f"execution.memory_fraction={fraction}"]
    claim_devices(parse(Path("study.toml").read_text(), Path("study.toml"), settings))
    print(own_fraction(), [name for name in {*os.environ} - {*before} if "XLA_PYTHON" in name])
"""


@pytest.mark.parametrize(("chosen", "expected"), [({}, "0.5"), ({"FRACTION": "0.25"}, "0.25")])
def test_a_memory_share_does_not_stay_in_the_environment(
    chosen: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    for name in [name for name in os.environ if "MEM_FRACTION" in name]:
        monkeypatch.delenv(name)
    more = {f"XLA_PYTHON_CLIENT_MEM_{name}": value for name, value in chosen.items()}
    done = run_code(TWO_STUDIES, directory=tmp_path, environment=more)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{expected} []"] * 2


def test_a_fraction_for_a_gpu_does_not_matter_on_a_cpu(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    more = {"JAX_PLATFORMS": "cpu", "XLA_PYTHON_CLIENT_MEM_FRACTION": "90%"}
    done = run_code(TWO_STUDIES, directory=tmp_path, environment=more)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["None []"] * 2


def test_if_no_device_can_be_opened_the_error_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "sweeper", "run", "study.toml"],
        cwd=tmp_path,
        env={**os.environ, "JAX_PLATFORMS": "elsewhere"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3, done.stderr
    # after the time and what the run was doing
    (line,) = (line for line in done.stderr.splitlines() if not line[:1].isdigit())
    assert line.startswith("JAX: no device can be opened: ")
    assert line.endswith("; unset or change JAX_PLATFORMS, or run python -m sweeper doctor")
