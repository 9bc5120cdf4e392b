"""`ensemble.json`: the trials whose predictions are averaged, and what that gains."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from shlex import quote
from typing import Any

from sweeper.errors import counted
from sweeper.files import read_record, write_record
from sweeper.results.formatting import number
from sweeper.results.ranking import gain_sign
from sweeper.results.status import find_status
from sweeper.rundir import RunDir

_ERRORS_APART = 2.0  # a difference of fewer standard errors may be chance
MOST_CANDIDATES, USUAL_SIZE = 50, 20
"""How many trials an ensemble is selected from at most, and how many it averages by default."""


@dataclass(frozen=True, slots=True)
class EnsembleMember:
    """A trained model of an ensemble, counted `count` times.

    `member` is the index of its replicate and fold.
    """

    trial: int
    member: int
    count: int


@dataclass(frozen=True, slots=True)
class Gain:
    """The metric of the best single trial and of the ensemble on `rows` rows.

    `standard_error` is that of their difference; None if the rows are too few or too many for it.
    `trees` is the metric of boosted trees; None if they were not measured.
    """

    rows: int
    single: float
    ensemble: float
    standard_error: float | None
    trees: float | None = None

    def lead(self, direction: str) -> float:
        """How much better the ensemble is; negative if it is worse."""
        return (self.ensemble - self.single) * gain_sign(direction)


@dataclass(frozen=True, slots=True)
class EnsembleRecord:
    """An ensemble of trials of one study.

    It was chosen among `candidates` trained models, for `metric`. `single` is the best trial whose
    model is kept, and `best` that of the study; None in a file of an earlier version. With folds,
    each candidate is the mean of the models of all `folds` folds. `validation` is measured on
    validation rows by ensembles that were selected on the other half of them; `test` on the test
    rows by this one, None without test rows. `importance` is how much worse the ensemble is, on
    average, on test rows of which one column was shuffled; empty without test rows, or with too
    many columns. `data` is the digest of the prepared data, and `completed` the number of trials
    that had completed; None in a file of an earlier version.
    """

    metric: str
    direction: str
    candidates: int
    members: tuple[EnsembleMember, ...]
    single: int
    validation: Gain
    test: Gain | None
    data: str
    importance: Mapping[str, float] = field(default_factory=dict[str, float])
    folds: int = 1
    completed: int | None = None
    best: int | None = None

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> EnsembleRecord:
        """The record from its JSON form.

        Raises:
            TypeError, KeyError: it is not one.
        """
        members = tuple(
            EnsembleMember(**{n: int(v) for n, v in one.items()}) for one in body["members"]
        )
        test = None if body["test"] is None else Gain(**body["test"])
        return EnsembleRecord(
            **{**body, "members": members, "validation": Gain(**body["validation"]), "test": test}
        )

    @property
    def metric_name(self) -> str:
        """The metric without the prefix of its split."""
        return self.metric.removeprefix("val_")

    @property
    def size(self) -> int:
        """How many candidates are averaged, repeated ones included."""
        return sum(member.count for member in self.members) // self.folds

    @property
    def weights(self) -> dict[int, int]:
        """How often each trial counts."""
        found: dict[int, int] = {}
        for member in self.members:
            found[member.trial] = found.get(member.trial, 0) + member.count
        return {trial: count // self.folds for trial, count in found.items()}


@dataclass(frozen=True, slots=True)
class Again:
    """The metric of the best trial and of the ensemble on `rows` rows of a part, for each seed."""

    part: str
    rows: int
    single: tuple[float, ...]
    ensemble: tuple[float, ...]

    @property
    def has_values(self) -> bool:
        """Whether the metric has a value for every seed: auroc of a single class has none."""
        return all(map(math.isfinite, (*self.single, *self.ensemble)))

    @property
    def difference(self) -> float:
        """The mean of the ensemble's metric minus that of the trial's."""
        return statistics.mean(self._differences)

    @property
    def standard_error(self) -> float:
        """The standard error of the difference over the seeds."""
        return statistics.stdev(self._differences) / math.sqrt(len(self.single))

    @property
    def _differences(self) -> list[float]:
        return [mean - single for single, mean in zip(self.single, self.ensemble, strict=True)]


def is_clear(lead: float, error: float) -> bool:
    """Whether a lead is so many standard errors that it is probably not chance."""
    return lead > _ERRORS_APART * error


def confirmation(found: Again, record: EnsembleRecord) -> str:
    """Whether an ensemble is better than the best trial if both are trained again."""
    lead = found.difference * gain_sign(record.direction)
    how = "not clearly better or worse"
    if is_clear(abs(lead), found.standard_error):
        how = "better" if lead > 0 else "worse"
    metric, error = record.metric_name, number(found.standard_error, 2)
    return (
        f"with fresh seeds, the ensemble is {how} than trial {record.single}: {metric} differs by "
        f"{number(found.difference, 2)} on {found.rows:,} {found.part} rows, with a standard error "
        f"of {error}"
    )


def read_ensemble(run_dir: RunDir) -> EnsembleRecord | None:
    """The ensemble in a run directory; None if there is none, or it cannot be read."""
    return read_record(run_dir.ensemble, EnsembleRecord.from_dict)


def write_ensemble(run_dir: RunDir, record: EnsembleRecord) -> None:
    """Replace the ensemble of a study."""
    write_record(run_dir.ensemble, run_dir.staging, asdict(record))


def outdated(
    record: EnsembleRecord, run_dir: RunDir, completed: int, settings: Mapping[str, Any]
) -> str:
    """That an ensemble is not of all trials that have completed by now, and what to do; else empty.

    `settings` are those of the study.
    """
    if record.completed in (None, completed):
        return ""
    selected = f"the ensemble was selected when {counted(record.completed, 'trial')} had completed"
    status = find_status(run_dir) if settings.get("results", {}).get("ensemble") else None
    if status is not None and status.is_running:
        way = "the study is running, and selects it again when it finishes"
    else:
        way = f"select it again: python -m sweeper ensemble {quote(str(run_dir.root))}"
    return f"{selected}, and {completed} have now; {way}"


def verdicts(record: EnsembleRecord) -> list[str]:
    """What the ensemble gains, over which trial, and whether boosted trees are better."""
    found = verdict(record), without_best(record), better_trees(record)
    return [sentence for sentence in found if sentence]


def latest_verdicts(
    record: EnsembleRecord | None, run_dir: RunDir, completed: int, settings: Mapping[str, Any]
) -> list[str]:
    """The verdicts, or that the ensemble is `outdated`; empty if there is none."""
    if record is None:
        return []
    again = outdated(record, run_dir, completed, settings)
    return [again] if again else verdicts(record)


def without_best(record: EnsembleRecord) -> str:
    """A sentence if the model of the study's best trial is not kept; else empty."""
    if record.best in (None, record.single):
        return ""
    return (
        f"the best trial here is trial {record.single}, the best of those whose models are kept; "
        f"that of trial {record.best}, the best of the study, is not"
    )


