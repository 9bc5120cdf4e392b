"""SIGTERM and SIGHUP commit the round in training within the grace period, as Ctrl-C does."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import sweeper
from sweeper.executors.signals import TERMINATING, Stopping, signals_without_handler, stopping_on
from sweeper.ledger import Ledger
from sweeper.results.events import BucketStarted, Event, RoundClosed
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from tests.command_line import STUDY
from tests.digest import deterministic_digest
from tests.in_process import study_in
from tests.processes import ROOT

SHORT = ("study.n_trials=4", "schedule.parallel=2")

# prints `ready`, then waits for `seconds`; exits with 0 if it was asked to stop and nothing ended
# it
WAITING = """\
import signal, sys, time
from sweeper.executors.signals import TERMINATING, not_ignored, stopping_on
grace_s, seconds = map(float, sys.argv[1:])
said = lambda message: print(message, flush=True)
leave = lambda reason: f"{reason}: round 7 is lost"
with stopping_on((signal.SIGINT, *not_ignored(TERMINATING)), said, leave, grace_s) as stopping:
    said("ready")
    time.sleep(seconds)
    sys.exit(0 if stopping.stop.is_set() else 9)
"""


@pytest.fixture(autouse=True)
def as_in_a_terminal() -> Iterator[None]:
    """No signal is ignored, as it is under nohup and in the background of some shells."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, how) for number, how in usual.items()}
    yield
    for number, how in before.items():
        signal.signal(number, how)


def waiting(
    grace_s: float, seconds: float, *before: str, code: str = WAITING
) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*before, sys.executable, "-c", code, str(grace_s), str(seconds)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", TERMINATING)
def test_a_round_that_outlasts_the_grace_period_is_lost_and_reported(number: int) -> None:
    process = waiting(0.3, 60)
    process.send_signal(number)
    out, errors = process.communicate(timeout=20)
    name = signal.Signals(number).name
    assert process.returncode == 128 + number
    assert out.startswith(f"{name}: waiting up to 0.3 s for the current buckets")
    assert (
        errors
        == f"{name} was received 0.3 s ago, the limit set by execution.grace: round 7 is lost\n"
    )


def test_ctrl_c_has_no_grace_period() -> None:
    process = waiting(0.1, 0.6)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 0


@pytest.mark.parametrize("first", [signal.SIGINT, *TERMINATING])
def test_a_second_signal_ends_the_program_at_once(first: int) -> None:
    process = waiting(60, 60)
    process.send_signal(first)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 143
    assert errors == "received a second signal, SIGTERM: round 7 is lost\n"


def test_a_repeated_signal_counts_once() -> None:
    """`timeout` signals its command and then its process group, which the command is in."""
    process = waiting(60, 0.5)
    for number in (*TERMINATING, signal.SIGTERM):
        process.send_signal(number)
        time.sleep(0.01)
    process.communicate(timeout=20)
    assert process.returncode == 0


@pytest.mark.parametrize("has_second", [False, True])
def test_a_repeated_signal_counts_once_while_a_message_is_written_slowly(has_second: bool) -> None:
    once = "print(message, flush=True)"
    slowly = f"(time.sleep(0.5 * (message != 'ready')), {once})"
    process = waiting(60, 0.7, code=WAITING.replace(once, slowly))
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.01)
    if has_second:
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == (143 if has_second else 0)
    assert has_second or out.startswith("SIGTERM: waiting")


def test_sighup_stays_ignored_under_nohup() -> None:
    process = waiting(60, 0.5, "nohup")
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=20)
    assert process.returncode == 9


def test_a_closed_terminal_stops_the_program_without_an_error() -> None:
    """Writing to the terminal fails from then on."""
    parent, child = pty.openpty()
    before = signal.pthread_sigmask(signal.SIG_SETMASK, ())  # which a child inherits
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", sys.executable, "-c", WAITING, "60", "3"],
        cwd=ROOT,
        stdin=child,
        stdout=child,
        stderr=child,
    )
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(child)
    printed = b""
    while not printed.endswith(b"\n"):  # closed earlier, the terminal would fail this write
        printed += os.read(parent, 100)
    assert printed.split() == [b"ready"]
    os.close(parent)
    assert process.wait(timeout=20) == 0


FORKING = """\
import os, signal, time
from sweeper.executors.signals import TERMINATING, stopping_on
with stopping_on(TERMINATING, print, str, 60) as stopping:
    pid = os.fork()
    if not pid:
        time.sleep(60)
        os._exit(1)
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
print(os.WTERMSIG(status) == signal.SIGTERM, stopping.number)
"""


