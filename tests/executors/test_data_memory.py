"""Data must fit in the memory of every process that trains: this one, or each worker."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sweeper.config import StudyConfig, parse
from sweeper.data.dataset import Dataset
from sweeper.data.prepare import prepare
from sweeper.errors import DataError
from sweeper.executors.bucket_executors import open_executors
from sweeper.executors.claims import shares_of
from sweeper.executors.data_memory import check_fits, trained_bytes
from sweeper.executors.engines import connect
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
    fewer = r"; write fewer train\.epochs, study\.replicates or batch sizes, drop"
    with pytest.raises(DataError, match=fewer):
        check_fits(parse(STUDY, Path("study.toml"), [*more, sizes, small, AUTO[0]]), data)


def test_workers_of_an_engine_need_room_for_the_orders_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    def refuse(*inputs: Any) -> None:
        given.append(inputs[-1])
        raise RuntimeError("no cluster")

    monkeypatch.setattr(connect, "connect_engine", refuse)
    config = study(3.9, "execution.engine.name=dask", "execution.engine.address=none")
    opening = open_executors(config, prepared(), RunDir(tmp_path), lambda event: None)
    with jax_restored(), pytest.raises(RuntimeError, match="no cluster"), opening:
        pass
    assert given == [trained_bytes(config, prepared())]


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
