"""Studies on clusters of Dask and of Ray have the rows of any other run, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sweeper.faults import VARIABLE
from sweeper.results.read import open_results
from tests import deadly
from tests.clusters import Cluster, cluster
from tests.command_line import STUDY, CommandLine, settings
from tests.digest import deterministic_digest
from tests.forking import run_code
from tests.processes import ROOT, parent, start

RAY = pytest.param("ray", marks=pytest.mark.slow)
# the study configures this machine; a cluster takes its place
HERE = "threads = 1\nworkers = 0\n"
NOBODY = "execution.engine={name='dask', address='tcp://127.0.0.1:1'}"
_LIMIT_S = 60.0


@dataclass(frozen=True)
class OnCluster:
    """The study `name` in a separate directory, and a cluster for it."""

    command: CommandLine
    cluster: Cluster
    name: str = "wine"

    def started(self, *more: str, fault: str = "") -> subprocess.Popen[str]:
        """A run whose workers meet `fault`."""
        return start(
            self.command.directory,
            self.command.cache,
            ["run", "study.toml", *settings(self.cluster.setting, *more)],
            environment={**self.cluster.environment, VARIABLE: fault},
        )

    def run(self, *more: str) -> str:
        """The output of a run that succeeds."""
        with self.started(*more) as process:
            _, said = process.communicate(timeout=250)
        assert process.returncode == 0, said
        return said

    @property
    def directory(self) -> Path:
        return self.command.directory / "runs" / self.name

    @property
    def held(self) -> Path:
        """This file exists while a worker is held by `HOLD`."""
        return self.command.directory / "held"

    @property
    def hold(self) -> str:
        """The fault that holds a worker in the middle of its third bucket."""
        return f"train:begin=hold:{self.held}@3"


@pytest.fixture(scope="module", params=["dask", RAY])
def running(request: pytest.FixtureRequest, compile_cache: Path) -> Iterator[Cluster]:
    with cluster(request.param) as opened:
        yield opened


@pytest.fixture
def study(command: CommandLine, running: Cluster) -> OnCluster:
    command.write(STUDY.replace(HERE, ""))
    return OnCluster(command, running)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> str:
    """The digest of the study on this machine."""
    alone = CommandLine(tmp_path_factory.mktemp("alone"), compile_cache)
    alone.write()
    done = alone("run", "study.toml")
    assert done.returncode == 0, done.stderr
    return deterministic_digest(alone.run_dir)


def until(is_so: Callable[[], object]) -> None:
    """Wait for it."""
    end = time.monotonic() + _LIMIT_S
    while not is_so():
        assert time.monotonic() < end, "it did not become so"
        time.sleep(0.05)


def let_go(study: OnCluster, process: subprocess.Popen[str]) -> str:
    """Release all workers until the end of the run, and return its output."""
    while process.poll() is None:
        study.held.unlink(missing_ok=True)
        time.sleep(0.05)
    return process.communicate()[1]


def test_a_study_gives_the_same_rows_as_on_this_machine(study: OnCluster, expected: str) -> None:
    study.run()
    assert deterministic_digest(study.command.run_dir) == expected
    results, engine = open_results(study.directory), study.cluster.engine
    assert {place.split()[0] for place in results.buckets()["place"]} == {engine}
    log = study.command.run_dir.log.read_text("utf-8")
    assert f"{engine} at {study.cluster.address}" in log or "dashboard" not in log
    assert len([line for line in log.splitlines() if "has joined" in line]) == 2
    until(lambda: not study.cluster.trainers())


@pytest.mark.slow
def test_the_bucket_of_a_lost_worker_goes_to_another(study: OnCluster, expected: str) -> None:
    with study.started("execution.workers=1", fault=study.hold) as process:
        until(study.held.exists)
        (trainer,) = study.cluster.trainers()
        os.kill(parent(trainer), signal.SIGKILL)
        said = let_go(study, process)
    assert process.returncode == 0, said
    assert "is gone from the cluster over trial" in said
    assert "retrying in another worker" in said
    assert deterministic_digest(study.command.run_dir) == expected
    trials = open_results(study.directory).trials()
    assert set(trials["state"]) == {"COMPLETE"}
    assert trials["attempts"].max() == 2


@pytest.mark.slow
def test_a_killed_program_leaves_nothing_behind_and_can_be_resumed(
    study: OnCluster, expected: str
) -> None:
    with study.started("execution.workers=1", fault=study.hold) as process:
        until(study.held.exists)
        process.kill()
        process.wait()
        until(lambda: not study.cluster.trainers())
    study.run()
    assert deterministic_digest(study.command.run_dir) == expected


@pytest.mark.slow
def test_ctrl_c_ends_the_round_and_twice_ends_at_once(study: OnCluster) -> None:
    with study.started("execution.workers=1", fault=study.hold) as process:
        until(study.held.exists)
        process.send_signal(signal.SIGINT)
        said = let_go(study, process)
        assert process.returncode == 130, said
    until(lambda: not study.cluster.trainers())
    with study.started("execution.workers=1", fault=study.hold) as process:
        until(study.held.exists)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        until(lambda: not study.cluster.trainers())
        assert study.held.exists(), "it was waited for"


@pytest.mark.slow
def test_only_a_trial_that_kills_every_worker_fails(
    command: CommandLine, running: Cluster, tmp_path: Path
) -> None:
    own = deadly.OWN.replace('os.environ.get("DEADLY")', 'open(__file__[:-3] + ".deed").read()')
    own = own.replace(
        "DEEDS = {", 'DEEDS = {\n    "engine": lambda: os.kill(os.getppid(), signal.SIGKILL),'
    )
    rows = {}
    for deed in ("nothing", "engine"):
        place = tmp_path / deed
        place.mkdir()
        deadly.write(place)
        (place / "own.py").write_text(own, encoding="utf-8")
        (place / "own.deed").write_text(deed, encoding="utf-8")
        study = OnCluster(CommandLine(place, command.cache), running, "deadly")
        study.run("execution.threads=0", "study.n_trials=4", "study.enqueue=[{},{poison=1.0}]")
        rows[deed] = open_results(study.directory).trials().set_index("trial_number")

    struck, whole = rows["engine"], rows["nothing"]
    failed = struck.loc[deadly.DEADLY]
    assert (failed["state"], failed["reason"]) == ("FAIL", "worker_died")
    assert failed["attempts"] > 2
    others = struck.index != deadly.DEADLY
    assert list(struck["value"][others]) == list(whole["value"][others])
    assert set(struck["state"][others]) == {"COMPLETE"}


def test_a_worker_with_other_versions_is_refused(
    command: CommandLine, tmp_path: Path, compile_cache: Path
) -> None:
    command.write(STUDY.replace(HERE, ""))
    other = tmp_path / "other" / "optax-0.0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: optax\nVersion: 0.0.1\n")
    with cluster("dask", 1, PYTHONPATH=os.pathsep.join([str(other.parent), str(ROOT)])) as opened:
        done = command("run", "study.toml", *settings(opened.setting))
    assert done.returncode == 3
    *_, line = done.stderr.strip().splitlines()
    assert line.startswith("dask 0: it has optax 0.0.1, here ")
    assert line.endswith("; install the same version there")


def test_an_address_without_an_answer_is_refused_soon(command: CommandLine) -> None:
    command.write(STUDY.replace(HERE, ""))
    began = time.monotonic()
    done = command("run", "study.toml", *settings(NOBODY))
    assert done.returncode == 3
    assert "execution.engine.address: 'tcp://127.0.0.1:1', but Dask's sch" in done.stderr
    assert len([line for line in done.stderr.splitlines() if not line[:1].isdigit()]) == 1
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("name", ["dask", "ray"])
@pytest.mark.parametrize(
    ("asked", "code"),
    [("validate", 0), ("plan", 0), pytest.param("run", 3, marks=pytest.mark.slow)],
)
def test_only_run_needs_an_engine(name: str, asked: str, code: int, command: CommandLine) -> None:
    command.write(STUDY.replace(HERE, ""))
    setting = f"execution.engine={{name='{name}', address='127.0.0.1:1'}}"
    blocked = (
        "import sys; sys.modules |= {'distributed': None, 'ray': None}; "
        "from sweeper.cli.main import main; main()"
    )
    done = run_code(blocked, asked, "study.toml", *settings(setting), directory=command.directory)
    assert done.returncode == code, done.stderr
    if code:
        package = {"dask": "distributed", "ray": "ray"}[name]
        assert f"execution.engine.name: {name}, but its package {package} cannot" in done.stderr
        assert f"python -m pip install 'sweeper-jax[{name}]'" in done.stderr
