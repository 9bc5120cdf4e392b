"""Restores a study from its ledger; `session.reconcile` checks whether it may continue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeper.config import StudyConfig
from sweeper.ledger import Ledger
from sweeper.results.ranking import value_columns
from sweeper.scheduler.classes import Plan
from sweeper.study.ask_tell import Past, PastTrial
from sweeper.study.learning import Learned
from sweeper.sweep.state import EndedTrials, Running, SweepState
from sweeper.trial import TrialState


@dataclass(frozen=True, slots=True)
class Restored:
    """A study restored from its ledger, and the plan of the round that was open when it stopped."""

    state: SweepState
    past: Past
    open_plan: Plan | None


def restore(ledger: Ledger, config: StudyConfig) -> Restored:
    """The state after the last closed round, with trials and plan of the open round added.

    The objectives are reported again to sampler and pruner; the pruner gets them only if there is
    one, since pruners cannot judge several.
    """
    objectives = config.study.objectives
    state = SweepState(EndedTrials(config.study.directions, config.results.keep_models))
    everyone: dict[int, Running] = {}
    index: int | None = None
    for closed in ledger.closed_rounds():
        state.open(closed.specs, Plan.from_dict(closed.plan), closed.memory, closed.requests)
        everyone |= state.running
        state.absorb(closed.records)
        state.close(closed.closing, closed.ended)
        index = judged_metric(closed.closing.metrics, objectives)
    opened = ledger.opened_round()
    open_plan = None
    if opened is not None:
        open_plan = Plan.from_dict(opened.plan)
        state.open(opened.specs, open_plan, opened.memory, opened.requests)
        everyone |= state.running
    everyone |= state.waiting
    columns = value_columns(len(objectives))
    past = [
        PastTrial(
            spec=trial.spec,
            reports=[] if index is None else trial.reports(index, config.edition),
            attributes=state.kept.get(number, {}),
            state=None if row is None else TrialState(str(row["state"])),
            values=_values(row, columns),
        )
        for number, trial in sorted(everyone.items())
        for row in (state.ended.get(number),)
    ]
    learned = Learned.from_dict(ledger.learned()).trials
    enqueued = {number: request.params or {} for number, request in state.enqueued.items()}
    return Restored(state, Past(past, state.kept_with_study, enqueued, learned), open_plan)


def judged_metric(metrics: Sequence[str], objectives: Sequence[str]) -> int | None:
    """The index of the metric that a pruner judges; None if there are several, or it is not one."""
    is_one = len(objectives) == 1 and objectives[0] in metrics
    return metrics.index(objectives[0]) if is_one else None


def _values(row: Mapping[str, object] | None, columns: Sequence[str]) -> tuple[float, ...]:
    values = [] if row is None else [row.get(name) for name in columns]
    return tuple(float(value) for value in values if isinstance(value, int | float))
