"""Writes a run directory to an Optuna storage, for Optuna's own tools.

Trials are written all at once, because a single long curve takes half a second through Optuna's
interface.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.distributions import check_distribution_compatibility, distribution_to_json
from optuna.exceptions import DuplicatedStudyError
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import orm

from sweeper.config import StudyConfig
from sweeper.config.load import study_of
from sweeper.config.study import N_PARAMETERS
from sweeper.errors import Problem, StudyError, listed
from sweeper.results.listing import curves_of_all, read_trials
from sweeper.rundir import RunDir
from sweeper.study.frozen_trials import (
    ORIGIN,
    blank_study,
    frozen_trials,
    written_distributions,
)
from sweeper.study.limits import trial_numbers
from sweeper.study.optuna_storage import open_storage, refusing, split_name, without_password

_Rows = list[dict[str, Any]]


def with_gaps(config: StudyConfig, trials: Sequence[FrozenTrial]) -> Iterator[FrozenTrial]:
    """The trials, with a running one for each missing number between them.

    Optuna's storages number trials themselves. A running one is replaced when its trial has ended.
    """
    first = trial_numbers(config).start
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


class Exported(NamedTuple):
    """What an export has written: `new` trials, to the study `name`.

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
        StudyError: the study there was not exported from the same run, or has another search or
            other directions.
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
    sessions = {_run_id(trial) for trial in trials}
    found = ""
    if directions != config.study.directions:
        found = f"the study '{name}' there has other directions: {listed(directions)}"
    elif any("epochs_done" in one.user_attrs and ORIGIN not in one.user_attrs for one in there):
        found = f"an earlier version exported trials to the study '{name}' without recording which"
    elif there and not any(ORIGIN in one.user_attrs for one in there):
        found = f"the study '{name}' there has trials, and none was exported from a run directory"
    elif other := _first_clash(there, trials):
        found = f"the study '{name}' there has another search: {other}"
    elif {_run_id(one) for one in there if ORIGIN in one.user_attrs} - sessions:
        found = f"the study '{name}' there has trials of another run, such as one before --fresh"
    if found:
        raise StudyError(Problem("", "--name", found, hint))
    known = {trial.user_attrs.get(ORIGIN) for trial in there}
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
    known = read_trials(run_dir)
    config = study_of(known.study["settings"], Path(known.study["study_file"]))
    metric = config.study.objectives[0]
    is_judged = len(config.study.objectives) == 1 and metric != N_PARAMETERS
    curves = curves_of_all(run_dir, metric) if is_judged else {}
    trials = [*frozen_trials(config, known.rows(), curves, written_distributions(config))]
    return write_study(config, trials, url, name or config.study.name)
