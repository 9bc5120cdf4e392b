"""GPUs are counted without starting JAX."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.executors.devices import mps_pipes, visible_gpus, worker_cpus, worker_environment


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ("0", "1")),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ("1",)),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a, GPU-b"}, ("GPU-a", "GPU-b")),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,0"}, ("1",)),
        ({"JAX_PLATFORMS": "cpu"}, ()),
        ({"JAX_PLATFORMS": "cuda,cpu"}, ("0", "1")),
    ],
)
def test_the_environment_restricts_the_gpus(
    environment: dict[str, str], expected: tuple[str, ...], driver: Path
) -> None:
    assert visible_gpus(environment, driver=driver, devices=[driver], plugin=True) == expected


def test_without_the_plugin_jax_runs_on_the_cpu(driver: Path) -> None:
    assert visible_gpus({}, driver=driver, devices=[driver], plugin=False) == ()


@pytest.mark.parametrize(("device", "gpus"), [("none", ()), (".", ("0",))])
def test_a_machine_without_a_list_of_gpus_has_one_if_it_has_a_device(
    device: str, gpus: tuple[str, ...], tmp_path: Path
) -> None:
    """As with WSL, whose driver does not list them."""
    devices = [tmp_path / device]
    assert visible_gpus({}, driver=tmp_path / "none", devices=devices, plugin=True) == gpus


def test_a_list_of_gpus_that_the_machine_does_not_have_is_ignored(driver: Path) -> None:
    """As on a node without GPUs of a cluster whose jobs inherit the variable."""
    given, devices = {"CUDA_VISIBLE_DEVICES": "0,1"}, [driver / "nvidia0", driver / "nvidiactl"]
    assert visible_gpus(given, driver=driver / "gpus", devices=devices, plugin=True) == ()
    devices[1].touch()
    assert visible_gpus(given, driver=driver / "gpus", devices=devices, plugin=True) == ("0", "1")


def test_workers_are_distributed_over_several_gpus() -> None:
    given = [worker_environment(i, 0.2, ("0", "3"), {})["CUDA_VISIBLE_DEVICES"] for i in range(3)]

    assert given == ["0", "3", "0"]


def test_workers_on_one_gpu_share_it() -> None:
    environment = worker_environment(1, 0.2, ("0",), {})

    assert "CUDA_VISIBLE_DEVICES" not in environment
    assert environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.2000"


def test_workers_without_a_gpu_get_a_core_each() -> None:
    assert [worker_cpus(i, (), (0, 4, 6), 3) for i in range(4)] == [(0,), (4,), (6,), (0,)]
    assert worker_cpus(1, ("0",), (0, 4, 6), 3) == ()
    assert worker_cpus(1, (), (0, 4, 6), 2) == ()  # a quota, which does not select cores


def test_the_multi_process_service_is_found_by_its_pipes(tmp_path: Path) -> None:
    environment = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    assert mps_pipes(environment) is None

    (tmp_path / "control").touch()
    assert mps_pipes(environment) == tmp_path
