"""Data must fit in the memory of every process that trains: this one, or each worker."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from sweeper.config import StudyConfig, parse
from sweeper.data.dataset import Dataset
from sweeper.data.prepare import prepare
from sweeper.errors import DataError, SetupError
from sweeper.executors import claims
from sweeper.executors.bucket_executors import open_executors
from sweeper.executors.claims import (
    check_fits,
    check_shares,
    gpus,
    left_out,
    n_devices,
    n_workers,
    same_kind_as_first,
    shares_of,
    trained_bytes,
)
from sweeper.executors.jax_setup import jax_restored
from sweeper.process import physical_bytes
from sweeper.rundir import RunDir
from tests.executors.test_executors import work
from tests.round_machine import STUDY

AUTO = ("execution.threads=1", "execution.workers=2")


@cache
def prepared() -> Dataset:
    """The data, with all of the memory: preparing it takes some, too."""
    return prepare(parse(STUDY, Path("study.toml"), []))


def study(times_the_data: float, *settings: str) -> StudyConfig:
    """A study whose processes may use this many times the memory of its data."""
    memory = physical_bytes()
    assert memory is not None
    trained = trained_bytes(parse(STUDY, Path("study.toml"), []), prepared())
    fraction = times_the_data * trained / memory
    overrides = [f"execution.memory_fraction={fraction}", *settings]
    return parse(STUDY, Path("study.toml"), overrides)


def _kib(n_bytes: int) -> str:
    return f"{n_bytes / 1024:.3g} KiB"


@pytest.mark.parametrize(
    ("times", "settings", "fit"),
    [
        (4.1, ("execution.strategy=process", *AUTO), True),  # half for this process
        (3.9, ("execution.strategy=process", *AUTO), False),
        (2.1, ("execution.threads=0", "execution.workers=2"), True),
        (1.9, ("execution.threads=0", "execution.workers=2"), False),
        (3.9, ("execution.strategy=exact", *AUTO), True),  # no trial goes to a worker
    ],
)
def test_data_must_fit_in_the_share_of_each_training_worker(
    times: float, settings: tuple[str, ...], fit: bool
) -> None:
    config = study(times, *settings)
    data = prepared()
    if fit:
        check_fits(config, data)
        return
    with pytest.raises(DataError) as refused:
        check_fits(config, data)

    memory = physical_bytes()
    assert memory is not None
    share = int(memory * shares_of(config).worker)
    takes = _kib(trained_bytes(config, data))
    assert str(refused.value) == (
        f"study.toml:9: data: the data takes {takes}, but the share of this machine's memory "
        f"that each of 2 workers has is {_kib(share)}; write fewer execution.workers, drop "
        "columns or rows, or write a larger execution.memory_fraction"
    )


def test_data_are_in_memory_twice_if_the_device_is_the_cpu() -> None:
    data = prepared()
    check_fits(study(2.1, "execution.strategy=exact", *AUTO), data)
    config = study(1.8, "execution.strategy=exact", *AUTO)
    with pytest.raises(DataError) as refused:
        check_fits(config, data)

    both = data.nbytes + trained_bytes(config, data)
    assert str(refused.value).startswith(
        f"study.toml:9: data: the data takes {_kib(both)} as prepared and as trained on, but the "
        "share of this machine's memory is "
    )


def test_the_orders_of_rows_count_for_all_epochs_members_and_batch_sizes() -> None:
    data = prepared()
    more = "study.replicates=2", "train.epochs=50000"
    sizes = "search.train.batch_size={type='categorical', choices=[16, 32, 64]}"
    config = parse(STUDY, Path("study.toml"), [*more, sizes])
    orders = 4 * 50_000 * 2 * 3 * len(data.x_train)
    assert trained_bytes(config, data) == data.nbytes + orders
    memory = physical_bytes()
    assert memory is not None
    small = f"execution.memory_fraction={(orders + data.nbytes) / memory}"
    with pytest.raises(DataError, match=r"; write fewer train\.epochs or batch sizes, drop"):
        check_fits(parse(STUDY, Path("study.toml"), [*more, sizes, small, AUTO[0]]), data)


def test_a_worker_without_room_is_refused_when_a_bucket_first_needs_it(tmp_path: Path) -> None:
    config = study(3.9, *AUTO)
    data = prepared()
    check_fits(config, data)  # no trial has to go to a worker, but one may
    run_dir = RunDir(tmp_path)
    run_dir.make()

    with jax_restored(), open_executors(config, data, run_dir, lambda event: None) as executor:
        alone = work(0, 0, side="process")
        with pytest.raises(DataError, match="that each of 2 workers has is"):
            list(executor.train([alone]))
        assert executor.worker_executor is None


@pytest.fixture
def _four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "visible_gpus", lambda environment: ("0", "1", "2", "3"))
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)


@pytest.mark.usefixtures("_four_gpus")
def test_one_worker_per_gpu_has_the_memory_of_one_gpu() -> None:
    config = parse(STUDY, Path("study.toml"), ["execution.threads=4", "execution.workers='auto'"])
    assert (n_workers(config), gpus(config)) == (4, ("0", "1", "2", "3"))
    assert (shares_of(config).parent, shares_of(config).worker) == pytest.approx((0.4, 0.4))

    two = parse(STUDY, Path("study.toml"), ["execution.devices=2", "execution.workers=4"])
    assert gpus(two) == ("0", "1")
    assert shares_of(two).worker == pytest.approx(0.2)  # two workers on each of two


@pytest.mark.usefixtures("_four_gpus")
@pytest.mark.parametrize(
    ("chosen", "told", "hint"),
    [
        (
            {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.7"},
            "XLA_PYTHON_CLIENT_MEM_FRACTION=0.7 of this process",
            "unset XLA_PYTHON_CLIENT_MEM_FRACTION",
        ),
        (
            {},
            "0.7 that this process has from an earlier study",
            "run the study in a separate process",
        ),
    ],
)
def test_shares_that_exceed_a_gpu_are_refused(
    chosen: dict[str, str], told: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in chosen.items():
        monkeypatch.setenv(variable, value)
    config = parse(STUDY, Path("study.toml"), ["execution.threads=1", "execution.workers=8"])

    with pytest.raises(SetupError) as refused:
        check_shares(config, 0.7)
    assert str(refused.value) == (
        f"study.toml: execution.memory_fraction: 2 workers of 0.20 each, next to {told}, exceed "
        f"the 0.9 of a GPU that can be shared; {hint}, or write a smaller memory_fraction or "
        "fewer workers"
    )


@pytest.mark.parametrize(("workers", "expected"), [("'auto'", 1), ("6", 6)])
def test_lanes_on_a_cluster_are_divided_among_the_allowed_workers(
    workers: str, expected: int
) -> None:
    engine = "execution.engine={name='dask',address='tcp://10.0.0.1:8786'}"
    config = parse(STUDY, Path("study.toml"), [engine, f"execution.workers={workers}"])

    assert n_devices(config) == expected


@dataclass(frozen=True)
class Device:
    device_kind: str
    name: str

    def __str__(self) -> str:
        return self.name


def test_devices_of_a_different_kind_than_the_first_are_left_out() -> None:
    kinds = ("A100", "T4", "A100", "T4")
    devices = [Device(kind, f"cuda:{index}") for index, kind in enumerate(kinds)]
    config = parse(STUDY, Path("study.toml"), [])

    assert same_kind_as_first(("4", "5", "6", "7"), devices) == ("4", "6")
    assert same_kind_as_first(("4", "6"), devices) == ("4", "6")  # as they were left
    assert left_out(config, devices) == (
        "cuda:1 (T4), cuda:3 (T4) left out: only devices of the same kind as the first, A100, "
        "train, since on others the last digits of values would differ; to train on those "
        "instead, list only them in CUDA_VISIBLE_DEVICES"
    )


def test_equal_or_surplus_devices_are_not_reported_as_left_out() -> None:
    alike = [Device("A100", "cuda:0"), Device("A100", "cuda:1")]
    assert left_out(parse(STUDY, Path("study.toml"), []), alike) is None
    two = parse(STUDY, Path("study.toml"), ["execution.devices=2"])
    assert left_out(two, [*alike, Device("T4", "cuda:2")]) is None
