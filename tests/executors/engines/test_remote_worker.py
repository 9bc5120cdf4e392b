"""What a worker of a cluster gets of its machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sweeper.config import parse
from sweeper.executors.engines.remote_worker import Opening, remote_cpus, remote_environment
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
    assert remote_environment(OPENING, {}, ())[FRACTION] == "0.2000"


def test_workers_of_a_host_take_its_gpus_in_turn() -> None:
    environment = remote_environment(OPENING, {}, ("0", "1"))
    # two of four share one
    assert (environment["CUDA_VISIBLE_DEVICES"], environment[FRACTION]) == ("1", "0.4000")


def test_a_workers_own_list_of_gpus_begins_with_the_one_to_use() -> None:
    """As for workers of dask-cuda: each sees the GPUs in a different order."""
    given = {"CUDA_VISIBLE_DEVICES": "2,3,0,1"}
    environment = remote_environment(replace(OPENING, turn=0), given, ("2", "3", "0", "1"))
    assert (environment["CUDA_VISIBLE_DEVICES"], environment[FRACTION]) == ("2", "0.8000")


def test_workers_with_the_same_list_of_gpus_take_them_in_turn() -> None:
    """As for workers in a job of SLURM."""
    given = {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    taken = [
        remote_environment(replace(OPENING, turn=turn), given, ("0", "1", "2", "3"))
        for turn in range(4)
    ]
    assert [one["CUDA_VISIBLE_DEVICES"] for one in taken] == ["0", "1", "2", "3"]
    assert {one[FRACTION] for one in taken} == {"0.8000"}


def test_a_gpu_assigned_by_the_engine_is_not_shared() -> None:
    environment = remote_environment(OPENING, {"CUDA_VISIBLE_DEVICES": "3"}, ("3",))
    assert environment[FRACTION] == "0.8000"


def test_workers_of_a_host_use_separate_cores() -> None:
    usable = (0, 2, 4, 6)
    cores = [remote_cpus(replace(OPENING, first_core=first), usable) for first in range(5)]
    assert cores == [(0,), (2,), (4,), (6,), (0,)]
    assert remote_cpus(replace(OPENING, first_core=2, cores=2), usable) == (4, 6)
    assert remote_cpus(replace(OPENING, cores=4), usable) == ()
