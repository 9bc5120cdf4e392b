"""If a disk fails to sync, the study stops cleanly and resumes with the same rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.sweep.verify import verify
from tests.crashes import Study
from tests.processes import ROOT

pytestmark = [pytest.mark.disk, pytest.mark.timeout(600)]

NEVER = 500
# each thread counts its own; the last is past the end
SYNCS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 26, 30, NEVER)


def run(study: Study, cache: Path, failing: int) -> subprocess.CompletedProcess[str]:
    """The program, with one sync of each thread failing."""
    inject = f"inject=fsync,fdatasync:error=EIO:when={failing}"
    traced = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", inject]
    chosen = f"results.dir={study.run_dir.root}", f"execution.strategy={study.strategy}"
    words = [word for setting in chosen for word in ("--set", setting)]
    return subprocess.run(
        [*traced, sys.executable, "-m", "sweeper", "run", "study.toml", *words],
        cwd=study.directory,
        env={**os.environ, "SWEEPER_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What is left of the study on a disk that does not fail."""
    study = Study(tmp_path_factory.mktemp("unbroken"), "supervised", "padded")
    study.run()
    return study.left()


@pytest.mark.parametrize("failing", SYNCS)
def test_a_failed_sync_ends_the_study_cleanly(
    failing: int, tmp_path: Path, compile_cache: Path, unbroken: dict[str, object]
) -> None:
    study = Study(tmp_path / "study", "supervised", "padded")
    assert study.config.study.name
    ended = run(study, compile_cache, failing)
    assert "Traceback" not in ended.stderr
    last = ended.stderr.splitlines()[-1]
    if failing < NEVER and "the ledger is not backed up" not in ended.stderr:
        assert ended.returncode == 3, ended.stderr
        assert "cannot be written: Input/output error" in last
        assert last.endswith("ulimit -f and the system log")
    else:
        assert ended.returncode == 0, ended.stderr
    study.run()
    assert study.left() == unbroken
    assert verify(study.run_dir).damage == ()
