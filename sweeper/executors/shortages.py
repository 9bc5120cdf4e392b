"""What a round tells of memory that was short."""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.executors.executor import Outcome
from sweeper.naming import counted
from sweeper.trial import Reason


def shortages(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Of each class that turned out not to fit, what it took, and what became of it."""
    by_class: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.shortage:
            by_class.setdefault(outcome.bucket.class_id, []).append(outcome)
    return {
        class_id: f"class {class_id}: {of_class[0].shortage}; {_became(of_class)}"
        for class_id, of_class in by_class.items()
    }


def _became(outcomes: Sequence[Outcome]) -> str:
    """What became of the buckets of a class."""
    lanes = [lane for outcome in outcomes for lane in outcome.lanes]
    failed = sum(lane.failure is not None and lane.failure.reason is Reason.OOM for lane in lanes)
    own = sum(outcome.own_programs for outcome in outcomes)
    if failed == len(lanes):
        return f"its {counted(failed, 'trial')} failed, not fitting alone"
    capacity = min(outcome.ceiling.capacity for outcome in outcomes if outcome.ceiling)
    said = f"it trains {counted(capacity, 'lane')} at a time"
    if own:
        said += f", {counted(own, 'trial')} in programs of their own"
    if failed:
        said += f", and {counted(failed, 'trial')} failed, not fitting alone"
    return said
