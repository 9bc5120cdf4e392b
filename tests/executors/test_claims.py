"""Processes share the memory of devices, and train on devices of one kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.errors import SetupError
from sweeper.executors import claims
from sweeper.executors.claims import (
    check_shares,
    gpus,
    n_devices,
    n_training_places,
    n_workers,
    other_kinds_message,
    same_kind_as_first,
    shares_of,
)
from tests.round_machine import STUDY

ENGINE = "{name='dask', address='tcp://127.0.0.1:1'}"


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


def test_devices_of_a_different_kind_than_the_first_are_other_kinds_message() -> None:
    kinds = ("A100", "T4", "A100", "T4")
    devices = [Device(kind, f"cuda:{index}") for index, kind in enumerate(kinds)]
    config = parse(STUDY, Path("study.toml"), [])

    assert same_kind_as_first(("4", "5", "6", "7"), devices) == ("4", "6")
    assert same_kind_as_first(("4", "6"), devices) == ("4", "6")  # as they were left
    assert other_kinds_message(config, devices) == (
        "cuda:1 (T4), cuda:3 (T4) left out: only devices of the same kind as the first, A100, "
        "train, since on others the last digits of values would differ; to train on those "
        "instead, list only them in CUDA_VISIBLE_DEVICES"
    )


def test_equal_or_surplus_devices_are_not_reported() -> None:
    alike = [Device("A100", "cuda:0"), Device("A100", "cuda:1")]
    assert other_kinds_message(parse(STUDY, Path("study.toml"), []), alike) is None
    two = parse(STUDY, Path("study.toml"), ["execution.devices=2"])
    assert other_kinds_message(two, [*alike, Device("T4", "cuda:2")]) is None


@pytest.mark.parametrize(
    ("backend", "settings", "places"),
    [
        ("cpu", ("threads=3",), 3),
        ("cpu", ("trial_timeout='9s'", "workers=2"), 2),
        ("cpu", ("strategy='process'", "threads=8", "workers=2"), 2),
        ("gpu", ("threads=8",), 1),
        ("gpu", (f"engine={ENGINE}",), None),
        ("gpu", (f"engine={ENGINE}", "workers=5"), 5),
    ],
)
def test_several_threads_share_a_device_other_than_the_cpu(
    backend: str, settings: tuple[str, ...], places: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims.jax, "default_backend", lambda: backend)
    overrides = [f"execution.{setting}" for setting in settings]
    assert n_training_places(parse(STUDY, Path("study.toml"), overrides)) == places


@pytest.mark.parametrize(
    ("settings", "places"), [(("threads=1",), 1), (("trial_timeout='9s'", "workers=1"), 1)]
)
def test_a_study_trains_in_no_more_places_than_it_has_threads_or_workers(
    settings: tuple[str, ...], places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(claims, "devices_of", lambda config: [0, 1, 2, 3])
    overrides = [f"execution.{setting}" for setting in settings]
    assert n_training_places(parse(STUDY, Path("study.toml"), overrides)) == places
