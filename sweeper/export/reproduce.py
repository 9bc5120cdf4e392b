"""Whether a trial comes to what was recorded of it when it is trained alone, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig, parse
from sweeper.config.writing import toml_text
from sweeper.export.trial_file import trial_of, trial_tables
from sweeper.results.read import open_results
from sweeper.rundir import RunDir

_PLACE = ["epoch", "replicate", "fold", "metric"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a value is not what was recorded; None is a value that is not finite, or not there."""

    epoch: int
    replicate: int
    fold: int
    metric: str
    recorded: float | None
    again: float | None


@dataclass(frozen=True, slots=True)
class Reproduction:
    """How a trial that was trained again compares with what was recorded of it.

    `largest` is the largest difference of two finite values, by metric; `versions` are those that
    differ, recorded and here.
    """

    trial: int
    epochs: int
    values: int
    differing: int
    first: Difference | None
    largest: Mapping[str, float]
    versions: Mapping[str, tuple[str | None, str | None]]


def alone(run_dir: RunDir, number: int | None, place: Path) -> tuple[StudyConfig, int]:
    """The study of one trial alone, with its results in `place`, and its number; the best if None.

    Raises:
        SweeperError: there is no such trial.
    """
    config, row = trial_of(run_dir.root, number)
    tables = trial_tables(config, row)
    tables["results"] |= {"dir": str(place), "keep_models": 0}
    return parse(toml_text(tables), config.source.path), int(row["trial_number"])


def compared(recorded: RunDir, again: RunDir, number: int) -> Reproduction:
    """Trial `number` in both run directories, value by value."""
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
        first = Difference(**named, **dict(zip(("recorded", "again"), values, strict=True)))
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
    """What a trial measured, by epoch, replicate, fold and metric; in a column `name`."""
    metrics = open_results(run_dir.root).metrics()
    its = metrics[metrics["trial_number"] == number]
    return its.set_index(_PLACE)[["value"]].rename(columns={"value": name})


def _versions(recorded: RunDir, again: RunDir) -> dict[str, tuple[str | None, str | None]]:
    before, now = (open_results(one.root).study["versions"] for one in (recorded, again))
    names = {**before, **now}
    return {n: (before.get(n), now.get(n)) for n in names if before.get(n) != now.get(n)}


def _finite(value: Any) -> float | None:
    return None if value != value else float(value)
