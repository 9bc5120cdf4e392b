"""A study that is killed at epoch 17 of 40 and resumed is, bit for bit, one that was not."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from sweeper.ledger import Ledger
from tests.command_line import contents
from tests.digest import deterministic_digest
from tests.forking import Fork
from tests.in_process import study_in, trained
from tests.processes import environment_of
from tests.small_studies import COUPLED, DIGITS, PARTS, bent, write_mixture

MIDWAY, EPOCHS = 17, 40
ROUNDS = (
    "study.n_trials=3",
    f"train.epochs={EPOCHS}",
    f"schedule={{round_epochs={MIDWAY},parallel=2}}",
    "execution={strategy='exact',threads=1,workers=0}",
    "results={keep_models=2,save_optimizer=true}",
)
# batches are so small that a round takes long enough to be killed in
STUDIES: Mapping[str, tuple[str, ...]] = {
    "supervised": (
        DIGITS,
        "data={source='sklearn',name='wine',split={val=0.2,test=0.1}}",
        "model={kind='mlp',depth=1,width=8,dropout=0.2}",
        "train.batch_size=1",
        "search={optimizer={lr={type='float',low=1e-4,high=1e-2,log=true}}}",
    ),
    "alternating": (
        PARTS,
        "train.batch_size=4",
        "train.phases.fit.epochs=5",
        "train.phases.follow.epochs=3",  # the process is killed in the middle of it
        "search={train={phases={fit={lr={type='float',low=1e-4,high=1e-2,log=true}}}}}",
    ),
    "coupled": (
        COUPLED,
        "train.batch_size=1",
        "search={optimizer={generator={lr={type='float',low=1e-4,high=1e-2,log=true}}}}",
    ),
}
# it prints a line when it trains on from `MIDWAY`, and commits nothing after that
STARTED = """
import sys, time
import sweeper
from sweeper.results.events import BucketFinished, BucketStarted

late = []

def watch(event):
    if isinstance(event, BucketStarted) and event.epoch_to > int(sys.argv[2]):
        late.append(event)
        print("training", flush=True)
    if isinstance(event, BucketFinished) and late:
        time.sleep(600)

sweeper.run(sweeper.load_study("study.toml", [sys.argv[1]]), observer=watch)
"""


def killed_midway(directory: Path, cache: Path) -> None:
    """The study in `directory`, killed while its first trials train on from `MIDWAY`."""
    arguments = [f"results.dir={directory / 'run'}", str(MIDWAY)]
    with Fork(
        ["-c", STARTED, *arguments],
        cwd=directory,
        env=environment_of(cache),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "training\n"
        process.kill()


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, marks=[pytest.mark.slow] * (program != "supervised"))
        for program in STUDIES
    ],
)
def test_a_study_killed_at_epoch_17_of_40_ends_with_the_same_bits(
    program: str, compile_cache: Path, tmp_path: Path
) -> None:
    study, *settings = STUDIES[program]
    text = bent(study, *ROUNDS, *settings)
    for directory in (tmp_path / "killed", tmp_path / "whole"):
        directory.mkdir()
        write_mixture(directory)
        study_in(directory, text)

    killed_midway(tmp_path / "killed", compile_cache)
    with closing(Ledger.open(tmp_path / "killed" / "run" / "ledger.db")) as ledger:
        (block,) = ledger.curves(1, 9)
        opened = ledger.opened_round()
    assert [len(curve.values) for curve in block.curves] == [MIDWAY, MIDWAY]
    assert opened is not None and opened.round == 2

    one, other = (trained(study_in(tmp_path / name, text)).run_dir for name in ("killed", "whole"))
    assert deterministic_digest(one) == deterministic_digest(other)
    assert contents(one.models) == contents(other.models)
    assert len(contents(one.models)) >= 2