def better_trees(record: EnsembleRecord) -> str:
    """A sentence if boosted trees are better than the ensemble; else empty."""
    gain = record.validation if record.test is None else record.test
    if gain.trees is None or replace(gain, single=gain.trees).lead(record.direction) >= 0:
        return ""
    metric = record.metric_name
    where = "validation" if record.test is None else "test"
    return (
        "gradient boosting with scikit-learn's defaults, fitted to the same rows, is better on "
        f"{where} rows: {metric} {number(gain.trees)} instead of {number(gain.ensemble)}"
    )


def verdict(record: EnsembleRecord) -> str:
    """Whether the ensemble is better than the best trial, or whether that may be luck."""
    alone = [(record.single, member) for member in range(record.folds)]
    if [(one.trial, one.member) for one in record.members] == alone:
        return (
            f"the ensemble is trial {record.single} alone: no average of the {record.candidates} "
            "kept models is better on the validation rows"
        )
    gain, where = record.validation, "validation rows that neither was selected on"
    single = "the best trial"  # one for each half of the validation rows
    if record.test is not None and record.test.standard_error is not None:
        gain, where = record.test, "test rows"
        single = f"trial {record.single}"
    metric = record.metric_name
    lead, error = gain.lead(record.direction), gain.standard_error
    if lead == 0:
        return f"the ensemble is as good as {single} in {metric} on {gain.rows:,} {where}"
    by = f"by {number(abs(lead), 2)} in {metric} on {gain.rows:,} {where}"
    if error is None:
        how = "better" if lead > 0 else "not better"
        return f"the ensemble is {how} than {single}, {by}"
    within = f"with a standard error of {number(error, 2)}"
    if is_clear(lead, error):
        return f"the ensemble is better than {single} {by}, {within}"
    if is_clear(-lead, error):
        return f"the ensemble is worse than {single} {by}, {within}: use the trial"
    how = "better" if lead > 0 else "worse"
    return f"the ensemble is {how} than {single} {by}, {within}: that may be luck"
