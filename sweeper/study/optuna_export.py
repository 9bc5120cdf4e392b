"""Writes a run directory to an Optuna storage, for Optuna's own tools.

While a study runs, its sampler draws integers as floats, and also parameters that a trial does not
use. The exported trials have exactly what they were trained with, in the ranges and on the scales
of the study file. They are written all at once, because a single long curve takes half a second
through Optuna's interface.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    check_distribution_compatibility,
    distribution_to_json,
)
from optuna.exceptions import DuplicatedStudyError
from optuna.storages import BaseStorage, RDBStorage
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import orm

from sweeper.config import StudyConfig
from sweeper.config.load import study_of
from sweeper.config.search import CategoricalSearch, IntSearch
from sweeper.config.study import N_PARAMETERS
from sweeper.errors import Problem, StudyError, listed
from sweeper.results.listing import curves_of_all
from sweeper.results.listing import listed as listed_in
from sweeper.results.ranking import value_columns
from sweeper.rundir import RunDir
from sweeper.study.optuna_storage import open_storage, refusing, split_name, without_password
from sweeper.study.space import AS_WRITTEN, or_name
from sweeper.trial import Scalar

Row = Mapping[str, Any]
Curve = Mapping[int, float]
ORIGIN = "sweeper:trial"
"""The attribute of an exported trial by which a later export knows it."""
_RANGE = "range"  # in the place of an extra value of `or`
# columns to export in addition to a trial's parameters and values
_TOLD = ("reason", "best_value", "best_epoch", "epochs_done", "value_std", "n_parameters")
_TOLD += ("train_s", "strategy", "error_type", "diverged_epoch")


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
            known[name] = CategoricalDistribution(entry.values())
        else:
            known[or_name(name)] = CategoricalDistribution((_RANGE, *entry.or_values))
            known[name] = AS_WRITTEN.distribution(entry)
    return known


def frozen_trials(
    config: StudyConfig,
    rows: Sequence[Row],
    curves: Mapping[int, Curve],
    known: Mapping[str, BaseDistribution],
) -> Iterator[FrozenTrial]:
    """The trials in rows of `trials.parquet`; `curves` are the objective by trial and epoch.

    Their parameters are those with `known` distributions.
    """
    columns = value_columns(len(config.study.objectives))
    for row in rows:
        params = dict(_written(json.loads(row["params_json"]), known))
        values = [row[name] for name in columns]
        is_complete = row["state"] == "COMPLETE"
        has_values = None not in values and row["state"] != "FAIL"
        measured = [name for name in row if name.startswith(("final_", "test_"))]
        attributes = {name: row[name] for name in (*_TOLD, *measured) if row.get(name) is not None}
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


def with_gaps(config: StudyConfig, trials: Sequence[FrozenTrial]) -> Iterator[FrozenTrial]:
    """The trials, with a running one for each missing number between them.

    Optuna's storages number trials themselves. A running one is replaced when its trial has ended.
    """
    first = 0 if config.trial is None else config.trial.number
    for trial in sorted(trials, key=lambda trial: trial.number):
        for number in range(first, trial.number):
            origin = f"{_run_id(trial)}:{number}"
            running = create_trial(state=TrialState.RUNNING, user_attrs={ORIGIN: origin})
            running.number = number
            yield running
        yield trial
        first = trial.number + 1


def _run_id(trial: FrozenTrial) -> str:
    """The session that has trained a trial which was exported; empty for other trials."""
    return trial.user_attrs.get(ORIGIN, "").rpartition(":")[0]


def blank_study(config: StudyConfig, storage: BaseStorage, name: str) -> optuna.Study:
    """An Optuna study without trials, for those of `config`."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=storage, study_name=name, directions=list(config.study.directions)
    )
    metrics = [*config.study.objectives]
    storage.set_study_system_attr(study._study_id, "study:metric_names", metrics)
    return study


