"""A switch class whose program failed: its structures one by one, so that no other suffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sweeper.executors.executor import Outcome, Work
from sweeper.scheduler.capacity import lowest
from sweeper.scheduler.classes import ProgramClass


def parted(work: Work, branches: Sequence[ProgramClass]) -> list[Work]:
    """The lanes of each class, in their order; `branches[i]` is the class of lane `i`."""
    classes: Mapping[str, ProgramClass] = {branch.class_id: branch for branch in branches}
    return [_part(work, own, branches) for own in classes.values()]


def joined(work: Work, outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of `work`, of which `outcomes` are all parts, trained one after the other.

    Of their ceilings it has the lowest, which holds for each of them.
    """
    needed = [o.memory_predicted_bytes for o in outcomes if o.memory_predicted_bytes is not None]
    lanes = {lane.number: lane for outcome in outcomes for lane in outcome.lanes}
    return replace(
        outcomes[-1],
        bucket=work.bucket,
        lanes=tuple(lanes[number] for number in work.bucket.numbers),
        digests={file: digest for o in outcomes for file, digest in o.digests.items()},
        started_at=outcomes[0].started_at,
        compile_s=sum(outcome.compile_s for outcome in outcomes),
        cache_hit=all(outcome.cache_hit for outcome in outcomes if outcome.compile_s),
        train_s=sum(outcome.train_s for outcome in outcomes),
        memory_predicted_bytes=max(needed, default=None),
        ceiling=lowest([outcome.ceiling for outcome in outcomes]),
        own_programs=sum(outcome.own_programs for outcome in outcomes),
        shortage=next((outcome.shortage for outcome in outcomes if outcome.shortage), ""),
    )


def _part(work: Work, program: ProgramClass, branches: Sequence[ProgramClass]) -> Work:
    places = [place for place, own in enumerate(branches) if own == program]
    lanes = tuple(work.bucket.lanes[place] for place in places)
    return replace(
        work,
        bucket=replace(work.bucket, class_id=program.class_id, lanes=lanes),
        program=program,
        specs=tuple(work.specs[place] for place in places),
    )
