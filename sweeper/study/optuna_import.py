"""Writes the trials of an Optuna study as the tables of a run directory, for viewing them.

The directory has no ledger: its tables are a view of the Optuna study, and importing it again
replaces them. Nothing can be trained there.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial

from sweeper.config import StudyConfig
from sweeper.config.refusals import nearest
from sweeper.config.search import CategoricalSearch, FloatSearch, IntSearch, SearchEntry
from sweeper.config.space import SEARCHED_TABLES
from sweeper.config.study import StudyTable
from sweeper.config.tables import settings_of_searched_tables
from sweeper.errors import Problem, StudyError, did_you_mean, listed
from sweeper.results.columns import IMPORTANCE, LEAST_TRIALS
from sweeper.results.importance import write_importance
from sweeper.results.imported import ImportedTables, imported_from, is_unfinished
from sweeper.results.listing import read_trials
from sweeper.results.ranking import (
    BestTrials,
    ParetoFront,
    Row,
    best_of,
    is_feasible,
    value_columns,
)
from sweeper.results.status import IMPORTED_RUN, Status, write_status
from sweeper.rundir import RunDir, refuse_links
from sweeper.study.importance import Importance
from sweeper.study.optuna_storage import (
    before_first_epoch,
    read_study,
    recorded_url,
    split_name,
    without_password,
)

_ENDED = ("COMPLETE", "PRUNED", "FAIL")
_NOT_A_WORD = re.compile(r"\W")
_MAX_NAME = 100
_MAX_EPOCH = 2**31 - 2


def import_optuna(
    url: str,
    name: str | None,
    target: Path | None,
    renamed: Mapping[str, str],
    metrics: Sequence[str],
) -> tuple[RunDir, int]:
    """Write the ended trials of an Optuna study to `target`; returns it and their number.

    The study is the one after `#` in `url`, or else `name`, or the only one there.
    `renamed` maps names of parameters to keys of settings. `metrics` name the objectives, if the
    study does not.

    Raises:
        StudyError: the directory has something else, or a name to map or a metric does not fit.
        SetupError: the storage cannot be read.
    """
    _check_keys(renamed)
    url, name = split_name(url, name)
    study = read_study(url, name)
    place = f"{recorded_url(url)}#{study.study_name}"
    safe = _NOT_A_WORD.sub("-", study.study_name).strip("-")[:_MAX_NAME] or "imported"
    run_dir = RunDir(target or Path("runs") / safe)
    as_before = f"{without_password(url)}#{study.study_name}"  # what earlier versions recorded
    _check_free(run_dir, place, as_before)
    trials = [trial for trial in study.trials if trial.state.name in _ENDED]
    search = _search(place, trials, renamed)
    config = _config(safe, _objectives(place, study, metrics), study, search)
    columns = {key: entry.column(key) for key, entry in search.items()}
    names = {old: columns[renamed.get(old, old)] for trial in trials for old in trial.params}
    before = before_first_epoch(trials)
    _check_integers(place, trials, names, config, before)
    rows = [_row(config, trial, names, before) for trial in trials]
    tables = ImportedTables(run_dir, config, place)
    tables.write(rows, [*_curves(config, trials, before)])
    _write_importance(run_dir, config, tables, rows)
    write_status(run_dir, _status(config, rows))
    return run_dir, len(rows)


def without_settings(run_dir: RunDir) -> dict[str, str | None]:
    """The parameters of an imported study that are not settings, with what each may be called."""
    known = settings_of_searched_tables()
    columns = {_last(key) for key in known}
    parameters = read_trials(run_dir).study["search"]
    free = [key for key in known if key not in parameters]
    return {
        name: nearest(name, free)
        for name in parameters
        if _last(name) not in columns or ("." in name and not _is_in_a_table(name))
    }


def named_like_settings(run_dir: RunDir) -> dict[str, str]:
    """The parameters of an imported study that are matched by name alone, with their settings."""
    keys = {
        _last(key): key for key in sorted(settings_of_searched_tables(), key=_depth, reverse=True)
    }
    return {name: keys[name] for name in read_trials(run_dir).study["search"] if name in keys}


def has_metric(run_dir: RunDir) -> bool:
    """Whether the objectives of an imported study have names that another study can share."""
    metrics = read_trials(run_dir).metrics
    return metrics != value_columns(len(metrics))


def _is_in_a_table(key: str) -> bool:
    return _table_of(key) in SEARCHED_TABLES


def _table_of(key: str) -> str:
    return key.partition(".")[0]


def _depth(key: str) -> int:
    return key.count(".")


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _check_free(run_dir: RunDir, place: str, as_before: str) -> None:
    """Refuse a directory that has anything but an import of the same study, even unfinished."""
    refuse_links(run_dir)
    root = run_dir.root
    if not root.exists() or (root.is_dir() and not any(root.iterdir())):
        return
    is_view = root.is_dir() and not run_dir.ledger.exists()
    is_same = imported_from(run_dir) in (place, as_before)
    if is_view and (is_same or is_unfinished(run_dir, place)):
        return
    hint = "name a new directory with --to"
    raise StudyError(Problem(str(root), "--to", "there is something else", hint))


def _check_keys(renamed: Mapping[str, str]) -> None:
    """Refuse to map to keys that no study file has; arguments of functions may have any name."""
    known = settings_of_searched_tables()
    for name, key in renamed.items():
        table, _, last = key.rpartition(".")
        own = {_last(one) for one in known if _table_of(one) == _table_of(key)}
        if not table or last in own:
            continue
        near = nearest(last, known)
        if near is None and _is_in_a_table(key):
            continue
        hint = f"write a setting of {listed(SEARCHED_TABLES, 'or')}, such as optimizer.lr"
        if near:
            hint = f"did you mean '{near}'?"
        if _is_in_a_table(key):
            hint += f" If it is an argument of your own function, write --map {name}={last}"
        raise StudyError(Problem("--map", f"{name}={key}", f"no setting is named '{key}'", hint))


def _objectives(place: str, study: optuna.Study, given: Sequence[str]) -> tuple[str, ...]:
    count = len(study.directions)
    known = [*(given or study.metric_names or value_columns(count))]
    if len(known) != count or len({*known}) != count:
        found = f"{listed(known)} for a study with {count} objectives"
        raise StudyError(Problem(place, "--metric", found, "name each objective once"))
    return tuple(known)


def _config(
    name: str,
    objectives: tuple[str, ...],
    study: optuna.Study,
    search: Mapping[str, SearchEntry],
) -> StudyConfig:
    """What tables and importances need to know of a study; it has no other settings."""
    directions = tuple(direction.name.lower() for direction in study.directions)
    is_one = len(objectives) == 1
    table = StudyTable.model_construct(
        name=name,
        metric=objectives[0] if is_one else objectives,
        direction=directions[0] if is_one else directions,
        n_trials=len(study.trials),
    )
    return StudyConfig.model_construct(study=table, search=dict(search), same_as={})


def _search(
    place: str, trials: Sequence[FrozenTrial], renamed: Mapping[str, str]
) -> dict[str, SearchEntry]:
    """The search of all trials, by key: for each parameter, all values that any trial could have.

    Raises:
        StudyError: a name to map does not exist, or two names are mapped to one.
    """
    found: dict[str, list[BaseDistribution]] = {}
    for trial in trials:
        for name, distribution in trial.distributions.items():
            found.setdefault(name, []).append(distribution)
    for name in renamed:
        if name not in found:
            hint = did_you_mean(name, [*found]) or f"its parameters are {listed([*found])}"
            raise StudyError(Problem(place, "--map", f"no trial has a parameter '{name}'", hint))
    keys = [renamed.get(name, name) for name in found]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise StudyError(Problem(place, "--map", f"two parameters are called {twice[0]}", ""))
    columns = _columns(keys)
    return {
        key: _entry(key, column, every)
        for key, column, every in zip(keys, columns, found.values(), strict=True)
    }


def _columns(keys: Sequence[str]) -> list[str]:
    """The column of each key: its last part, or all of it if several keys have the same."""
    whole = [_NOT_A_WORD.sub("_", key) for key in keys]
    last = [_NOT_A_WORD.sub("_", key.rpartition(".")[2]) for key in keys]
    taken = {"json"}  # params_json has all parameters
    columns: list[str] = []
    for short, long in zip(last, whole, strict=True):
        column = short if last.count(short) == 1 else long
        while column in taken:
            column += "_"
        taken.add(column)
        columns.append(column)
    return columns


def _entry(key: str, column: str, every: Sequence[BaseDistribution]) -> SearchEntry:
    """The search entry of a parameter with these distributions."""
    name = None if column == key.rpartition(".")[2] else column
    if any(isinstance(one, CategoricalDistribution) for one in every):
        choices = dict.fromkeys(_plain(value) for one in every for value in _choices(one))
        return CategoricalSearch.model_construct(type="categorical", name=name, choices=(*choices,))
    ranges = [one for one in every if isinstance(one, FloatDistribution | IntDistribution)]
    low, high = min(one.low for one in ranges), max(one.high for one in ranges)
    is_log = all(one.log for one in ranges) and low > 0
    if all(isinstance(one, IntDistribution) for one in ranges):
        return IntSearch.model_construct(type="int", name=name, low=low, high=high, log=is_log)
    low, high = float(low), float(high)
    return FloatSearch.model_construct(type="float", name=name, low=low, high=high, log=is_log)


def _choices(distribution: BaseDistribution) -> Sequence[Any]:
    """The choices of a distribution, or the ends of a range that became one."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return distribution.low, distribution.high


