"""One process at a time can use a run directory, even if the file of its lock was removed."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import Timeout

import sweeper
from sweeper import api
from sweeper.errors import StudyHeldError
from sweeper.ledger import Ledger, is_held
from sweeper.results.status import read_status, write_status
from sweeper.rundir import RunDir
from sweeper.sweep.session import session
from sweeper.sweep.session.directory import move_aside
from sweeper.sweep.session.lock import hold
from sweeper.sweep.verify import repair, verify
from tests.command_line import contents
from tests.crashes import Study

WHO = f"(pid {os.getpid()} on {socket.gethostname()})"
OWN = f"this program already runs this study {WHO}; wait until it has ended"


@pytest.fixture(scope="module")
def halfway(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study that was killed with trials in training."""
    study = Study(tmp_path_factory.mktemp("halfway"), "supervised", "padded")
    assert study.crash("ledger.close:end", 1)
    Ledger.open(study.run_dir.ledger).close()
    return study


@pytest.fixture
def run_dir(tmp_path: Path, halfway: Study) -> RunDir:
    """A copy of its directory; the file of its lock is empty."""
    shutil.copytree(halfway.run_dir.root, tmp_path / "run")
    return RunDir(tmp_path / "run")


def test_the_process_that_holds_the_lock_is_named_before_a_status_exists(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    for _ in range(2):
        with hold(run_dir):
            for _ in range(2):  # a refused process removes nothing
                with pytest.raises(StudyHeldError) as refused, hold(run_dir):
                    pass
                assert str(refused.value) == f"{tmp_path}: {OWN}"
        assert run_dir.lock.read_bytes() == b""


def test_a_start_waits_for_a_reader_that_looks_whether_the_lock_is_held(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    run_dir.lock.touch()
    with run_dir.lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        release = threading.Timer(0.03, fcntl.flock, (file, fcntl.LOCK_UN))
        release.start()
        with hold(run_dir):
            pass
        release.join()


def test_a_killed_study_stays_interrupted_after_its_lock_was_held_by_others(
    run_dir: RunDir,
) -> None:
    status = replace(read_status(run_dir), state="running", pid=os.getppid())
    write_status(run_dir, replace(status, host=socket.gethostname()))
    run_dir.lock.write_text(f"{os.getppid()} {socket.gethostname()}", encoding="utf-8")
    for _ in range(2):
        assert read_status(run_dir).state == "interrupted"
        verify(run_dir)


def test_a_timeout_of_another_lock_is_not_taken_for_this_one(tmp_path: Path) -> None:
    with pytest.raises(Timeout, match="another"), hold(RunDir(tmp_path)):
        raise Timeout("another")
    with hold(RunDir(tmp_path)):  # and this one was released
        pass


def test_if_the_lock_is_empty_the_status_names_the_process(run_dir: RunDir) -> None:
    status = replace(read_status(run_dir), state="running", pid=os.getppid())
    write_status(run_dir, replace(status, host=socket.gethostname()))
    with hold(run_dir):
        run_dir.lock.write_bytes(b"")  # as in an earlier version
        with pytest.raises(StudyHeldError, match=rf"pid {os.getppid()} on "), hold(run_dir):
            pass


@pytest.mark.parametrize("doing", ["run", "run --fresh", "verify", "repair", "check"])
def test_if_the_lock_was_removed_the_ledger_is_still_locked(
    doing: str, halfway: Study, run_dir: RunDir
) -> None:
    config = Study(run_dir.root.parent, halfway.program, halfway.strategy).config
    run_dir.staging.joinpath("data.npz").write_bytes(b"of the one that runs")
    status = replace(read_status(run_dir), state="running", pid=os.getpid())
    write_status(run_dir, replace(status, host=socket.gethostname()))
    with hold(run_dir), closing(Ledger.open(run_dir.ledger)):
        run_dir.lock.unlink()
        before = contents(run_dir.root)
        with pytest.raises(StudyHeldError) as refused:
            match doing:
                case "verify":
                    verify(run_dir)
                case "repair":
                    repair(run_dir)
                case "check":
                    session.check(config, None)
                case _:
                    api.run(config, fresh=doing == "run --fresh")
        assert WHO in str(refused.value)
        assert contents(run_dir.root) == before | {"ledger.lock": b""}
    assert sweeper.run(config).state == "finished"


def test_checking_the_lock_creates_no_file(run_dir: RunDir) -> None:
    before = contents(run_dir.root)
    assert not is_held(run_dir.ledger)
    assert contents(run_dir.root) == before
    with closing(Ledger.open(run_dir.ledger)):
        assert is_held(run_dir.ledger)
    run_dir.ledger.write_bytes(b"no ledger")
    assert not is_held(run_dir.ledger)
    run_dir.ledger.unlink()
    assert not is_held(run_dir.ledger)


@pytest.fixture(params=[errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def without_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without `flock`."""

    def flock(_descriptor: int, _operation: int) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.usefixtures("without_locks")
def test_without_locks_a_live_process_keeps_others_out(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    for _ in range(2):
        with hold(run_dir):
            with pytest.raises(StudyHeldError) as refused, hold(run_dir):
                pass
            told = (
                f"{tmp_path}: this program already runs this study {WHO}; wait until it has ended"
            )
            assert str(refused.value) == told
    assert not run_dir.owner.exists()


HOLDING = """\
import fcntl, os, signal, sys
from pathlib import Path

def flock(*_):
    raise OSError(38, "no flock")

fcntl.flock = flock
from sweeper.sweep.session.lock import hold
from sweeper.rundir import RunDir

with hold(RunDir(Path(sys.argv[1]))):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def left_owner(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The lock of a process that was killed; it names its number, its host and its start."""
    run_dir = RunDir(tmp_path_factory.mktemp("killed"))
    subprocess.run([sys.executable, "-c", HOLDING, str(run_dir.root)], check=False)
    return run_dir.owner.read_text(encoding="utf-8")


@pytest.mark.usefixtures("without_locks")
def test_the_lock_of_a_process_that_was_killed_is_taken_over(
    left_owner: str, tmp_path: Path
) -> None:
    run_dir = RunDir(tmp_path)
    _, host, start = left_owner.splitlines()
    # the number may be in use again, here by this process, which started at another time
    for left in (left_owner, f"{os.getpid()}\n{host}\n{start}\n"):
        run_dir.owner.write_text(left, encoding="utf-8")
        with hold(run_dir):
            assert run_dir.owner.read_text(encoding="utf-8") != left
        assert not run_dir.owner.exists()


@pytest.mark.usefixtures("without_locks")
def test_the_lock_of_another_host_is_never_taken_over(left_owner: str, tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    pid, host, start = left_owner.splitlines()
    for left in (f"{pid}\nno-{host}\n{start}\n", ""):
        run_dir.owner.write_text(left, encoding="utf-8")
        with pytest.raises(StudyHeldError, match=f"remove {run_dir.owner}"), hold(run_dir):
            pass
        assert run_dir.owner.read_text(encoding="utf-8") == left


@pytest.mark.usefixtures("without_locks")
def test_without_locks_a_study_can_start_over(run_dir: RunDir) -> None:
    move_aside(run_dir)
    with hold(run_dir):
        assert [path.name for path in run_dir.root.iterdir() if path == run_dir.ledger] == []


def test_a_forked_process_does_not_claim_to_hold_the_lock(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from sweeper.errors import StudyHeldError
from sweeper.rundir import RunDir
from sweeper.sweep.session.lock import hold

run_dir = RunDir(Path(sys.argv[1]))
with hold(run_dir):
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        try:
            with hold(run_dir):
                print("held twice", flush=True)
        except StudyHeldError as error:
            print(error, flush=True)
        os._exit(0)
"""
    RunDir(tmp_path).make()
    words = [sys.executable, "-c", code, str(tmp_path)]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "another process runs this study" in shown
