"""Results of a study that never ran, as scripts/make_large_results writes them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from sweeper.dashboard.study import PublishedStudy
from sweeper.rundir import RunDir

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_large_results"


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """The run directory of 120 trials of 8 epochs; tests only read it."""
    directory = tmp_path_factory.mktemp("large")
    runpy.run_path(str(SCRIPT))["write"](directory, 120, 8)
    return RunDir(directory)


@pytest.fixture
def study(run_dir: RunDir) -> PublishedStudy:
    """The same, loaded."""
    return PublishedStudy(run_dir)