def _plain(value: Any) -> bool | int | float | str:
    """A choice as it is in a table; all but finite numbers, booleans and text become text."""
    is_plain = isinstance(value, bool | str) or (isinstance(value, int) and _is_int64(value))
    is_plain = is_plain or (isinstance(value, float) and math.isfinite(value))
    return value if is_plain else str(value)


def _is_int64(value: int) -> bool:
    return -(2**63) <= value < 2**63


def _check_integers(
    place: str,
    trials: Sequence[FrozenTrial],
    names: Mapping[str, str],
    config: StudyConfig,
    before: int,
) -> None:
    """Refuse integers that no column has room for.

    Raises:
        StudyError: for the first step or parameter that is too large.
    """
    for trial in trials:
        for step in trial.intermediate_values:
            if not -_MAX_EPOCH <= step - before <= _MAX_EPOCH:
                found = f"trial {trial.number} reports a value at step {step}"
                hint = f"report epochs, up to {_MAX_EPOCH}, as steps of a new Optuna study"
                raise StudyError(Problem(place, "", found, hint))
        for name, value in trial.params.items():
            is_int = isinstance(config.columns[names[name]], IntSearch)
            if is_int and not _is_int64(value):
                found = f"the parameter {name} of trial {trial.number} is {value}, an integer "
                found += "of more than 64 bits"
                hint = "suggest a float or a category instead in a new Optuna study"
                raise StudyError(Problem(place, "", found, hint))


