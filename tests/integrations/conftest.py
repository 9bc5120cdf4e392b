"""One small study for all trackers and apps."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from sweeper.rundir import RunDir
from tests.command_line import STUDY
from tests.in_process import study_in, trained
from tests.small_studies import bent

# a file of tests that imports its library is collected only where that is installed
collect_ignore = [] if find_spec("flax") else ["test_flax.py"]

SEARCH = {
    "lr": "search.optimizer.lr={type='float',low=1e-4,high=1e4,log=true}",
    "epochs": "search.train.epochs={type='int',low=2,high=4}",
    "activation": "search.model.activation={type='categorical',choices=['relu','tanh']}",
}


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """Eight trials, some of which diverge."""
    text = bent(STUDY, *SEARCH.values(), "study.n_trials=8", "study.name='wine'")
    return trained(study_in(tmp_path_factory.mktemp("study"), text)).run_dir
