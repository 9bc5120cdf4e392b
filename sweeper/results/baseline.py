"""`baseline.json`: how good simple models are on the rows of a study, to compare trials with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sweeper.results.formatting import names, number
from sweeper.results.ranking import value_columns
from sweeper.rundir import RunDir, read_json, swapped

_MOST_COLUMNS = 4
_WAYS = (
    "try other ranges of optimizer.lr, more train.epochs, or smaller models (an MLP with "
    "model.depth = 0 is linear, too)"
)


@dataclass(frozen=True, slots=True)
class SimpleModel:
    """A constant or linear model, with its value of each metric; None if it has none.

    Metrics have the names of the columns of trials, such as `val_accuracy` and `test_accuracy`.
    """

    name: str
    is_linear: bool
    scores: Mapping[str, float | None]

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> SimpleModel:
        """The model from its JSON form."""
        scores = {name: None if v is None else float(v) for name, v in body["scores"].items()}
        return SimpleModel(**{**body, "scores": scores})


@dataclass(frozen=True, slots=True)
class Baseline:
    """The simple models of a study, fitted to its training part; the constant one comes first.

    `digest` is that of the prepared data, and `rows` counts the training rows that the linear model
    was fitted to, a sample if there are many. `skipped` says why both models or the linear one are
    missing; empty if neither is.
    """

    digest: str
    rows: int = 0
    models: tuple[SimpleModel, ...] = ()
    skipped: str = ""

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Baseline:
        """The baseline from its JSON form.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: `body` is something else.
        """
        models = tuple(SimpleModel.from_dict(model) for model in body["models"])
        return Baseline(**{**body, "models": models})


def read_baseline(run_dir: RunDir) -> Baseline | None:
    """The baseline in a run directory; None if there is none, or it cannot be read."""
    try:
        return Baseline.from_dict(read_json(run_dir.baseline))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write_baseline(run_dir: RunDir, baseline: Baseline) -> None:
    """Replace the baseline of a study."""
    text = json.dumps(asdict(baseline), indent=1, allow_nan=False) + "\n"
    swapped(run_dir.baseline, run_dir.staging, text.encode())


def compared(
    baseline: Baseline, metric: str | Sequence[str], trial: Mapping[str, Any] | None = None
) -> tuple[list[str], list[list[object]]]:
    """The headings and rows of a table of the simple models, after a `trial` if given.

    `trial` is a row of trials.parquet. Its metrics other than the objectives are those of its last
    epoch, so they are left out if its value is that of another one.
    """
    objectives = names(metric)
    columns = _columns(baseline, objectives)
    records: list[list[object]] = []
    if trial is not None:
        own = dict(zip(objectives, value_columns(len(objectives)), strict=True))
        is_last = all(trial.get(f"final_{n}") in (None, trial[own[n]]) for n in objectives)
        last = {n: trial.get(f"final_{n}") if is_last else None for n in columns}
        values = [trial[own[n]] if n in own else trial.get(n, last[n]) for n in columns]
        records.append([f"trial {trial['trial_number']}", *values])
    records += [[m.name, *(m.scores.get(n) for n in columns)] for m in baseline.models]
    return ["model", *columns], records


def _columns(baseline: Baseline, objectives: Sequence[str]) -> list[str]:
    """The metrics to show: objectives first, losses last."""
    known = dict.fromkeys(name for model in baseline.models for name in model.scores)
    first = [name for name in objectives if name in known]
    others = [name for name in known if name not in first]
    others.sort(key=lambda name: "_loss" in name)
    return [*first, *others][:_MOST_COLUMNS]


def describe(baseline: Baseline | None, metric: str | Sequence[str]) -> str:
    """The simple models by the first objective, or why there are none; empty if not known."""
    if baseline is None:
        return ""
    objective = names(metric)[0]
    known = [(model.name, model.scores.get(objective)) for model in baseline.models]
    shown = [f"{name} {number(value)}" for name, value in known if value is not None]
    if baseline.skipped or not shown:
        shown.append(f"skipped: {baseline.skipped or f'{objective} is not measured for them'}")
    return ", ".join(shown)


def beaten_by_linear(
    baseline: Baseline | None,
    metric: str | Sequence[str],
    direction: str | Sequence[str],
    best: Mapping[str, Any] | None,
) -> str:
    """A warning if the linear model is better than the best trial; empty if it is not.

    `best` has the trial's number and value. With several objectives no trial is the best.
    """
    if baseline is None or best is None or len(names(metric)) > 1:
        return ""
    (objective,), (way,) = names(metric), names(direction)
    for model in baseline.models:
        score = model.scores.get(objective) if model.is_linear else None
        if score is not None and _is_better(score, best["value"], way):
            return (
                f"trial {best['trial_number']}, the best, is worse than a linear model: "
                f"{objective} {number(best['value'])}, {model.name} {number(score)}; {_WAYS}"
            )
    return ""


def _is_better(one: float, other: float, direction: str) -> bool:
    return one > other if direction == "maximize" else one < other