def _row(
    config: StudyConfig, trial: FrozenTrial, names: Mapping[str, str], before: int
) -> dict[str, Any]:
    """The row of a trial; columns that only trials of this package have are 0, null or empty.

    A complete trial with a value that is not finite has diverged, as trials of this package do. The
    first epoch is the step after `before`.
    """
    entries = config.columns
    params: dict[str, Any] = {}
    for name, value in trial.params.items():
        column = names[name]
        is_float = isinstance(entries[column], FloatSearch)
        params[column] = float(value) if is_float else _plain(value)
    columns = value_columns(len(config.study.objectives))
    values, state = trial.values or [], trial.state.name
    reason = {"PRUNED": "pruned", "FAIL": "error"}.get(state)
    if not all(map(math.isfinite, values)):
        values, state, reason = [], "PRUNED", "diverged"
    reports = sorted(trial.intermediate_values.items())
    maximize = config.study.directions[0] == "maximize"
    best, place = best_of([value for _, value in reports], maximize)
    return {
        "run_id": IMPORTED_RUN,
        "trial_number": trial.number,
        "state": state,
        "reason": reason,
        **dict(zip(columns, values, strict=False)),
        "best_value": best,
        "best_epoch": None if place is None else reports[place - 1][0] - before,
        "epochs_done": reports[-1][0] - before if reports else 0,
        **{f"params_{column}": value for column, value in params.items()},
        "params_json": json.dumps(params),
        "n_parameters": 0,
        "strategy": "none",
        "structure_id": "",
        "told_through_round": 0,
        "first_round": 0,
        "last_round": 0,
        "seed": 0,
        "attempts": 1,
        "started_at": _seconds(trial.datetime_start),
        "finished_at": _seconds(trial.datetime_complete),
        "train_s": None if trial.duration is None else trial.duration.total_seconds(),
        "feasible": all(value <= 0 for value in trial.constraints.values())
        if trial.constraints
        else None,
    }


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _curves(
    config: StudyConfig, trials: Sequence[FrozenTrial], before: int
) -> Iterator[dict[str, Any]]:
    """The rows of metrics: the intermediate values, which are of the first objective."""
    for trial in trials:
        for step, value in sorted(trial.intermediate_values.items()):
            yield {
                "study": config.study.name,
                "trial_number": trial.number,
                "replicate": 0,
                "fold": 0,
                "epoch": step - before,
                "step": step - before,
                "metric": config.study.objectives[0],
                "value": value,
            }


