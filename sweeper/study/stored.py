"""Trials written to a database of Optuna's at once; one by one a long curve takes half a second."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optuna.distributions import distribution_to_json
from optuna.exceptions import DuplicatedStudyError, StorageInternalError
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial
from sqlalchemy import orm, pool
from sqlalchemy.exc import SQLAlchemyError

from sweeper.config import StudyConfig
from sweeper.errors import Problem, SetupError, StudyError
from sweeper.study.optuna_export import blank_study

_Rows = list[dict[str, Any]]


def write_study(
    config: StudyConfig, trials: Sequence[FrozenTrial], url: str, name: str | None
) -> str:
    """Write a study of these trials to the database at `url`; gives the name that it has there.

    Raises:
        StudyError: there is such a study.
        SetupError: the database cannot be written.
    """
    name = name or config.study.name
    try:
        storage = opened(url)
        study = blank_study(config, storage, name)
        try:
            write_trials(storage, study._study_id, trials)
        except BaseException:
            storage.delete_study(study._study_id)
            raise
    except DuplicatedStudyError:
        mend = "give this one another name with --name, or write to another file"
        raise StudyError(Problem(url, "", f"it has a study '{name}' already", mend)) from None
    except (StorageInternalError, SQLAlchemyError, ImportError, ValueError) as error:
        told = str(error).partition("\n")[0]
        mend = "write a URL that Optuna takes, such as sqlite:///study.db"
        raise SetupError(Problem(url, "", f"cannot be written: {told}", mend)) from error
    return name


def opened(url: str) -> RDBStorage:
    """The database at `url`, whose connections are closed after each use."""
    return RDBStorage(url, engine_kwargs={"poolclass": pool.NullPool})


def write_trials(storage: RDBStorage, study_id: int, trials: Sequence[FrozenTrial]) -> None:
    """Add `trials`, numbered from 0 on in their order, to a study without any, all or none."""
    with orm.Session(storage.engine) as session, session.begin():
        stored = [
            models.TrialModel(
                number=number,
                study_id=study_id,
                state=trial.state,
                datetime_start=trial.datetime_start,
                datetime_complete=trial.datetime_complete,
            )
            for number, trial in enumerate(trials)
        ]
        session.add_all(stored)
        session.flush()  # gives them their ids
        by_id: dict[Any, FrozenTrial] = {
            one.trial_id: trial for one, trial in zip(stored, trials, strict=True)
        }
        for model, rows in _rows(by_id).items():
            session.bulk_insert_mappings(model.__mapper__, rows)


def _rows(trials: Mapping[int, FrozenTrial]) -> dict[Any, _Rows]:
    """The rows of every table beside that of trials, which are by their id."""
    pairs = trials.items()
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
            {"trial_id": i, "objective": index, **_value(value)}
            for i, trial in pairs
            for index, value in enumerate(trial.values or ())
        ],
        models.TrialIntermediateValueModel: [
            {"trial_id": i, "step": step, **_intermediate(value)}
            for i, trial in pairs
            for step, value in trial.intermediate_values.items()
        ],
        models.TrialUserAttributeModel: _attributes((i, t.user_attrs) for i, t in pairs),
        models.TrialSystemAttributeModel: _attributes((i, t.system_attrs) for i, t in pairs),
    }


def _value(value: float) -> dict[str, Any]:
    stored, kind = models.TrialValueModel.value_to_stored_repr(value)
    return {"value": stored, "value_type": kind}


def _intermediate(value: float) -> dict[str, Any]:
    model = models.TrialIntermediateValueModel
    stored, kind = model.intermediate_value_to_stored_repr(value)
    return {"intermediate_value": stored, "intermediate_value_type": kind}


def _attributes(of_trials: Iterable[tuple[int, Mapping[str, Any]]]) -> _Rows:
    return [
        {"trial_id": i, "key": key, "value_json": json.dumps(value)}
        for i, attributes in of_trials
        for key, value in attributes.items()
    ]