def test_a_signal_for_a_forked_process_ends_only_that() -> None:
    """`multiprocessing.Pool` ends its processes by SIGTERM."""
    done = subprocess.run(
        # Python 3.12 and later warn of any fork next to threads
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("True None\n", "")


def test_signals_that_a_host_program_handles_stay_with_it() -> None:
    assert signals_without_handler(TERMINATING) == TERMINATING
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        assert signals_without_handler(TERMINATING) == (signal.SIGHUP,)
    finally:
        signal.signal(signal.SIGTERM, before)
    found: list[tuple[int, ...]] = []
    thread = threading.Thread(target=lambda: found.append(signals_without_handler(TERMINATING)))
    thread.start()
    thread.join()
    assert found == [()]
    read, write = os.pipe()  # as an event loop that handles signals sets one
    os.set_blocking(write, False)
    descriptor = signal.set_wakeup_fd(write)
    try:
        assert signals_without_handler(TERMINATING) == ()
        assert signal.set_wakeup_fd(write) == write
    finally:
        signal.set_wakeup_fd(descriptor)
        os.close(read)
        os.close(write)


def test_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in TERMINATING]
    with stopping_on(TERMINATING, print, str, 60) as stopping:
        assert [signal.getsignal(number) for number in TERMINATING] != before
    assert [signal.getsignal(number) for number in TERMINATING] == before
    assert stopping.number is None
    assert signal.set_wakeup_fd(-1) == -1


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> str:
    """What the rows of the short study depend on, in a run that was not stopped."""
    config = study_in(tmp_path_factory.mktemp("whole"), STUDY, *SHORT)
    assert sweeper.run(config).state == "finished"
    return deterministic_digest(RunDir(config.run_dir))


@pytest.mark.parametrize("kind", [pytest.param(BucketStarted, marks=pytest.mark.slow), RoundClosed])
def test_a_script_that_sigterm_stops_commits_and_ends_with_143(
    kind: type[Event], tmp_path: Path, digest: str
) -> None:
    config = study_in(tmp_path, STUDY, *SHORT, 'execution.grace="5m"')

    def terminate(event: Event) -> None:
        if isinstance(event, kind):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.02)  # the signal is handled before the study continues

    with pytest.raises(SystemExit) as ended:
        sweeper.run(config, observer=terminate)
    run_dir = RunDir(config.run_dir)
    ledger = Ledger.open(run_dir.ledger)
    opened = ledger.opened_round()
    ledger.close()
    assert (ended.value.code, opened, read_status(run_dir).state) == (143, None, "interrupted")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert sweeper.run(config).state == "finished"
    assert deterministic_digest(run_dir) == digest


def test_a_script_ends_with_143_even_if_its_study_is_complete(tmp_path: Path) -> None:
    """The signal is meant for the whole program, which may be about to run another study."""
    config = study_in(tmp_path, STUDY, "study.n_trials=1", "schedule.round_epochs=4")

    def terminate(event: Event) -> None:
        if isinstance(event, RoundClosed):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit) as ended:
        sweeper.run(config, observer=terminate)
    assert (ended.value.code, read_status(RunDir(config.run_dir)).state) == (143, "finished")


INTERACTIVE = """\
import builtins, signal
from sweeper.executors.signals import end_program
builtins.__IPYTHON__ = True
try:
    end_program(signal.SIGTERM)
except SystemExit:
    print("went on")
"""


def test_ipython_ends_although_it_catches_system_exit() -> None:
    done = subprocess.run([sys.executable, "-c", INTERACTIVE], cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, b"")


def test_a_caller_in_another_thread_keeps_its_signals(tmp_path: Path) -> None:
    config = study_in(tmp_path, STUDY, *SHORT)
    stop, seen = threading.Event(), list[object]()

    def note(event: Event) -> None:
        seen.append(signal.getsignal(signal.SIGTERM))
        stop.set()

    thread = threading.Thread(target=lambda: sweeper.run(config, observer=note, stop=stop))
    thread.start()
    thread.join()
    assert set(seen) == {signal.SIG_DFL}


def test_the_stop_event_of_a_caller_is_set() -> None:
    stop = threading.Event()
    with stopping_on(TERMINATING, print, str, 60, stop) as stopping:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(10)
    assert isinstance(stopping, Stopping)
    assert stopping.number == signal.SIGTERM


# Python drops exceptions of signal handlers in a callback, such as of a weak reference
DROPPED = """\
import os, signal, sys, time, weakref

class Kept:
    pass

kept = Kept()
watch = weakref.ref(kept, lambda _: os.kill(os.getpid(), signal.SIGTERM))
from sweeper.executors.signals import SignalExit, leave_on_signals
leave_on_signals()
del kept
try:
    time.sleep(20)
except SignalExit as left:
    sys.exit(left.exit_code)
"""


def test_a_signal_whose_exception_is_dropped_still_ends_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DROPPED], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (143, "")
