"""Whether a study is over, and what has ended it: a limit, `study.stop`, or its last trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from sweeper.config import StudyConfig
from sweeper.results.ranking import gain_sign, is_feasible
from sweeper.results.status import StudyState
from sweeper.study.limits import max_failures
from sweeper.sweep.state import SweepState
from sweeper.sweep.verdicts import Verdict
from sweeper.trial import CUT_OFF, Reason, TrialState


def n_unasked(n_trials: int, state: SweepState, *, is_stopped: bool) -> int:
    """How many of `n_trials` may still be asked for.

    None if the user's sampler or pruner has stopped the study.
    """
    return 0 if is_stopped else max(0, n_trials - state.n_asked)


def is_over(config: StudyConfig, state: SweepState, unasked: int) -> bool:
    """Whether every trial has ended, or something has ended the study.

    `unasked` is how many trials may still be asked for.
    """
    is_asked = not state.waiting and not unasked
    return not state.running and (is_asked or ending_reason(config, state) is not None)


def end_state(config: StudyConfig, state: SweepState, unasked: int) -> StudyState:
    """The state of a study that trains no further round: interrupted if it is not over."""
    if ending_reason(config, state) is Reason.MAX_FAILURES:
        return "failed"
    return "finished" if is_over(config, state, unasked) else "interrupted"


def ending_reason(
    config: StudyConfig, state: SweepState, ending: Iterable[Verdict] = ()
) -> Reason | None:
    """What ends the study in a round in which these trials end; None if it continues."""
    ending = list(ending)
    failed = sum(verdict.state is TrialState.FAIL for verdict in ending)
    if state.ended.counts[TrialState.FAIL] + failed > max_failures(config):
        return Reason.MAX_FAILURES
    timeout_s = config.study.timeout_s
    if timeout_s is not None and state.spent_s >= timeout_s:
        return Reason.TIMEOUT
    return Reason.STOPPED if rules_met(config, state.ended.values(), ending) else None


def rules_met(
    config: StudyConfig, before: Iterable[Mapping[str, Any]], ending: Iterable[Verdict] = ()
) -> tuple[Literal["value", "patience"], ...]:
    """The rules of `study.stop` that end the study; empty if it goes on.

    It is judged after these trials: rows of earlier rounds, and verdicts of this one. Only feasible
    complete trials can be good enough, or improve on the best. Until there is one, no trial counts
    as without improvement. Trials that were not trained never count, nor do those in training that
    a limit, a rule or a request cut off; before edition 4, the latter do. `ending` are in the order
    of their numbers, as rows are.
    """
    study = config.study
    stop = study.stop
    if stop is None:
        return ()
    sign = -gain_sign(study.directions[0])
    edition = config.edition
    counted = (row for row in before if _counts(row["state"], row["reason"], edition))
    in_order = sorted(counted, key=lambda row: (row["last_round"], row["trial_number"]))
    ending = (verdict for verdict in ending if _counts(verdict.state, verdict.reason, edition))
    best, idle = float("inf"), 0
    for value in (*map(_of_row, in_order), *(verdict.winning_value for verdict in ending)):
        improves = value is not None and sign * value < best
        best = sign * value if improves and value is not None else best
        idle = 0 if improves else idle + 1
    has_best = best < float("inf")
    is_good = has_best and stop.value is not None and best <= sign * stop.value
    is_idle = has_best and stop.patience is not None and idle >= stop.patience
    return (*(("value",) if is_good else ()), *(("patience",) if is_idle else ()))


def _counts(state: str, reason: str | None, edition: int) -> bool:
    """Whether a trial may improve on the best, or counts as one that has not."""
    is_cut_off = state == TrialState.PRUNED and reason in CUT_OFF
    return reason != Reason.INFEASIBLE and not (is_cut_off and edition > 3)


def _of_row(row: Mapping[str, Any]) -> float | None:
    """The value of a trial that can win."""
    return row["value"] if row["state"] == TrialState.COMPLETE and is_feasible(row) else None
