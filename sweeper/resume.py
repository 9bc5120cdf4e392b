"""From a ledger back to a running study, and whether a changed study file may go on with it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from sweeper.ledger import Ledger
from sweeper.scheduler.buckets import Plan
from sweeper.state import Running, SweepState
from sweeper.study.ask_tell import PastTrial
from sweeper.trial import TrialState


@dataclass(frozen=True, slots=True)
class Restored:
    """A study as its ledger tells it, and the plan of the round that was open when it stopped."""

    state: SweepState
    past: Sequence[PastTrial]
    open_plan: Plan | None


def restore(ledger: Ledger, metric: str) -> Restored:
    """The state after the last closed round, with the open round's trials and plan taken up.

    `metric` is the objective, whose values sampler and pruner are told again.
    """
    state = SweepState()
    everyone: dict[int, Running] = {}
    index = 0
    for closed in ledger.rounds():
        state.open(closed.specs, Plan.from_dict(closed.plan))
        everyone |= state.running
        state.absorb(closed.records)
        state.close(closed.closing, closed.ended)
        index = closed.closing.metrics.index(metric)
    opened = ledger.opened_round()
    open_plan = None
    if opened is not None:
        open_plan = Plan.from_dict(opened.plan)
        state.open(opened.specs, open_plan)
        everyone |= state.running
    everyone |= state.waiting
    past = [_past(trial, state.ended.get(n), index) for n, trial in sorted(everyone.items())]
    return Restored(state, past, open_plan)


def reports(values: Iterable[float]) -> list[float]:
    """What the pruner is told of an objective's `values`: all before the first that is not finite.

    A reported NaN would count as a good end in some samplers; a short history counts as a bad one.
    """
    return list(takewhile(math.isfinite, values))


def _past(trial: Running, row: Mapping[str, object] | None, index: int) -> PastTrial:
    state = None if row is None else TrialState(str(row["state"]))
    value = None if row is None else row["value"]
    return PastTrial(
        spec=trial.spec,
        reports=reports(trial.column(index)),
        attributes=trial.attributes,
        state=state,
        value=value if isinstance(value, float) else None,
    )
