"""`scripts/gpu_check` measures every stage, even if the package is not installed."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.processes import ROOT

SCRIPT = ROOT / "scripts" / "gpu_check"
DYING = """
import json, os, signal, sys
names = sys.argv[sys.argv.index("--stages") + 1 : sys.argv.index("--deadline")]
for name in names:
    if name in ("compile", "flags"):
        os.kill(os.getpid(), signal.SIGKILL)
    print(json.dumps({"stage": name, "found": {"is": name}, "seconds": 0.5}), flush=True)
"""


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python with the packages that are installed here, except this one."""
    directory = tmp_path_factory.mktemp("bare")
    venv.create(directory, symlinks=True)
    (site,) = directory.glob("lib/python*/site-packages")
    for scheme in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(scheme).iterdir():
            package = entry.name.partition("-")[0]
            is_own = package in {"sweeper", "sweeper_jax"} or entry.suffix == ".pth"
            if not (is_own or (site / entry.name).exists()):
                (site / entry.name).symlink_to(entry)
    return directory / "bin" / "python"


def run_bare(python: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(python), *map(str, words)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_stages_run_from_a_bare_checkout(bare_python: Path) -> None:
    names = ["machine", "one_by_one", "repeatability"]
    done = run_bare(bare_python, SCRIPT, "--tiny", "--deadline", "1e9", "--stages", *names)

    assert done.returncode == 0, done.stderr
    machine, one_by_one, repeatability = map(json.loads, done.stdout.splitlines())
    assert [machine["stage"], one_by_one["stage"], repeatability["stage"]] == names
    assert machine["found"]["versions"]["sweeper"] == "unknown"
    assert one_by_one["found"]["trials"] == 2
    assert repeatability["found"]["same_program"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_tiny_run_from_a_bare_checkout_measures_every_stage(
    bare_python: Path, script: dict[str, Any], tmp_path: Path
) -> None:
    done = run_bare(bare_python, SCRIPT, "--tiny", "--budget", "840", "--out", tmp_path)

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["stages"].keys() == script["STAGES"].keys()
    skipped = [name for name, found in report["stages"].items() if "skipped" in found]
    assert skipped == ["flags", "out_of_memory"]
    assert all(report["stages"].values())
    assert report["stages"]["machine"]["versions"]["sweeper"] == "unknown"
    assert report["stages"]["repeatability"]["same_program"]
    assert report["stages"]["studies"]["cold"]["places"][0]["device"] == "cpu:0"
    written = json.loads((tmp_path / "gpu_check.json").read_text(encoding="utf-8"))
    assert written["stages"] == report["stages"]


def test_a_checkout_that_is_not_installed_has_an_unknown_version(bare_python: Path) -> None:
    assert run_bare(bare_python, "-m", "sweeper", "--version").stdout == "sweeper unknown\n"


def test_the_doctor_says_that_a_checkout_is_not_installed(bare_python: Path) -> None:
    code = "from pathlib import Path; from sweeper.preflight.doctor import diagnose;"
    code += "findings = diagnose(Path('runs')); next(findings); print(next(findings))"
    done = run_bare(bare_python, "-c", code)
    assert "about='sweeper', found='not installed', hint='python -m pip" in done.stdout


def test_a_stage_whose_process_dies_does_not_end_the_others(
    script: dict[str, Any], tmp_path: Path
) -> None:
    dying = tmp_path / "dying.py"
    dying.write_text(DYING, encoding="utf-8")
    command = (sys.executable, str(dying))

    report = script["Supervisor"](script["TINY"], 60.0, tmp_path, command).run()

    expected = {name: {"is": name} for name in script["STAGES"]}
    dead = {key: {"failed": "its process ended with -9"} for key in ("compile", "flags")}
    assert report["stages"] == expected | dead
    assert script["has_failed"](report["stages"])
    assert json.loads((tmp_path / "gpu_check.json").read_text())["stages"] == report["stages"]


def test_a_stage_that_raises_does_not_end_the_others(
    script: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def raising(_: Any) -> Any:
        raise ValueError("what is wrong")

    monkeypatch.setitem(script["STAGES"], "studies", (0, raising))
    monkeypatch.setitem(script["STAGES"], "workers", (0, lambda _: {"is": 1}))

    script["run_stages"](["studies", "workers"], script["Check"](script["TINY"], 0.0))

    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["found"]["failed"] == "ValueError: what is wrong"
    assert second["found"] == {"is": 1}


def test_a_stage_for_which_no_time_is_left_is_skipped(
    script: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    script["run_stages"](["studies"], script["Check"](script["Sizes"](), 0.0))
    assert "skipped" in json.loads(capsys.readouterr().out)["found"]


def test_wheels_are_what_the_other_machine_lacks(script: dict[str, Any], tmp_path: Path) -> None:
    without_list = {line.partition("==")[0] for line in script["wheels"](None)}
    freeze = tmp_path / "freeze.txt"
    freeze.write_text("jax==0.11.2\nOptuna==4.0.0\npandas==2.3.0\nJoblib\n", encoding="utf-8")
    with_list = {line.partition("==")[0] for line in script["wheels"](freeze)}

    assert {"optuna", "pydantic-core", "alembic"} <= without_list
    assert without_list.isdisjoint({"jax", "jaxlib", "equinox", "numpy", "pytest", "sweeper"})
    assert {"optuna", "pandas", "equinox"} <= with_list  # too old, too old, and missing
    assert with_list.isdisjoint({"jax", "joblib"})