def _written(
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
    """By how much a trial violates each constraint in its last epoch; up to 0 it violates none."""
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
    if row.get("feasible"):  # judged at the epoch that counts, which need not be the last
        found = {name: min(excess, 0.0) for name, excess in found.items()}
    return found or None


def _local(moment: datetime | float | None) -> datetime | None:
    """A time in Optuna's form: naive local time."""
    if isinstance(moment, datetime):
        return moment.astimezone().replace(tzinfo=None)
    return None if moment is None else datetime.fromtimestamp(moment)


_Rows = list[dict[str, Any]]


class Exported(NamedTuple):
    """What an export has written: to the study `name`, `new` trials.

    `held` numbers of trials that have not ended are held by running trials without parameters.
    """

    name: str
    new: int
    held: int


def write_study(
    config: StudyConfig, trials: Sequence[FrozenTrial], url: str, name: str
) -> Exported:
    """Write these trials to a study in the database at `url`.

    A study with this name gets the trials that it lacks, after its own.

    Raises:
        StudyError: the study there was not exported, or has another search or other directions.
        SetupError: the database cannot be written.
    """
    with refusing(without_password(url), "written"):
        storage = open_storage(url)
        try:
            study = blank_study(config, storage, name)
        except DuplicatedStudyError:
            return _add_missing(config, trials, storage, name)
        whole = [*with_gaps(config, trials)]
        try:
            write_trials(storage, study._study_id, whole)
        except BaseException:
            storage.delete_study(study._study_id)
            raise
        return Exported(name, len(trials), len(whole) - len(trials))


def _add_missing(
    config: StudyConfig, trials: Sequence[FrozenTrial], storage: RDBStorage, name: str
) -> Exported:
    """Add the trials that an earlier export has not; trials of others are left alone.

    Raises:
        StudyError: the study there is not one that was exported, or cannot have these trials, too.
    """
    study = optuna.load_study(study_name=name, storage=storage)
    directions = tuple(direction.name.lower() for direction in study.directions)
    there, hint = study.get_trials(deepcopy=False), f"write another name, such as {name}-sweeper"
    found = ""
    if directions != config.study.directions:
        found = f"the study '{name}' there has other directions: {listed(directions)}"
    elif any("epochs_done" in one.user_attrs and ORIGIN not in one.user_attrs for one in there):
        found = f"an earlier version has exported trials to the study '{name}', not saying which"
    elif there and not any(ORIGIN in one.user_attrs for one in there):
        found = f"the study '{name}' there has trials, and none was exported from a run directory"
    elif other := _first_clash(there, trials):
        found = f"the study '{name}' there has another search: {other}"
    if found:
        raise StudyError(Problem("", "--name", found, hint))
    known = {trial.user_attrs.get(ORIGIN) for trial in there}
    sessions = {_run_id(trial) for trial in trials}
    running = [one for one in there if one.state is TrialState.RUNNING and _run_id(one) in sessions]
    held = {int(one.user_attrs[ORIGIN].rpartition(":")[2]): one._trial_id for one in running}
    whole = [*with_gaps(config, trials)]
    missing = [
        one for one in whole if one.number not in held and one.user_attrs[ORIGIN] not in known
    ]
    ended = {held[trial.number]: trial for trial in trials if trial.number in held}
    write_trials(storage, study._study_id, missing, len(there), ended)
    new = len(ended) + sum(trial.state is not TrialState.RUNNING for trial in missing)
    return Exported(name, new, len(whole) - len(trials))


def _first_clash(there: Sequence[FrozenTrial], trials: Sequence[FrozenTrial]) -> str:
    """A parameter that Optuna would not allow with both distributions; empty if there is none."""
    ours = {name: one for trial in trials for name, one in trial.distributions.items()}
    for trial in there:
        for name, theirs in trial.distributions.items():
            try:
                check_distribution_compatibility(ours.get(name, theirs), theirs)
            except ValueError:
                return f"'{name}' is {theirs}, but here {ours[name]}"
    return ""


def write_trials(
    storage: RDBStorage,
    study_id: int,
    trials: Sequence[FrozenTrial],
    first: int = 0,
    ended: Mapping[int, FrozenTrial] | None = None,
) -> None:
    """Add `trials`, numbered from `first` in their order, to a study; all or none.

    The running trials with the ids in `ended` become the trials there.
    """
    ended = ended or {}
    with orm.Session(storage.engine) as session, session.begin():
        stored = [
            models.TrialModel(number=number, study_id=study_id, **_of_model(trial))
            for number, trial in enumerate(trials, first)
        ]
        session.add_all(stored)
        session.flush()  # assigns their ids
        by_id: dict[Any, FrozenTrial] = {
            one.trial_id: trial for one, trial in zip(stored, trials, strict=True)
        }
        attributes = session.query(models.TrialUserAttributeModel)
        attributes.filter(models.TrialUserAttributeModel.trial_id.in_(ended)).delete()
        session.bulk_update_mappings(
            models.TrialModel.__mapper__,
            [{"trial_id": i, **_of_model(trial)} for i, trial in ended.items()],
        )
        for model, rows in _rows({**by_id, **ended}).items():
            session.bulk_insert_mappings(model.__mapper__, rows)


def _of_model(trial: FrozenTrial) -> dict[str, Any]:
    return {
        "state": trial.state,
        "datetime_start": trial.datetime_start,
        "datetime_complete": trial.datetime_complete,
    }


def _rows(trials: Mapping[int, FrozenTrial]) -> dict[Any, _Rows]:
    """The rows of all other tables, by the id of their trial."""
    pairs = trials.items()
    to_value = models.TrialValueModel.value_to_stored_repr
    to_intermediate = models.TrialIntermediateValueModel.intermediate_value_to_stored_repr
    return {
        models.TrialParamModel: [
            {
                "trial_id": i,
                "param_name": name,
                "param_value": trial.distributions[name].to_internal_repr(value),
                "distribution_json": distribution_to_json(trial.distributions[name]),
            }
            for i, trial in pairs
            for name, value in trial.params.items()
        ],
        models.TrialValueModel: [
            {"trial_id": i, "objective": index, "value": stored, "value_type": kind}
            for i, trial in pairs
            for index, value in enumerate(trial.values or ())
            for stored, kind in (to_value(value),)
        ],
        models.TrialIntermediateValueModel: [
            {
                "trial_id": i,
                "step": step,
                "intermediate_value": stored,
                "intermediate_value_type": kind,
            }
            for i, trial in pairs
            for step, value in trial.intermediate_values.items()
            for stored, kind in (to_intermediate(value),)
        ],
        models.TrialUserAttributeModel: _attributes((i, t.user_attrs) for i, t in pairs),
        models.TrialSystemAttributeModel: _attributes((i, t.system_attrs) for i, t in pairs),
    }


def _attributes(of_trials: Iterable[tuple[int, Mapping[str, Any]]]) -> _Rows:
    return [
        {"trial_id": i, "key": key, "value_json": json.dumps(value)}
        for i, attributes in of_trials
        for key, value in attributes.items()
    ]


def export_optuna(run_dir: RunDir, url: str, name: str | None) -> Exported:
    """Write the finished trials to `url`.

    Raises:
        SweeperError: nothing was published yet, or the storage cannot be written.
    """
    url, name = split_name(url, name)
    known = listed_in(run_dir)
    config = study_of(known.study["settings"], Path(known.study["study_file"]))
    metric = config.study.objectives[0]
    is_judged = len(config.study.objectives) == 1 and metric != N_PARAMETERS
    curves = curves_of_all(run_dir, metric) if is_judged else {}
    trials = [*frozen_trials(config, known.rows(), curves, written_distributions(config))]
    return write_study(config, trials, url, name or config.study.name)
