"""The studies that train one trial again: alone, to compare it with its record, or on more rows.

A trial that is compared, epoch by epoch, needs the same data and code as in the original study.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from statistics import fmean
from typing import Any, Literal

from sweeper.config import StudyConfig, parse
from sweeper.config.load import study_of
from sweeper.config.study import N_PARAMETERS
from sweeper.config.toml import Source, toml_text
from sweeper.data.ahead import preparing
from sweeper.data.metric_checks import undefined_on
from sweeper.errors import FRESH, DataError, StudyError
from sweeper.executors.claims import claim_devices
from sweeper.executors.jax_setup import jax_restored
from sweeper.export.trial_file import trial_of, trial_tables
from sweeper.files import read_small
from sweeper.preflight.check import fixed_start_of
from sweeper.programs.data_spec import DataSpec, data_spec
from sweeper.results.listing import read_trials
from sweeper.results.ranking import best_of
from sweeper.results.read import open_results
from sweeper.rundir import RunDir
from sweeper.sweep.session import backup
from sweeper.sweep.session.ownership import refuse_foreign
from sweeper.sweep.session.reconcile import check_resume
from sweeper.sweep.session.xla_threads import kept_threads
from sweeper.trial import TrialState

TrainOn = Literal["train+val", "all"]

_PLACE = ["epoch", "replicate", "fold", "metric"]


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """Where a value differs from the recorded one; None means not finite or missing."""

    epoch: int
    replicate: int
    fold: int
    metric: str
    recorded: float | None
    again: float | None


@dataclass(frozen=True, slots=True)
class Reproduction:
    """How a trial that was trained again compares with its record.

    `largest` is the largest difference of two finite values, by metric; `versions` are those that
    differ, as recorded and here.
    """

    trial: int
    epochs: int
    values: int
    differing: int
    first: MetricDifference | None
    largest: Mapping[str, float]
    versions: Mapping[str, tuple[str, str | None]]


def alone(run_dir: RunDir, number: int | None, place: Path) -> tuple[StudyConfig, int]:
    """The study of a single trial with results in `place`, and its number; the best if None.

    Raises:
        SweeperError: the trial does not exist.
    """
    config, row = trial_of(run_dir.root, number)
    tables = trial_tables(config, row)
    tables["results"] |= {"dir": str(place), "keep_models": 0, "ensemble": None}
    return parse(toml_text(tables), config.source.path), int(row["trial_number"])


def refit_study(
    run_dir: RunDir, number: int | None, train_on: TrainOn
) -> tuple[StudyConfig, Mapping[str, Any]]:
    """The study that trains a trial again on more rows, and the trial's row; the best if None.

    Raises:
        SweeperError: the trial does not exist.
    """
    config, row = trial_of(run_dir.root, number)
    tables = trial_tables(config, row)
    name = f"{config.study.name[:80]}-refit-{row['trial_number']}"
    # no rows are left to choose an epoch by, so the last one is used
    members = {"replicates": 1, "folds": None}
    # metrics of training rows, and arrays that grow with these rows, need not meet constraints
    unbound = {"constraints": []}
    tables["study"] |= {"name": name, "value": "last", **members, **unbound}
    tables["train"] |= {"early_stop": None}
    tables["execution"].pop("trial_timeout", None)  # it trains on more rows, and longer at a time
    split = config.data.split
    tables["data"]["split"] |= {"train_on": train_on, "seed": config.split_seed}
    if not split.leaves_rows:  # with folds, val had no effect
        tables["data"]["split"] |= {"val": (1 - split.test) / 2}
    directory = f"{row['trial_number']}{'-all' if train_on == 'all' else ''}"
    tables["results"] |= {"dir": str(run_dir.refit / directory), "keep_models": 1, "ensemble": None}
    if row["state"] != TrialState.FAIL:  # else it trains all of its epochs
        tables["trial"]["epochs"] = _best_epoch(run_dir, config, row) or row["epochs_done"]
    of_class = tables["trial"]["class"]
    unpadded = {"width": None, "depth": None, "run_widths": [], "sizes": {}}
    exact = {"strategy": "exact", "capacity": 1, **unpadded}
    tables["trial"]["class"] = {**of_class, **exact, "traced": {}}
    return parse(toml_text(tables), config.source.path), row


def with_defined_objective(config: StudyConfig) -> StudyConfig:
    """The study of a refit, judged by its loss if an objective has no value on validation rows.

    If the trial had folds, these rows are only drawn for the refit, which trains on them, too.
    """
    with preparing(config) as prepared:
        data = prepared.wait()
    found = undefined_on(config, data, data.y_val[data.counting("val")], "the validation part")
    if {f"val_{metric}" for metric, _ in found}.isdisjoint(config.study.objectives):
        return config
    by_loss = {"metric": f"val_{config.train.loss_names[0]}", "direction": "minimize"}
    return config.model_copy(update={"study": config.study.model_copy(update=by_loss)})


def _best_epoch(run_dir: RunDir, config: StudyConfig, row: Mapping[str, Any]) -> int | None:
    """The epoch after which a trial was best; None if its metrics do not say.

    If a trial keeps the weights of its best epoch, each replicate and fold has an epoch of its own,
    and this is their mean.
    """
    if config.keeps is not None and any(run_dir.own_parts()):
        values = _values(run_dir, row["trial_number"], "value")["value"].sort_index()
        of_metric = values[values.index.get_level_values("metric") == config.keeps.metric]
        curves = (curve.tolist() for _, curve in of_metric.groupby(["replicate", "fold"]))
        epochs = [best_of(curve, config.keeps.maximize)[1] for curve in curves]
        if known := [epoch for epoch in epochs if epoch is not None]:
            return round(fmean(known))
    # all epochs have the same number of parameters
    return row["best_epoch"] if config.study.objectives[0] != N_PARAMETERS else None


def compare_with_record(recorded: RunDir, again: RunDir, number: int) -> Reproduction:
    """Compare trial `number` in both run directories, value by value."""
    before, now = _values(recorded, number, "recorded"), _values(again, number, "again")
    rows = before.join(now, how="left").sort_index()
    left, right = rows["recorded"], rows["again"]
    differs = ~((left == right) | (left.isna() & right.isna()))
    apart = (left - right).abs()[differs].dropna().groupby("metric").max()
    first = None
    if differs.any():
        place = rows.index[differs.to_numpy()][0]
        named = dict(zip(_PLACE, place, strict=True))
        values = (_finite(column.loc[place]) for column in (left, right))
        first = MetricDifference(**named, **dict(zip(("recorded", "again"), values, strict=True)))
    epochs = rows.index.get_level_values("epoch")
    return Reproduction(
        trial=number,
        epochs=int(epochs.max()) if len(rows) else 0,
        values=len(rows),
        differing=int(differs.sum()),
        first=first,
        largest={str(metric): float(value) for metric, value in apart.items()},
        versions=_versions(recorded, again),
    )


def _values(run_dir: RunDir, number: int, name: str) -> Any:
    """The values of a trial by epoch, replicate, fold and metric, in a column `name`."""
    metrics = open_results(run_dir.root).metrics()
    trial_metrics = metrics[metrics["trial_number"] == number]
    return trial_metrics.set_index(_PLACE)[["value"]].rename(columns={"value": name})


def _versions(recorded: RunDir, again: RunDir) -> dict[str, tuple[str, str | None]]:
    """The recorded versions that are different now; which packages are recorded may change."""
    before, now = (open_results(one.root).study["versions"] for one in (recorded, again))
    return {n: (then, now.get(n)) for n, then in before.items() if then != now.get(n)}


def _finite(value: Any) -> float | None:
    return None if value != value else float(value)


_HINT = "restore it, or start the study over: python -m sweeper run {file} --fresh"


def refuse_another(run_dir: RunDir, *, trust_code: bool = False) -> DataSpec | None:
    """Refuse to repeat trials of a study whose data or code has changed, as `run` does.

    If only the published tables were kept, nothing is known about its data, and nothing is refused.
    Functions that run for this must be known as the user's own, unless `trust_code` is given.
    Returns what programs need to know about the data, None if it was not read.

    Raises:
        StudyError: the data, or a file of user-defined code, has changed.
        DataError: the data is missing or unusable.
        SetupError: nothing was published, the ledger is damaged, or code is not trusted.
    """
    file = Path(read_trials(run_dir).study["study_file"])
    if not run_dir.ledger.exists() and not run_dir.backup.exists():
        return None
    with closing(backup.read(run_dir)) as ledger:
        sessions = ledger.sessions()
    began = sessions[0]["study"]
    # wherever it has been moved to
    results = began["results"] | {"dir": str(run_dir.root)}
    config = study_of(began | {"results": results}, file, run_dir)
    if not trust_code:
        refuse_foreign(config, run_dir)
    with _with_file_lines(file), preparing(config) as prepared:
        data = prepared()
    weights = None
    with _with_file_lines(file, _HINT.format(file=quote(file.name))):
        if "fixed_start" in sessions[0]:
            with jax_restored():
                claim_devices(config, kept_threads(config, run_dir))
                weights = fixed_start_of(config, data)
        check_resume(config, sessions, data.digest, None, asks_start=False, weights=weights)
    return data_spec(config, data)


@contextmanager
def with_fresh_start_as_fix(config: StudyConfig) -> Iterator[None]:
    """Let errors about changes since the study `config` began advise to start it over.

    Its settings follow from the study whose trials it trains again: nobody can restore them.
    """
    try:
        yield
    except StudyError as error:
        fix = {"where": str(config.run_dir), "hint": "use --fresh to move it aside and train again"}
        raise type(error)(
            replace(one, **fix) if FRESH in one.hint else one for one in error.problems
        ) from error


def _text_of(file: Path) -> str:
    """The text of the study file; empty if it is gone or unreadable."""
    try:
        return read_small(file)
    except (OSError, ValueError):
        return ""


@contextmanager
def _with_file_lines(file: Path, hint: str | None = None) -> Iterator[None]:
    """Let errors name lines of the study file, since `config` was read from text without a file."""
    try:
        yield
    except (StudyError, DataError) as error:
        source = Source(file, _text_of(file))
        raise type(error)(
            replace(one, where=source.where(one.key), hint=hint or one.hint)
            for one in error.problems
        ) from error
