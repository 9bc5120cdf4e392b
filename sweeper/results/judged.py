"""The metrics of a trial at the epoch of its value, from its learning curve."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import fsum
from typing import Any

from sweeper.results.light import readable, whole_numbers
from sweeper.rundir import RunDir

_COLUMNS = ("trial_number", "epoch", "metric", "phase", "value")


def with_metrics_of_value(
    run_dir: RunDir, trial: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A row of trials.parquet whose `final_` columns are of the epoch of its value.

    They are those of the last epoch as published. With several members, they are means over them.
    The row stays as it is if it has the value of its last epoch, or no curve can be read.
    `settings` are those of the study.
    """
    if not is_of_earlier_epoch(trial, settings):
        return dict(trial)
    found = _metrics(run_dir, trial["trial_number"], trial["best_epoch"])
    return {**trial, **{f"final_{metric}": value for metric, value in found.items()}}


def is_of_earlier_epoch(trial: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether a row of trials.parquet has the value of its best epoch, which is not its last."""
    epoch = trial.get("best_epoch")
    if not _keeps_best(settings) or epoch is None or trial.get("value") is None:
        return False
    return trial["value"] == trial.get("best_value") and epoch != trial["epochs_done"]


def _keeps_best(settings: Mapping[str, Any]) -> bool:
    """Whether trials end with their best epoch; otherwise the last one may just be as good."""
    stops_early = bool(settings.get("train", {}).get("early_stop"))
    return stops_early or settings.get("study", {}).get("value") == "best"


def _metrics(run_dir: RunDir, number: int, epoch: int) -> dict[str, float]:
    """The metrics of a trial after `epoch`, over all phases; empty if its curve is not readable."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for part in run_dir.own_parts():
        table = readable(part, _COLUMNS)
        if table is None or not {*_COLUMNS} <= {*table.column_names}:
            continue
        numbers, epochs = whole_numbers(table["trial_number"]), whole_numbers(table["epoch"])
        for place in ((numbers == number) & (epochs == epoch)).nonzero()[0].tolist():
            row = {name: table[name][place].as_py() for name in ("metric", "phase", "value")}
            if row["phase"] is None and row["value"] is not None:
                values[row["metric"]].append(row["value"])
    return {metric: fsum(several) / len(several) for metric, several in values.items()}
