"""Preparing data takes little more memory than the data, and the amount is known in advance."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from sweeper.config import StudyConfig
from sweeper.data import memory
from sweeper.data.encode import categories_of
from sweeper.data.memory import check_host
from sweeper.data.prepare import peak_bytes, prepare, read
from sweeper.data.split import split_rows
from sweeper.errors import DataError
from sweeper.process import physical_bytes
from tests.data.conftest import MakeStudy

DATA = 'source = "parquet"\npath = "rows.parquet"\ntarget = "kind"\n'
N = 6000
RNG = np.random.default_rng(0)
KIND = pd.Series(RNG.choice(["fig", "pear"], N))
CITIES = pd.DataFrame({"city": [f"city {i:04}" for i in RNG.integers(0, 900, N)], "kind": KIND})
NUMBERS = pd.DataFrame({f"x{i}": RNG.normal(size=N) for i in range(200)}).assign(kind=KIND)
TEXTS = pd.DataFrame({f"t{i}": RNG.choice([*"abcd"], N) for i in range(60)}).assign(kind=KIND)


@pytest.fixture
def parquet_study(make_study: MakeStudy, tmp_path) -> Callable[..., StudyConfig]:
    def make(frame: pd.DataFrame, more: str = "", **others: object) -> StudyConfig:
        frame.to_parquet(tmp_path / "rows.parquet")
        return make_study(f"{DATA}{more}", **others)

    return make


def reckoned(config: StudyConfig) -> int:
    raw = read(config)
    return peak_bytes(config, raw, categories_of(config, raw, split_rows(config, raw)))


def taken(config: StudyConfig) -> tuple[int, int]:
    """The peak memory of NumPy and Python while data was prepared, and the size of the data."""
    tracemalloc.start()
    try:
        data = prepare(config)
        return tracemalloc.get_traced_memory()[1], data.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("frame", "more"),
    [
        (CITIES, ""),
        (CITIES, "split = { val = 0.1, test = 0.5 }\n"),
        pytest.param(NUMBERS, "", marks=pytest.mark.slow),
        (NUMBERS, 'impute = "median"\nscale = "minmax"\n'),
        (TEXTS, ""),
        (TEXTS, 'categorical = "ordinal"\n'),
    ],
    ids=["categories", "parts", "numbers", "filled", "texts", "ordinal"],
)
def test_preparing_takes_no_more_memory_than_estimated(
    frame: pd.DataFrame, more: str, parquet_study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "BLOCK_BYTES", 1 << 18)
    config = parquet_study(frame, more, precision="float32")
    prepare(config)  # imports on the way do not count

    most, data = taken(config)

    assert data < most < reckoned(config)
    if frame is CITIES:
        assert most < 1.2 * data


def test_folds_are_scaled_without_a_copy_of_all(
    parquet_study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "BLOCK_BYTES", 1 << 18)
    config = parquet_study(NUMBERS, "split = { test = 0.1 }\n", precision="float32")
    study = config.study.model_copy(update={"folds": 3})
    folded = config.model_copy(update={"study": study})
    prepare(folded)

    assert taken(folded)[0] < reckoned(folded)


def test_a_digest_takes_no_copy_of_the_data(parquet_study) -> None:
    data = prepare(parquet_study(CITIES))
    tracemalloc.start()
    assert data.digest
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert most < 0.1 * data.nbytes


@pytest.mark.parametrize(
    ("times", "hint"),
    [
        (0.9, "drop columns or rows, or write a larger execution.memory_fraction"),
        (1.1, "drop columns or rows"),
    ],
)
def test_a_larger_share_of_memory_is_only_advised_if_the_data_then_fits(
    times: float, hint: str, parquet_study
) -> None:
    memory = physical_bytes()
    assert memory is not None
    with pytest.raises(DataError) as refused:
        check_host(parquet_study(CITIES), int(times * memory))
    assert refused.value.problems[0].hint == hint


def test_data_too_large_to_prepare_is_refused_in_advance(parquet_study) -> None:
    plain = parquet_study(CITIES)
    memory, most = physical_bytes(), reckoned(plain)
    assert memory is not None

    def with_room_for(config: StudyConfig, n_bytes: float) -> StudyConfig:
        execution = config.execution.model_copy(update={"memory_fraction": n_bytes / memory})
        return config.model_copy(update={"execution": execution})

    data = prepare(with_room_for(plain, 1.01 * most))
    room = most - 1e6  # the data itself would fit
    assert data.nbytes < room
    tracemalloc.start()
    with pytest.raises(DataError) as refused:
        prepare(with_room_for(plain, room))
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    n_values = len(data.feature_names)
    assert held < 0.2 * most
    assert str(refused.value) == (
        f"study.toml:9: data: the data takes {most / 2**20:.3g} MiB while it is prepared, most of "
        f"it for the columns of {n_values} values of 'city', but the share of this machine's "
        f'memory is {room / 2**20:.3g} MiB; write data.categorical = "ordinal", drop columns or '
        "rows, or write a larger execution.memory_fraction"
    )

    numbers = parquet_study(NUMBERS)
    with pytest.raises(DataError) as refused:
        prepare(with_room_for(numbers, reckoned(numbers) / 2))
    assert "while it is prepared, but the share" in str(refused.value)
    assert "categorical" not in str(refused.value)
