"""What of its machine a worker of a cluster gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sweeper.config import parse
from sweeper.executors.engines.remote_worker import Opening, far_cpus, far_environment
from sweeper.executors.worker import WorkerSetup
from tests.small_studies import DIGITS

SETUP = WorkerSetup(parse(DIGITS, Path("study.toml")), Path("data"), Path("files"), (), 0)
OPENING = Opening(
    place="dask 1",
    setup=SETUP,
    log=Path("worker-1.log"),
    memory_fraction=0.8,
    turn=1,
    neighbours=4,
    first_core=1,
    cores=1,
    variables={},
    trial_timeout_s=None,
)
FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"


def test_workers_of_a_host_share_its_memory() -> None:
    assert far_environment(OPENING, {}, ())[FRACTION] == "0.2000"


def test_workers_of_a_host_go_round_its_gpus() -> None:
    environment = far_environment(OPENING, {}, ("0", "1"))
    # two of four share one
    assert (environment["CUDA_VISIBLE_DEVICES"], environment[FRACTION]) == ("1", "0.4000")


def test_a_list_of_gpus_of_its_own_begins_with_the_one_to_take() -> None:
    """As workers of dask-cuda have it: each sees them in another order."""
    given = {"CUDA_VISIBLE_DEVICES": "2,3,0,1"}
    environment = far_environment(replace(OPENING, turn=0), given, ("2", "3", "0", "1"))
    assert (environment["CUDA_VISIBLE_DEVICES"], environment[FRACTION]) == ("2", "0.8000")


def test_workers_with_one_list_of_gpus_go_round_it() -> None:
    """As those of a job of SLURM's have it."""
    given = {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    taken = [
        far_environment(replace(OPENING, turn=turn), given, ("0", "1", "2", "3"))
        for turn in range(4)
    ]
    assert [one["CUDA_VISIBLE_DEVICES"] for one in taken] == ["0", "1", "2", "3"]
    assert {one[FRACTION] for one in taken} == {"0.8000"}


def test_one_gpu_that_the_engine_gave_is_its_own() -> None:
    environment = far_environment(OPENING, {"CUDA_VISIBLE_DEVICES": "3"}, ("3",))
    assert environment[FRACTION] == "0.8000"


def test_workers_of_a_host_keep_to_cores_of_their_own() -> None:
    usable = (0, 2, 4, 6)
    cores = [far_cpus(replace(OPENING, first_core=first), usable) for first in range(5)]
    assert cores == [(0,), (2,), (4,), (6,), (0,)]
    assert far_cpus(replace(OPENING, first_core=2, cores=2), usable) == (4, 6)
    assert far_cpus(replace(OPENING, cores=4), usable) == ()
