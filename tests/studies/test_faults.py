"""A crash at any fault point loses nothing, duplicates nothing and changes no row."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sweeper.errors import SetupError
from sweeper.faults import (
    INSTANTS,
    VARIABLE,
    Action,
    FaultPlanError,
    Step,
    counting,
    fault_points,
    plan_faults,
    read_plan,
)
from tests.command_line import CommandLine
from tests.crashes import IN_WORKERS, PROGRAMS, STRATEGIES, Study
from tests.processes import ROOT

# instants that occur in this process neither without workers nor if workers train everything
_OF_WORKERS = {Step.SEND_DATA, Step.START_WORKER, Step.RETURN_OUTCOME}


@pytest.fixture(autouse=True)
def _off() -> Iterator[None]:
    yield
    plan_faults(None)


def test_a_plan_is_read() -> None:
    text = "ledger.close:end=kill@3, train:begin=delay:0.5,file.sync:begin=raise:ENOSPC"
    assert read_plan(text) == (
        Action("ledger.close:end", "kill", "", 3),
        Action("train:begin", "delay", "0.5"),
        Action("file.sync:begin", "raise", "ENOSPC"),
    )
    assert read_plan("") == ()


def test_a_hold_waits_until_its_file_is_gone(tmp_path: Path) -> None:
    held = tmp_path / "held"
    plan_faults(f"tidy:begin=hold:{held}")
    with ThreadPoolExecutor(1) as pool:
        passing = pool.submit(_pass, Step.TIDY)
        while not held.exists():
            time.sleep(0.01)
        assert not passing.done()
        held.unlink()
        passing.result(5)


def _pass(step: Step) -> None:
    with fault_points(step):
        pass


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "train:begin",
            "invalid fault 'train:begin'; use INSTANT=kill|raise|oom|delay:S|hold:PATH",
        ),
        ("trian:begin=kill", "no instant 'trian:begin'; use directory.make:begin,"),
        ("train:begin=raise:ENOPE", "no error number 'ENOPE'; write one such as ENOSPC"),
        ("train:begin=delay", "delay needs a number of seconds; write delay:0.5"),
        ("train:begin=hold", "hold needs the file to create; write hold:PATH"),
        ("train:begin=delay:x", "delay needs a number of seconds; write delay:0.5"),
        ("train:begin=kill@0", "counts start at 1"),
    ],
)
def test_an_invalid_plan_is_refused(text: str, told: str) -> None:
    with pytest.raises(FaultPlanError, match=re.escape(told)):
        read_plan(text)


def test_the_command_line_refuses_it_too(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "nowhere:begin=kill")
    done = command("status")
    assert done.returncode == 3
    assert f"{VARIABLE}: no instant 'nowhere:begin'" in done.stderr


def test_an_action_happens_only_at_its_count() -> None:
    plan_faults("tidy:end=raise:EIO@2")
    with fault_points(Step.TIDY):
        pass
    with pytest.raises(OSError, match="Input/output error"), fault_points(Step.TIDY):
        pass
    with fault_points(Step.TIDY):
        pass


def test_a_failing_block_does_not_reach_its_end() -> None:
    with counting() as passed, pytest.raises(ZeroDivisionError), fault_points(Step.PLAN):
        1 / 0  # noqa: B018
    assert passed == {"plan:begin": 1}


def test_every_step_is_used_once_in_the_code() -> None:
    package = (path.read_text(encoding="utf-8") for path in (ROOT / "sweeper").rglob("*.py"))
    used = re.findall(r"fault_points\(Step\.(\w+)\)", "".join(package))
    assert sorted(used) == sorted(step.name for step in Step)
    assert len(INSTANTS) == 2 * len(Step) >= 25


# for every third step one instant, before and after it in turn
_SOME = tuple(f"{step}:{('begin', 'end')[index % 2]}" for index, step in enumerate(Step))[::3]


@pytest.mark.parametrize(
    "instants",
    [_SOME, pytest.param(INSTANTS, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_a_crash_at_each_instant_one_after_the_other(
    instants: Sequence[str], tmp_path: Path
) -> None:
    """Each session resumes where the previous one crashed; a finished study is started again."""
    unbroken = Study(tmp_path / "unbroken", "supervised", "padded")
    passed = unbroken.instants()
    assert {instant for instant in INSTANTS if instant not in passed} == {
        f"{step}:{edge}" for step in _OF_WORKERS for edge in ("begin", "end")
    }
    expected, ended = unbroken.left(), 0
    struck = Study(tmp_path / "0", "supervised", "padded")
    for instant in instants:
        while instant in passed and not struck.crash(instant):
            assert struck.left() == expected
            ended += 1
            struck = Study(tmp_path / str(ended), "supervised", "padded")
    struck.run()
    assert struck.left() == expected
    assert ended < 12


@pytest.mark.slow
@pytest.mark.parametrize("instant", ["train:end", "checkpoint.sync:begin"])
def test_a_crash_of_what_a_worker_does(instant: str, tmp_path: Path) -> None:
    struck = Study(tmp_path / "struck", "supervised", "process")
    assert struck.crash(instant)
    struck.run()
    unbroken = Study(tmp_path / "unbroken", "supervised", "process")
    unbroken.run()
    assert struck.left() == unbroken.left()


def test_a_kill_in_the_command_line(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    command.write()
    monkeypatch.setenv(VARIABLE, "ledger.commit:end=kill@4")
    assert command("run", "study.toml").returncode == -9
    monkeypatch.delenv(VARIABLE)
    assert command("run", "study.toml", "--quiet").returncode == 0


def test_a_full_disk_at_any_step_ends_the_study_cleanly(tmp_path: Path) -> None:
    study = Study(tmp_path / "study", "supervised", "padded")
    plan_faults("checkpoint.write:begin=raise:ENOSPC@2")
    with pytest.raises(SetupError, match="free some disk space, then try again"):
        study.run()
    plan_faults(None)
    study.run()
    unbroken = Study(tmp_path / "unbroken", "supervised", "padded")
    unbroken.run()
    assert study.left() == unbroken.left()


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_crash_at_each_instant_of_each_program(
    program: str, strategy: str, tmp_path: Path
) -> None:
    """At the first, the middle and the last time of each, in a separate study."""
    unbroken = Study(tmp_path / "unbroken", program, strategy)
    passed = dict(unbroken.instants())
    expected = unbroken.left()
    if strategy == "process":
        passed |= {f"{step}:{edge}": 1 for step in IN_WORKERS for edge in ("begin", "end")}
    assert len(passed) >= 25
    for instant, count in passed.items():
        for at in sorted({1, (count + 1) // 2, count}):
            struck = Study(tmp_path / f"{instant}-{at}".replace(":", "-"), program, strategy)
            # how often status.json is written depends on the time: the last time may not come
            if struck.crash(instant, at):
                struck.run()
            else:
                assert at > 1, instant
            assert struck.left() == expected, (instant, at)
