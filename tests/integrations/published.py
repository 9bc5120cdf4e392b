"""What a tracker must have of a study, read from its Parquet files."""

from __future__ import annotations

import math
from typing import Any

import sweeper
from sweeper.rundir import RunDir

Curves = dict[str, list[tuple[int, float]]]


def curves(run_dir: RunDir, number: int) -> Curves:
    """The curves of a trial, as pairs of epoch and value, by metric."""
    rows = sweeper.open_results(run_dir.root).metrics()
    rows = rows[(rows["trial_number"] == number) & rows["value"].notna()]
    return {
        str(metric): [*zip(some["epoch"].tolist(), some["value"].tolist(), strict=True)]
        for metric, some in rows.sort_values("epoch").groupby("metric")
    }


def rows(run_dir: RunDir) -> dict[int, dict[str, Any]]:
    """The columns of each trial that are not null, by number."""
    found = sweeper.open_results(run_dir.root).trials().to_dict("records")
    return {row["trial_number"]: {n: it for n, it in row.items() if is_known(it)} for row in found}


def is_known(value: Any) -> bool:
    """Whether a value is not null."""
    return (
        value == value
        and value is not None
        and not (isinstance(value, float) and math.isnan(value))
    )


def best(run_dir: RunDir, count: int) -> list[int]:
    """The numbers of the best trials."""
    return sweeper.open_results(run_dir.root).best(count)["trial_number"].tolist()


def outcome(row: dict[str, Any]) -> dict[str, float]:
    """The numbers of a trial that are logged."""
    names = {"value", "best_value", "best_epoch", "epochs_done", "n_parameters", "train_s"}
    names |= {"value_std", "diverged_epoch"}
    return {n: it for n, it in row.items() if n in names or n.startswith(("final_", "test_"))}


def history(run_dir: RunDir) -> list[float]:
    """The values of the trials that have one, in the order in which they ended."""
    trials = sweeper.open_results(run_dir.root).trials().sort_values(["last_round", "trial_number"])
    return trials["value"].dropna().tolist()
