"""A study as Optuna's own tools know it: its parameters by name, in the values that trials had.

While a study runs, its sampler draws whole numbers as floats and draws what a trial has no use
for, too; here a trial has what it was trained with, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, create_trial

from sweeper.config import StudyConfig
from sweeper.config.search import CategoricalSearch, FloatSearch, SearchEntry
from sweeper.config.study import N_PARAMETERS
from sweeper.results.ranking import value_columns

Row = Mapping[str, Any]
Curve = Mapping[int, float]
# what is told of a trial beside its parameters and values
_TOLD = ("reason", "best_value", "best_epoch", "epochs_done", "value_std", "n_parameters")
_TOLD += ("train_s", "strategy", "error_type", "diverged_epoch")


def distributions_of(config: StudyConfig) -> dict[str, BaseDistribution]:
    """What each parameter was drawn from, by its column."""
    return {name: _distribution(entry) for name, entry in config.columns.items()}


def frozen_trials(
    config: StudyConfig, rows: Sequence[Row], curves: Mapping[int, Curve]
) -> Iterator[FrozenTrial]:
    """The trials of rows of `trials.parquet`; `curves` are the objective by trial and epoch."""
    known = distributions_of(config)
    columns = value_columns(len(config.study.objectives))
    for row in rows:
        params = json.loads(row["params_json"])
        values = [row[name] for name in columns]
        is_complete = row["state"] == "COMPLETE"
        has_values = None not in values and row["state"] != "FAIL"
        told = {name: row[name] for name in (*_TOLD, *_measured(row)) if row.get(name) is not None}
        trial = create_trial(
            state=optuna.trial.TrialState[row["state"]],
            values=values if is_complete or (has_values and len(columns) == 1) else None,
            params=params,
            distributions={name: known[name] for name in params},
            user_attrs=told,
            intermediate_values=dict(curves.get(row["trial_number"], {})),
            constraints=_excesses(config, row),
        )
        trial.number = row["trial_number"]
        for name, column in (
            ("datetime_start", "started_at"),
            ("datetime_complete", "finished_at"),
        ):
            if row.get(column) is not None:
                setattr(trial, name, _local(row[column]))
        yield trial


def with_gaps(config: StudyConfig, trials: Sequence[FrozenTrial]) -> Iterator[FrozenTrial]:
    """The trials, with one that is running for each number between them that has not ended.

    Storages of Optuna's count trials by themselves.
    """
    first = 0 if config.trial is None else config.trial.number
    for trial in sorted(trials, key=lambda trial: trial.number):
        for _ in range(first, trial.number):
            yield create_trial(state=optuna.trial.TrialState.RUNNING)
        yield trial
        first = trial.number + 1


def blank_study(config: StudyConfig, storage: BaseStorage, name: str) -> optuna.Study:
    """A study of Optuna's without any trial, for those of `config`."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=storage, study_name=name, directions=list(config.study.directions)
    )
    metrics = [*config.study.objectives]
    storage.set_study_system_attr(study._study_id, "study:metric_names", metrics)
    return study


def _distribution(entry: SearchEntry) -> BaseDistribution:
    if isinstance(entry, CategoricalSearch):
        return CategoricalDistribution(entry.choices)
    low, high = min(entry.low, *entry.beside, entry.high), max(entry.low, *entry.beside, entry.high)
    is_log = (entry.log or getattr(entry, "base", None) is not None) and low > 0
    if isinstance(entry, FloatSearch):
        return FloatDistribution(low, high, log=is_log)
    step = 1 if is_log or entry.beside else entry.step
    return IntDistribution(int(low), int(high - (high - low) % step), log=is_log, step=step)


def _measured(row: Row) -> list[str]:
    return [name for name in row if name.startswith(("final_", "test_"))]


def _excesses(config: StudyConfig, row: Row) -> dict[str, float] | None:
    """By how much a trial breaks each constraint in its last epoch; what is not above 0 is kept."""
    found: dict[str, float] = {}
    for one in config.study.constraints:
        column = one.metric if one.metric == N_PARAMETERS else f"final_{one.metric}"
        value = row[column]
        if value is None:
            continue
        if one.max is not None:
            found[f"{one.metric} max"] = value - one.max
        if one.min is not None:
            found[f"{one.metric} min"] = one.min - value
    if row.get("feasible"):  # judged by the epoch that counts, which need not be the last
        found = {name: min(excess, 0.0) for name, excess in found.items()}
    return found or None


def _local(moment: datetime | float) -> datetime:
    """A time as Optuna has it: of this machine's zone, and not saying so."""
    if isinstance(moment, datetime):
        return moment.astimezone().replace(tzinfo=None)
    return datetime.fromtimestamp(moment)
