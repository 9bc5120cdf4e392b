"""pandas, Polars and DuckDB read a study while it runs, and never find a partial file."""

from __future__ import annotations

import signal
import time

import pytest

from tests.command_line import CommandLine, settings
from tests.readers import LIBRARIES, Reader

LONG = settings("study.n_trials=1_000_000", "schedule.parallel=32", "study.sampler={name='random'}")


@pytest.mark.parametrize(
    "seconds", [2, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(180)])]
)
def test_a_running_study_can_be_read_at_any_time(seconds: int, command: CommandLine) -> None:
    command.write()
    readers = [Reader(count, command.run_dir) for count in LIBRARIES]
    with command.started("run", "study.toml", "--quiet", *LONG) as process:
        while not command.run_dir.trials.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        for reader in readers:
            reader.start()
        enough = time.monotonic() + seconds
        while time.monotonic() < enough or any(reader.is_waiting for reader in readers):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    for reader in readers:
        reader.end()

    assert (process.returncode, out) == (130, said), said
    for reader in readers:
        assert reader.error is None, reader.name
        assert not reader.has_lost_rows, reader.name
        assert reader.has_seen_growth, reader.name
    assert len({reader.seen[-1] for reader in readers}) == 1
