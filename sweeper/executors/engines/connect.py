"""Connects a study to its cluster, and checks the workers there."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from uuid import uuid4

from sweeper.config import StudyConfig
from sweeper.config.execution import EngineTable
from sweeper.errors import SetupError
from sweeper.executors.engines.core_slots import CoreSlots, HostShare
from sweeper.executors.engines.engine import AddressError, ClusterWorker, Engine
from sweeper.executors.engines.handshake import (
    Kinds,
    MachineReport,
    differences,
    make_survey,
    memory_shortage,
)
from sweeper.executors.engines.remote_slot import RemoteSlot
from sweeper.executors.engines.remote_worker import Opening
from sweeper.executors.engines.worker_pool import EngineExecutor, WorkerPool
from sweeper.executors.open_devices import own_xla_threads
from sweeper.executors.worker import StartFile, WorkerSetup
from sweeper.models.by_value import by_value
from sweeper.process import DISTRIBUTION
from sweeper.results.events import Observer, Warned
from sweeper.rundir import RunDir

# a worker answers when it is idle
_ANSWER_S = 30.0

_log = logging.getLogger("sweeper")


def connect_engine(
    config: StudyConfig,
    run_dir: RunDir,
    observer: Observer,
    start: StartFile | None,
    data_bytes: int,
) -> EngineExecutor:
    """The executor of a study with an engine, whose workers are ready and suitable.

    `start` is the saved model that its trials start from, `data_bytes` the size of its data as
    trained on.

    Raises:
        SetupError: the engine is not installed or does not answer, or a worker does not match.
    """
    table = config.execution.engine
    assert table is not None, "only called for studies that name one"
    engine = _engine(config, table)
    pool = None
    try:
        if engine.dashboard:
            _log.info("%s, its dashboard is at %s", engine.label, engine.dashboard)
        run_dir.shared_marker.write_text(uuid4().hex, encoding="utf-8")
        workers = config.execution.workers
        pool = WorkerPool(
            engine,
            _SlotFactory(config, run_dir, engine, observer, start, data_bytes),
            lambda message: observer(Warned(message)),
            None if workers == "auto" else workers,
        )
        pool.gather()
    except BaseException:
        if pool is not None:
            pool.close()
        engine.close()
        raise
    return EngineExecutor(engine, pool, config.execution.retries, observer)


def _engine(config: StudyConfig, table: EngineTable) -> Engine:
    address = table.address
    try:
        return _ENGINES[table.name](address)
    except ImportError as error:
        library = _LIBRARIES[table.name]
        found = f"{table.name}, but its package {library} cannot be imported: {error}"
        hint = f"python -m pip install '{DISTRIBUTION}[{table.name}]', or remove the setting"
        raise SetupError(config.problem("execution.engine.name", found, hint)) from error
    except AddressError as error:
        found = f"{address!r}, but {_NAMES[table.name]} does not answer there: {error}"
        hint = "start it, or write the address that it prints when it starts"
        raise SetupError(config.problem("execution.engine.address", found, hint)) from error


def _dask(address: str) -> Engine:
    from sweeper.executors.engines.dask_engine import DaskEngine

    return DaskEngine(address)


def _ray(address: str) -> Engine:
    # Ray reads it on import; otherwise, late calls of threads at the end would start a cluster
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    from sweeper.executors.engines.ray_engine import RayEngine

    return RayEngine(address)


_ENGINES: Mapping[str, Callable[[str], Engine]] = {"dask": _dask, "ray": _ray}
_NAMES = {"dask": "Dask's scheduler", "ray": "Ray"}
_LIBRARIES = {"dask": "distributed", "ray": "ray"}


class _SlotFactory:
    """Makes slots of workers that match this machine."""

    def __init__(
        self,
        config: StudyConfig,
        run_dir: RunDir,
        engine: Engine,
        observer: Observer,
        start: StartFile | None,
        data_bytes: int,
    ) -> None:
        self._config = config
        self._run_dir = run_dir
        self._engine = engine
        self._observer = observer
        self._start = start and replace(start, path=start.path.absolute())
        self._data_bytes = data_bytes
        self._survey = make_survey(config, run_dir)
        self._main = by_value(config)
        self._lock = threading.Lock()
        self._logs: dict[str, int] = {}
        self._core_slots = CoreSlots()

    @cached_property
    def _here(self) -> MachineReport:
        return MachineReport(**self._survey())

    @cached_property
    def _kinds(self) -> Kinds:
        return Kinds(self._here)

    def join(self, key: str, worker: ClusterWorker, neighbours: int) -> RemoteSlot:
        """The slot of a worker; `neighbours` is the number of workers on its host.

        Raises:
            SetupError: it does not match this machine; says how.
        """
        there = MachineReport(**self._engine.survey(key, self._survey, _ANSWER_S))
        fraction, most = self._config.execution.memory_fraction, self._config.execution.workers
        training = neighbours if most == "auto" else min(neighbours, most)
        problems = [
            *differences(worker.name, self._here, there),
            *memory_shortage(worker.name, there, self._data_bytes, fraction, training),
        ]
        if problems:
            raise SetupError(problems)
        self._engine.open(key, _ANSWER_S)
        with self._lock:
            for warning in self._kinds.new(worker.host, there):
                self._observer(Warned(warning))
            share = self._core_slots.take(key, worker, there.gpus)
            return RemoteSlot(self._engine, key, worker, self._opening(worker, neighbours, share))

    def leave(self, slot: RemoteSlot) -> None:
        """Free the share of a slot."""
        with self._lock:
            self._core_slots.give_back(slot.key, slot.worker)

    def _opening(self, worker: ClusterWorker, neighbours: int, share: HostShare) -> Opening:
        config, run_dir = self._config, self._run_dir
        log = self._logs.setdefault(worker.name, len(self._logs))
        return Opening(
            place=worker.name,
            setup=WorkerSetup(
                config=config,
                data=run_dir.data,
                checkpoints=run_dir.checkpoints,
                cpus=(),
                parent=0,
                start=self._start,
                directory=Path.cwd(),
                xla_threads=own_xla_threads(),
                main=self._main,
            ),
            log=run_dir.worker_log(log),
            memory_fraction=config.execution.memory_fraction,
            turn=share.turn,
            neighbours=neighbours,
            first_core=share.first_core,
            cores=worker.cores,
            variables={},
            trial_timeout_s=config.execution.trial_timeout_s,
        )