def _write_importance(
    run_dir: RunDir, config: StudyConfig, tables: ImportedTables, rows: Sequence[Row]
) -> None:
    complete = [row for row in rows if row["state"] == "COMPLETE"]
    if len(complete) < LEAST_TRIALS or not config.search:
        return
    importance = Importance(config)
    importance.add(complete)
    objectives = enumerate(config.study.objectives)
    found = {metric: importance.of(index) for index, metric in objectives}
    write_importance(run_dir, tables.schema(IMPORTANCE), found, 0, len(complete))


def _status(config: StudyConfig, rows: Sequence[Row]) -> Status:
    """The status of an imported study, which is finished."""
    now, study = time.time(), config.study
    front = _front(config, rows)
    ended = [row["finished_at"] for row in rows if row["finished_at"] is not None]
    counts = {state: sum(row["state"] == state for row in rows) for state in _ENDED}
    is_judged = any(row["feasible"] is not None for row in rows)
    feasible = sum(row["state"] == "COMPLETE" and is_feasible(row) for row in rows)
    return Status(
        study=study.name,
        run_id=IMPORTED_RUN,
        pid=os.getpid(),
        host=socket.gethostname(),
        state="finished",
        started_at=now,
        updated_at=now,
        round=0,
        n_trials=len(rows),
        counts={**counts, "RUNNING": 0, "WAITING": 0},
        best=front[0] if front else None,
        metric=study.metric,
        direction=study.direction,
        trials_per_minute=None,
        eta_s=None,
        running=[],
        compile_s=0.0,
        train_s=sum(row["train_s"] or 0.0 for row in rows),
        predicted_compile_s=0.0,
        predicted_train_s=0.0,
        n_compiled=0,
        n_cache_hits=0,
        spent_s={},
        committed_at=max(ended, default=None),
        front=front if len(study.objectives) > 1 else [],
        feasible=feasible if is_judged else None,
        diverged=sum(row["reason"] == "diverged" for row in rows),
    )


def _front(config: StudyConfig, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The feasible trials that no other dominates, as shown in a status; or the best one."""
    study = config.study
    several = len(study.objectives) > 1
    front = ParetoFront(study.directions) if several else BestTrials(study.directions, 1)
    front.add(rows)
    columns = value_columns(len(study.objectives))
    return [
        {
            "trial_number": row["trial_number"],
            "value": row["value"],
            "values": [row[name] for name in columns],
            "params": json.loads(row["params_json"]),
        }
        for row in front.rows()
        if is_feasible(row)
    ]
