"""Every private part of another library that sweeper uses still exists, and does the same."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import SimpleQueue
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optuna
import pytest
from joblib.externals.loky import ProcessPoolExecutor, process_executor
from optuna.storages._rdb import models

from sweeper.config import parse
from sweeper.executors import private_apis
from sweeper.executors.devices import NVIDIA_DEVICES
from sweeper.study import samplers
from sweeper.study.private_apis import importance_evaluator, suggest
from tests.command_line import STUDY


def test_the_file_cache_of_jax_returns_what_was_put(tmp_path: Path) -> None:
    cache = private_apis.file_cache(tmp_path / "cache")
    assert cache.get("key") is None
    cache.put("key", b"program")
    assert cache.get("key") == b"program"
    assert (tmp_path / "cache" / "key-cache").is_file()


def test_jax_keeps_programs_in_the_cache_that_replaces_its_own() -> None:
    kept: dict[str, bytes] = {}

    class Cache:
        _path = "here"

        get = staticmethod(kept.get)
        put = staticmethod(kept.__setitem__)

    names = ("jax_enable_compilation_cache", "jax_persistent_cache_min_compile_time_secs")
    before = {name: jax.config.values[name] for name in names}
    try:
        jax.config.update(names[0], True)
        jax.config.update(names[1], 0)
        private_apis.replace_cache(Cache())
        assert isinstance(private_apis.current_cache(), Cache)
        jax.jit(lambda x: x * 5 + 2)(jnp.ones(11)).block_until_ready()
    finally:
        private_apis.replace_cache(None)
        for name, value in before.items():
            jax.config.update(name, value)
    assert any("lambda" in key for key in kept)
    assert private_apis.current_cache() is None


def test_jax_says_whether_its_devices_are_open() -> None:
    code = """if True:
        import jax
        from sweeper.executors.private_apis import has_open_devices
        before = has_open_devices()
        jax.local_devices()
        print(before, has_open_devices())"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"


def test_an_invalid_setting_of_jax_is_distinguished_from_other_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAX_ENABLE_X64", "perhaps")
    code = """if True:
        from sweeper.executors.private_apis import is_invalid_jax_setting
        for code in ("import jax", "int('perhaps')"):
            try:
                exec(code)
            except ValueError as error:
                print(is_invalid_jax_setting(error))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\nFalse\n"


def test_threads_of_xla_have_a_known_name_on_linux() -> None:
    jax.local_devices()
    found = private_apis.count_xla_threads()
    assert found is None if sys.platform != "linux" else found is not None and found >= 1


def test_loky_has_a_switch_for_memory_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_executor, "_USE_PSUTIL", True)
    private_apis.let_worker_memory_grow()
    assert process_executor._USE_PSUTIL is False
    assert "_USE_PSUTIL" in process_executor._process_worker.__code__.co_names


@pytest.fixture
def pool() -> Iterator[Any]:
    pool = ProcessPoolExecutor(max_workers=1)
    yield pool
    pool.shutdown(kill_workers=True)


def test_loky_starts_its_only_worker_before_the_first_call(pool: Any) -> None:
    process = private_apis.start_single_worker(pool)
    assert process.is_alive()
    assert pool.submit(os.getpid).result(60) == process.pid


def test_loky_forgets_its_result_queue_at_the_end(pool: Any) -> None:
    private_apis.start_single_worker(pool)
    queue = private_apis.result_queue(pool)
    assert queue._writer.fileno() >= 0
    pool.shutdown(kill_workers=True)
    assert private_apis.result_queue(pool) is None


def test_loky_has_a_thread_from_the_first_call_to_the_end(pool: Any) -> None:
    private_apis.start_single_worker(pool)
    assert private_apis.manager_thread(pool) is None
    pool.submit(os.getpid).result(60)
    thread = private_apis.manager_thread(pool)
    assert thread is not None
    assert thread.is_alive()
    pool.shutdown(kill_workers=True)
    assert not thread.is_alive()


def test_loky_sends_no_call_that_was_dropped(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pool.submit(os.getpid).result(60)
    with monkeypatch.context() as patch:
        patch.setattr(pool._executor_manager_thread_wakeup, "wakeup", lambda: None)
        dropped = pool.submit(os.getpid)
    private_apis.drop_waiting_calls(pool)
    assert pool.submit(os.getppid).result(60) == os.getpid()
    assert not dropped.done()


def test_a_queue_is_closed_for_writing_once_by_two_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue: Any = SimpleQueue()
    closed: list[int] = []

    def close(handle: int) -> None:
        closed.append(handle)
        queue._writer.close()  # as the thread that waits for the end of the connection

    handle = queue._writer.fileno()
    with monkeypatch.context() as patched:
        patched.setattr("sweeper.executors.private_apis.os.close", close)
        private_apis.close_writer(queue)
    assert closed == [handle]
    os.close(handle)
    with pytest.raises(EOFError):
        queue._reader.recv()
    queue._reader.close()


def test_python_counts_exit_handlers() -> None:
    count = atexit._ncallbacks()
    function = atexit.register(lambda: None)
    assert atexit._ncallbacks() == count + 1
    atexit.unregister(function)


def test_optuna_numbers_studies_and_trials_in_its_storage() -> None:
    study = optuna.create_study()
    trial = study.ask()
    study.tell(trial, 1.0)
    found = study._storage.get_all_trials(study._study_id, deepcopy=False)
    assert [one._trial_id for one in found] == [trial._trial_id]
    assert study._storage.get_trial(trial._trial_id).number == 0


def test_optuna_knows_the_generation_of_a_trial_by_its_attribute() -> None:
    config = parse(STUDY, Path("study.toml"), ["study.sampler={name='nsgaii',population_size=2}"])
    attributes = samplers.of_first_generation(config)
    study = optuna.create_study(sampler=optuna.samplers.NSGAIISampler(population_size=2))
    for value in (1.0, 2.0):
        study.add_trial(optuna.trial.create_trial(value=value, system_attrs=attributes))
    (key,) = attributes
    study.ask().suggest_float("x", 0.0, 1.0)  # NSGA-II counts it to a generation
    assert study.trials[2].system_attrs[key] == 1


def test_optuna_draws_a_trial_from_distributions() -> None:
    trial = optuna.create_study().ask()
    suggest(trial, {"n": optuna.distributions.IntDistribution(3, 3)})
    assert trial.params == {"n": 3}


def test_optuna_has_the_tables_that_are_filled_at_once() -> None:
    tables = {model.__tablename__ for model in vars(models).values() if _is_table(model)}
    assert tables >= {"trials", "trial_params", "trial_values", "trial_intermediate_values"}


def _is_table(model: object) -> bool:
    return isinstance(model, type) and hasattr(model, "__tablename__")


def test_optuna_has_its_evaluator_of_importance() -> None:
    assert isinstance(importance_evaluator(), optuna.importance.PedAnovaImportanceEvaluator)


def test_optuna_logs_for_the_sampler_by_its_module() -> None:
    assert samplers.SteadyQMCSampler.__mro__[1].__module__ == "optuna.samplers._qmc"
    assert logging.getLogger("optuna.samplers._qmc").level == logging.ERROR


def test_jax_looks_for_gpus_in_the_same_places() -> None:
    from jax._src import hardware_utils

    places = tuple(map(str, NVIDIA_DEVICES))
    assert places == tuple(hardware_utils._NVIDIA_GPU_DEVICES)
