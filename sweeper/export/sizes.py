"""Checks whether training trials of a run directory from elsewhere would take gigabytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from sweeper.config import Settings, StudyConfig
from sweeper.config.model import LayersTable
from sweeper.config.trust import TRUST
from sweeper.data.order import INDEX_BYTES
from sweeper.errors import Problem, SetupError
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import DataSpec
from sweeper.rundir import RunDir
from sweeper.sweep.session.ownership import is_own

_MAX_BYTES = 1_500_000_000  # Python and JAX take some hundred MB more
_ARRAYS = 25  # arrays of the size of a wide network's parameters, while it is compiled and trained
_OF_UNREAD = DataSpec(10_000, 100, 100_000, (), (), True, "float32", 0)


def refuse_oversized(config: StudyConfig, run_dir: RunDir, spec: DataSpec | None) -> None:
    """Refuse to train `config` from `run_dir` if that is too large and not the user's own.

    `spec` is that of its data, None if the data was not read.

    Raises:
        SetupError: it would take gigabytes, or more threads or workers than there are cores.
    """
    if is_own(config, run_dir):
        return
    if problems := [*_oversized(config, run_dir, spec or _OF_UNREAD)]:
        raise SetupError(problems)


def _oversized(config: StudyConfig, run_dir: RunDir, spec: DataSpec) -> Iterator[Problem]:
    cores = os.cpu_count() or 1
    for name in ("threads", "workers"):
        count = getattr(config.execution, name)
        if isinstance(count, int) and count > cores:
            found = f"{count}, but this machine has {cores} cores"
            yield Problem(str(run_dir.root), f"execution.{name}", found, TRUST)
    n_bytes = _bytes_of(config, spec)
    if n_bytes > _MAX_BYTES:
        found = f"training it again takes {n_bytes / 1e9:,.1f} GB, and no study that you have run "
        found += "here has recorded this"
        yield Problem(str(run_dir.root), "", found, TRUST)


def _bytes_of(config: StudyConfig, spec: DataSpec) -> int:
    """The memory of the largest trial, with all lanes of its class, and the orders of rows."""
    drawn = [
        {n: v for n, v in given.items() if n in config.columns} for given in config.study.enqueue
    ]
    trials = [config.settings_of(params) for params in drawn or [{}]]
    lanes = len(config.members) if config.trial is None else config.trial.program.capacity
    itemsize = 8 if spec.dtype == "float64" else 4
    programs = Programs(spec)
    each = [
        programs.n_parameters(settings) * itemsize * _ARRAYS
        for trial in trials
        for settings in (trial, _padded(config, trial))
    ]
    n_orders = len(config.members) * len(config.drawn_values("train.batch_size") or (1,))
    order_bytes = INDEX_BYTES * spec.train_rows * config.max_epochs
    return lanes * max(each) + n_orders * order_bytes


def _padded(config: StudyConfig, settings: Settings) -> Settings:
    """`settings` with the sizes to which the class of the trial pads its model."""
    room = None if config.trial is None else config.trial.program
    if room is None or room.width is None or not isinstance(settings.model, LayersTable):
        return settings
    sizes = {"width": room.width, "depth": room.depth}
    return replace(settings, model=settings.model.model_copy(update=sizes))
