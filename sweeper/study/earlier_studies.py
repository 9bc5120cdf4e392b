"""Earlier studies as their trials are learnt from: run directories, and studies of Optuna."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.load import study_of
from sweeper.config.search import SearchEntry
from sweeper.config.settings import Settings, effective_value, has_neutral_value
from sweeper.config.study import N_PARAMETERS
from sweeper.config.table import value_of
from sweeper.errors import Problem, StudyError
from sweeper.results.ranking import value_columns
from sweeper.rundir import RunDir, refuse_links
from sweeper.trial import Scalar

OPTION = "--learn-from (in Python learn_from)"


@dataclass(frozen=True, slots=True)
class EarlierTrial:
    """A trial of an earlier study; `setting` is its value for a key, or raises a KeyError.

    `values` are its objectives, empty if it has none, and `metrics` what else is known of it.
    """

    state: str
    values: tuple[float, ...]
    epoch: int
    setting: Callable[[str, SearchEntry], object]
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    is_trained: bool = True


@dataclass(frozen=True, slots=True)
class EarlierStudy:
    """An earlier study; `objectives` are None if it does not name its metrics.

    `parameters` are the names of what it searched. `config` are its settings, if this package has
    trained it; the parameters are then keys of settings.
    """

    name: str
    objectives: tuple[str, ...] | None
    directions: tuple[str, ...]
    trials: Sequence[EarlierTrial]
    parameters: Sequence[str]
    config: StudyConfig | None = None


def read_earlier_study(source: str, name: str) -> EarlierStudy:
    """The study in a run directory or an Optuna storage; `name` is how messages name it.

    Raises:
        StudyError: the source is a file.
        SetupError: the source cannot be read.
    """
    if "://" in source:
        from sweeper.study.optuna_storage import read_study, split_name

        return _of_optuna(name, read_study(*split_name(source)))
    _refuse_a_file(source)
    return _of_run_directory(name, RunDir(Path(source)))


def _of_run_directory(name: str, run_dir: RunDir) -> EarlierStudy:
    from sweeper.results.listing import read_trials  # Arrow is slow to import

    refuse_links(run_dir)
    known = read_trials(run_dir)
    about, config = known.study, None
    keys = {one.get("name") or key.rpartition(".")[2]: key for key, one in about["search"].items()}
    if about["settings"]:  # of a study that was imported, only the search is known
        config = study_of(about["settings"], Path(about["study_file"]))
    columns = value_columns(len(known.metrics))
    trials: list[EarlierTrial] = []
    for row in known.rows():
        params = json.loads(row["params_json"])
        values = [row[column] for column in columns]
        trials.append(
            EarlierTrial(
                row["state"],
                () if None in values else tuple(values),
                row["epochs_done"],
                _setting_of_trial(config, params)
                if config
                else _setting_by_name({keys[name]: value for name, value in params.items()}),
                _metrics(row) if config else {},  # no number of parameters is known either
                row["reason"] != "infeasible",
            )
        )
    return EarlierStudy(
        name=name,
        objectives=known.metrics,
        directions=known.directions,
        trials=trials,
        parameters=[*about["search"]],
        config=config,
    )


def _of_optuna(name: str, study: Any) -> EarlierStudy:
    from sweeper.study.optuna_storage import before_first_epoch

    before = before_first_epoch(study.trials)
    trials = [
        EarlierTrial(
            trial.state.name,
            tuple(trial.values or ()),
            max(trial.intermediate_values, default=before) - before,
            _setting_by_name(trial.params),
        )
        for trial in study.trials
    ]
    metrics = None if study.metric_names is None else tuple(study.metric_names)
    directions = tuple(direction.name.lower() for direction in study.directions)
    parameters = [*dict.fromkeys(key for trial in study.trials for key in trial.params)]
    return EarlierStudy(name, metrics, directions, trials, parameters)


def _refuse_a_file(source: str) -> None:
    """Refuse a file instead of a run directory, such as that of an Optuna storage."""
    name = source if Path(source).is_file() else source.partition("#")[0]
    path = Path(name)
    if not path.is_file():
        return
    hint = "name a run directory, or an Optuna storage such as sqlite:///study.db"
    if RunDir(path.parent).trials.exists():
        hint = f"name the run directory: {path.parent}"
    elif _is_sqlite(path):
        hint = f"for an Optuna storage, write sqlite:///{source}"
    raise StudyError(Problem("", OPTION, f"{name} is a file, not a run directory", hint))


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(15) == b"SQLite format 3"
    except OSError:
        return False


def _metrics(row: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of a trial after its last epoch."""
    return {
        name.removeprefix("final_"): value
        for name, value in row.items()
        if name.startswith(("final_", N_PARAMETERS)) and value is not None
    }


def _setting_of_trial(
    config: StudyConfig, params: Mapping[str, Scalar]
) -> Callable[[str, SearchEntry], object]:
    settings, drawn = config.settings_of(params), config.by_key(params)

    def setting(key: str, entry: SearchEntry) -> object:
        try:
            return _value_in(settings, key)
        except KeyError:
            # its kind of model or optimizer does not use what it has drawn
            if key in drawn and entry.has(drawn[key]) is not None:
                return drawn[key]
            raise

    return setting


def _setting_by_name(params: Mapping[str, Scalar]) -> Callable[[str, SearchEntry], object]:
    """The parameter with the name of a key, or else of its column."""

    def setting(key: str, entry: SearchEntry) -> object:
        return params[key] if key in params else params[entry.column(key)]

    return setting


def _value_in(settings: Settings, key: str) -> object:
    """The value of a dotted key; what a number that was left out stands for, if there is such.

    Raises:
        KeyError: the setting does not exist, or is not used.
    """
    name, _, rest = key.partition(".")
    try:
        table = getattr(settings, name)
        value = value_of(table, rest)
    except AttributeError:
        raise KeyError(key) from None
    if value is None and has_neutral_value(key):
        value = effective_value(key, {name: table})
        if value is None:
            raise KeyError(key)
    return value
