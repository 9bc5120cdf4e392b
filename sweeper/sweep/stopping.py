"""Whether `study.stop` ends a study, or a trial that is good enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from sweeper.config.study import StudyTable
from sweeper.results.ranking import is_feasible
from sweeper.sweep.rows import Verdict
from sweeper.trial import Reason, TrialState


def rules_met(
    study: StudyTable, before: Iterable[Mapping[str, Any]], ending: Iterable[Verdict] = ()
) -> tuple[Literal["value", "patience"], ...]:
    """The rules of `study.stop` that end the study; empty if it goes on.

    It is judged after these trials: rows of earlier rounds, and verdicts of this one. Only feasible
    complete trials can be good enough, or improve on the best. Until there is one, no trial counts
    as without improvement; trials that were not trained never count. `ending` are in the order of
    their numbers, as rows are.
    """
    stop = study.stop
    if stop is None:
        return ()
    sign = -1.0 if study.directions[0] == "maximize" else 1.0
    trained = (row for row in before if row["reason"] != Reason.INFEASIBLE)
    in_order = sorted(trained, key=lambda row: (row["last_round"], row["trial_number"]))
    ending = (verdict for verdict in ending if verdict.reason is not Reason.INFEASIBLE)
    best, idle = float("inf"), 0
    for value in (*map(_of_row, in_order), *map(_of_verdict, ending)):
        improves = value is not None and sign * value < best
        best = sign * value if improves and value is not None else best
        idle = 0 if improves else idle + 1
    is_one = best < float("inf")
    is_good = is_one and stop.value is not None and best <= sign * stop.value
    is_idle = is_one and stop.patience is not None and idle >= stop.patience
    return (*(("value",) if is_good else ()), *(("patience",) if is_idle else ()))


def is_good_enough(study: StudyTable, verdict: Verdict) -> bool:
    """Whether a trial with this verdict is as good as `study.stop.value` asks."""
    value = _of_verdict(verdict)
    if value is None or study.stop is None or study.stop.value is None:
        return False
    sign = -1.0 if study.directions[0] == "maximize" else 1.0
    return sign * value <= sign * study.stop.value


def _of_row(row: Mapping[str, Any]) -> float | None:
    """The value of a trial that can win."""
    return row["value"] if row["state"] == TrialState.COMPLETE and is_feasible(row) else None


def _of_verdict(verdict: Verdict) -> float | None:
    violates = any(excess > 0 for excess in verdict.excesses.values())
    is_one = verdict.state is TrialState.COMPLETE and not violates
    return verdict.values[0] if is_one else None
