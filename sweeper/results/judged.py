"""The metrics of a trial at the epoch of its value, from its learning curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweeper.results.formatting import names
from sweeper.results.light import readable, whole_numbers
from sweeper.rundir import RunDir

CURVE_COLUMNS = ("trial_number", "epoch", "metric", "value")
"""The columns of metrics/ that make up curves."""


def with_metrics_of_value(
    run_dir: RunDir, trial: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A row of trials.parquet whose `final_` columns are of the epoch of its value.

    They are those of the last epoch as published. The row stays as it is if it has the value of its
    last epoch, or no curve can be read. If its epoch is not recorded, the columns are None.
    `settings` are those of the study.
    """
    if not _keeps(settings) or trial.get("value") is None:
        return dict(trial)
    if not _is_of_best_epoch(trial, settings):
        return {**trial, **{name: None for name in trial if name.startswith("final_")}}
    if not is_of_earlier_epoch(trial, settings):
        return dict(trial)
    found = _metrics(run_dir, trial["trial_number"], trial["best_epoch"])
    return {**trial, **{f"final_{metric}": value for metric, value in found.items()}}


def is_of_earlier_epoch(trial: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether a row of trials.parquet has the value of its `best_epoch`, which is not its last."""
    return _is_of_best_epoch(trial, settings) and trial["best_epoch"] != trial["epochs_done"]


def _is_of_best_epoch(trial: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether a row is known to have the value of its `best_epoch`.

    Each replicate and fold has its own best epoch, and so does a metric other than the first
    objective.
    """
    study = settings.get("study", {})
    n_members = (study.get("replicates") or 1) * (study.get("folds") or 1)
    is_judged = n_members == 1 and _keeps(settings) == names(study["metric"])[0]
    return is_judged and trial.get("value") == trial.get("best_value") is not None


def _keeps(settings: Mapping[str, Any]) -> str:
    """The metric by whose best epoch trials end; empty if they end with their last one."""
    study, early_stop = settings.get("study", {}), settings.get("train", {}).get("early_stop")
    if study.get("value") != "best" and not early_stop:
        return ""
    # like StudyConfig.keeps: the number of parameters is the same in all epochs
    differing = (name for name in names(study["metric"]) if name != "n_parameters")
    guide = next(differing, "val_loss")
    return guide if study.get("value") == "best" else early_stop.get("metric") or guide


def _metrics(run_dir: RunDir, number: int, epoch: int) -> dict[str, float | None]:
    """The metrics of a trial after `epoch`, None if not finite; empty if no curve is readable."""
    found: dict[str, float | None] = {}
    for part in run_dir.own_parts():
        table = readable(part, CURVE_COLUMNS)
        if table is None or not {*CURVE_COLUMNS} <= {*table.column_names}:
            continue
        numbers, epochs = whole_numbers(table["trial_number"]), whole_numbers(table["epoch"])
        for place in ((numbers == number) & (epochs == epoch)).nonzero()[0].tolist():
            metric, value = (table[name][place].as_py() for name in ("metric", "value"))
            found[metric] = value
    return found
