"""`baseline.json`: how good simple models are on the rows of a study, to compare trials with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sweeper.files import read_record, write_record
from sweeper.results.formatting import names, number
from sweeper.results.ranking import gain_sign, value_columns
from sweeper.rundir import RunDir

_MOST_COLUMNS = 4
_WAYS = (
    "try other learning rates, more train.epochs, or smaller models (an MLP of depth 0 is linear, "
    "too)"
)
_TOO_LITTLE = "the columns may say little about the target"
_PARTS = {"val": "validation", "test": "test"}
# linear models of real data are almost never that exact, except by chance on few rows
_EXACT = 0.999
_LEAST_ROWS = 200
# a constant model is as accurate if almost all rows have the same class
_MOST_CONSTANT = 0.99


@dataclass(frozen=True, slots=True)
class SimpleModel:
    """A constant or linear model, with its value of each metric; None if it has none.

    Metrics have the names of the columns of trials, such as `val_accuracy` and `test_accuracy`.
    `errors` are the standard errors of their values; an earlier version did not record them.
    """

    name: str
    is_linear: bool
    scores: Mapping[str, float | None]
    errors: Mapping[str, float | None] = field(default_factory=dict[str, float | None])

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> SimpleModel:
        """The model from its JSON form."""
        return SimpleModel(
            **{
                **body,
                "scores": _numbers(body["scores"]),
                "errors": _numbers(body.get("errors", {})),
            }
        )

    @property
    def prediction(self) -> str:
        """The model as a noun: a constant model predicts its name."""
        return self.name if self.is_linear else f"predicting the {self.name}"


def _numbers(values: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: None if value is None else float(value) for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Baseline:
    """The simple models of a study, fitted to its training part; the constant one comes first.

    `digest` is that of the prepared data, and `rows` counts the training rows that the linear model
    was fitted to, a sample if there are many; with folds, those of the fold with the fewest.
    `skipped` says why both models or the linear one are missing; empty if neither is.
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
    return read_record(run_dir.baseline, Baseline.from_dict)


def write_baseline(run_dir: RunDir, baseline: Baseline) -> None:
    """Replace the baseline of a study."""
    write_record(run_dir.baseline, run_dir.staging, asdict(baseline))


def comparison_table(
    baseline: Baseline, metric: str | Sequence[str], trial: Mapping[str, Any] | None = None
) -> tuple[list[str], list[list[object]]]:
    """The headings and rows of a table of the simple models, after a `trial` if given.

    `trial` is a row of trials.parquet, whose metrics are of the epoch of its value, as
    `with_metrics_of_value` returns it.
    """
    objectives = names(metric)
    columns = _columns(baseline, objectives)
    records: list[list[object]] = []
    if trial is not None:
        own = dict(zip(objectives, value_columns(len(objectives)), strict=True))
        others = {n: trial.get(n, trial.get(f"final_{n}")) for n in columns}
        values = [trial[own[n]] if n in own else others[n] for n in columns]
        records.append([f"trial {trial['trial_number']}", *values])
    records += [[m.name, *(m.scores.get(n) for n in columns)] for m in baseline.models]
    return ["model", *columns], records


def _columns(baseline: Baseline, objectives: Sequence[str]) -> list[str]:
    """The metrics to show: objectives first, also on the test rows, and losses last."""
    known = dict.fromkeys(name for model in baseline.models for name in model.scores)
    tested = [f"test_{name.removeprefix('val_')}" for name in objectives]
    first = [name for name in dict.fromkeys([*objectives, *tested]) if name in known]
    others = [name for name in known if name not in first]
    others.sort(key=lambda name: "_loss" in name)
    return [*first, *others][:_MOST_COLUMNS]


def describe(baseline: Baseline | None, metric: str | Sequence[str]) -> str:
    """The simple models by the first objective, or why there are none; empty if not known."""
    return "" if baseline is None else _described(baseline, names(metric)[0])


def describe_test(
    baseline: Baseline | None, metric: str | Sequence[str], trial: Mapping[str, Any]
) -> str:
    """The first objective of `trial` on the test rows next to the simple models; empty if none."""
    if baseline is None or (column := _test_column(baseline, names(metric)[0], trial)) is None:
        return ""
    value = f"{column} {number(trial[column])} (trial {trial['trial_number']})"
    return f"on the test rows: {value}; {_described(baseline, column)}"


def _described(baseline: Baseline, column: str) -> str:
    known = [(model.name, model.scores.get(column)) for model in baseline.models]
    shown = [f"{name} {number(value)}" for name, value in known if value is not None]
    if baseline.skipped or not shown:
        missing = "linear" if shown else "simple"
        why = baseline.skipped or f"{column} is not measured for them"
        shown.append(f"no {missing} model: {why}")
    return ", ".join(shown)


def describe_leak(baseline: Baseline | None) -> str:
    """A warning if a linear model is almost exact, as if it had the target; empty if it is not."""
    if baseline is None or baseline.rows < _LEAST_ROWS:
        return ""
    constant = baseline.models[0].scores
    for model in baseline.models[1:]:
        for name in ("val_r2", "val_accuracy"):
            score = model.scores.get(name)
            if score is None or score < _EXACT or (constant.get(name) or 0.0) > _MOST_CONSTANT:
                continue
            return (
                f"{model.name} is almost exact: {name} {number(score, 6)}; columns may reveal the "
                "target together, such as the parts of a sum or a mean: add those that are not "
                "known before it to data.drop"
            )
    return ""


def _test_column(baseline: Baseline, objective: str, trial: Mapping[str, Any]) -> str | None:
    """The column of an objective on the test rows; None if `trial` or no simple model has it."""
    column = f"test_{objective.removeprefix('val_')}"
    is_known = any(model.scores.get(column) is not None for model in baseline.models)
    return column if is_known and trial.get(column) is not None else None


def describe_doubt(
    baseline: Baseline | None,
    metric: str | Sequence[str],
    direction: str | Sequence[str],
    best: Mapping[str, Any] | None,
) -> str:
    """A warning if the best trial is not clearly better than the simple models; empty if it is.

    If a linear model is almost exact, it is `describe_leak` instead. `best` is its row of
    trials.parquet, or has at least its number and value. Test rows count if they are measured,
    because the trial was chosen by its value on validation rows. With several objectives no trial
    is the best.
    """
    if leak := describe_leak(baseline):
        return leak
    if baseline is None or best is None or len(names(metric)) > 1:
        return ""
    (objective,), (way,) = names(metric), names(direction)
    column = _test_column(baseline, objective, best) or objective
    value = best["value"] if column == objective else best[column]
    sign = gain_sign(way)
    scores = [
        (sign * score, model)
        for model in baseline.models
        if (score := model.scores.get(column)) is not None
    ]
    if not scores:
        return ""
    score, rival = max(scores, key=lambda pair: pair[0])
    lead = sign * value - score
    # that of R² is 0 for a constant, whose lead over others would never be chance
    error = rival.errors.get(column) or max(m.errors.get(column) or 0.0 for m in baseline.models)
    if lead > error:
        return ""
    where = f" on the {_PARTS[part]} rows" if (part := column.partition("_")[0]) in _PARTS else ""
    compared = f"{column} {number(value)}, {rival.name} {number(sign * score)}"
    if lead > 0.0:
        compared += f", with a standard error of {number(error, 2)}, so it may be chance"
    how = "hardly" if lead > 0.0 else "not"
    return (
        f"trial {best['trial_number']}, the best, is {how} better than "
        f"{rival.prediction}{where}: {compared}; {_WAYS if rival.is_linear else _TOO_LITTLE}"
    )
