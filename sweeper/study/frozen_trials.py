"""Trials of a run directory as those of an Optuna study, for Optuna's own functions and tools.

While a study runs, its sampler draws integers as floats, and also parameters that a trial does not
use. These trials have exactly what they were trained with, in the ranges and on the scales of the
study file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from sweeper.config import StudyConfig
from sweeper.config.search import CategoricalSearch, IntSearch
from sweeper.config.study import N_PARAMETERS, NOT_FINITE_EXCESS, ConstraintTable
from sweeper.results.ranking import Row, value_columns
from sweeper.study.space import AS_WRITTEN, or_name
from sweeper.trial import Scalar

Reports = Mapping[int, float]
ORIGIN = "sweeper:trial"
"""The attribute of an exported trial by which a later export knows it."""
_RANGE = "range"  # in the place of an extra value of `or`
# columns to export in addition to a trial's parameters and values
_ATTRIBUTES = ("reason", "best_value", "best_epoch", "epochs_done", "value_std", "n_parameters")
_ATTRIBUTES += ("train_s", "strategy", "error_type", "diverged_epoch")


def written_distributions(config: StudyConfig) -> dict[str, BaseDistribution]:
    """The distributions of what a trial is exported with, by name, as the study file has them.

    Optuna has neither powers nor extra values: powers become choices, and whether a trial has an
    extra value, and which, becomes a parameter of its own. If it has one, it lacks the other.
    """
    known: dict[str, BaseDistribution] = {}
    for name, entry in config.columns.items():
        if isinstance(entry, CategoricalSearch) or not entry.or_values:
            known[name] = AS_WRITTEN.distribution(entry)
        elif isinstance(entry, IntSearch) and entry.base is not None:
            known[name] = CategoricalDistribution(entry.values() or ())
        else:
            known[or_name(name)] = CategoricalDistribution((_RANGE, *entry.or_values))
            known[name] = AS_WRITTEN.distribution(entry)
    return known


def frozen_trials(
    config: StudyConfig,
    rows: Sequence[Row],
    curves: Mapping[int, Reports],
    known: Mapping[str, BaseDistribution],
) -> Iterator[FrozenTrial]:
    """The trials in rows of `trials.parquet`; `curves` are the objective by trial and epoch.

    Their parameters are those with `known` distributions.
    """
    columns = value_columns(len(config.study.objectives))
    for row in rows:
        params = dict(_written_params(json.loads(row["params_json"]), known))
        values = [row[name] for name in columns]
        is_complete = row["state"] == "COMPLETE"
        has_values = None not in values and row["state"] != "FAIL"
        measured = [name for name in row if name.startswith(("final_", "test_"))]
        attributes = {
            name: row[name] for name in (*_ATTRIBUTES, *measured) if row.get(name) is not None
        }
        attributes[ORIGIN] = f"{row.get('run_id')}:{row['trial_number']}"
        trial = create_trial(
            state=TrialState[row["state"]],
            values=values if is_complete or (has_values and len(columns) == 1) else None,
            params=params,
            distributions={name: known[name] for name in params},
            user_attrs=attributes,
            intermediate_values=dict(curves.get(row["trial_number"], {})),
            constraints=_excesses(config, row),
        )
        trial.number = row["trial_number"]
        trial.datetime_start = _local(row.get("started_at"))
        trial.datetime_complete = _local(row.get("finished_at"))
        yield trial


def blank_study(config: StudyConfig, storage: BaseStorage, name: str) -> optuna.Study:
    """An Optuna study without trials, for those of `config`."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=storage, study_name=name, directions=list(config.study.directions)
    )
    metrics = [*config.study.objectives]
    storage.set_study_system_attr(study._study_id, "study:metric_names", metrics)
    return study


def _written_params(
    params: Mapping[str, Scalar], known: Mapping[str, BaseDistribution]
) -> Iterator[tuple[str, Scalar]]:
    for name, value in params.items():
        which = known.get(or_name(name))
        if isinstance(which, CategoricalDistribution):
            is_extra = value in which.choices
            yield or_name(name), value if is_extra else _RANGE
            if is_extra:
                continue
        yield name, value


def _excesses(config: StudyConfig, row: Row) -> dict[str, float] | None:
    """By how much a trial violates each constraint in its last epoch; up to 0 it violates none.

    Whether it violates any is judged at the epoch that counts, which need not be the last. A metric
    without a value may be what violates one.
    """
    found: dict[str, float] = {}
    without_value: dict[str, float] = {}
    for one in config.study.constraints:
        column = one.metric if one.metric == N_PARAMETERS else f"final_{one.metric}"
        if (value := row[column]) is None:
            without_value |= dict.fromkeys(_excess_of(one, 0.0), NOT_FINITE_EXCESS)
        else:
            found |= _excess_of(one, value)
    if row.get("feasible"):
        found = {name: min(excess, 0.0) for name, excess in found.items()}
    elif row.get("feasible") is False and max(found.values(), default=0.0) <= 0.0:
        if without_value:
            found |= without_value
        elif found:
            found[max(found, key=lambda name: found[name])] = sys.float_info.epsilon
    return found or None


def _excess_of(constraint: ConstraintTable, value: float) -> dict[str, float]:
    """By how much a value violates each bound of a constraint, by name."""
    metric = constraint.metric
    over = {} if constraint.max is None else {f"{metric} max": value - constraint.max}
    under = {} if constraint.min is None else {f"{metric} min": constraint.min - value}
    return over | under


def _local(moment: datetime | float | None) -> datetime | None:
    """A time in Optuna's form: naive local time."""
    if isinstance(moment, datetime):
        return moment.astimezone().replace(tzinfo=None)
    return None if moment is None else datetime.fromtimestamp(moment)
