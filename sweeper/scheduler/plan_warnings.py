"""Warnings about the plan of a first round that wastes compiling, or that a crash would waste."""

from __future__ import annotations

from collections.abc import Iterator

from sweeper.scheduler.classes import Plan

# from here on, programs that hardly any trials share are worth a warning
_MANY_PROGRAMS = 8


def hardly_shared(plan: Plan, strategy: str) -> Iterator[str]:
    """A warning if the first round compiles many programs for few trials without being asked to."""
    count = 0 if strategy == "process" else len(plan.classes)
    trials = {number for bucket in plan.buckets for number in bucket.numbers}
    if count >= _MANY_PROGRAMS and count > len(trials) / 2:
        yield (
            f"{count} programs for the {len(trials)} trials of round 1, because they differ in "
            "settings that change the program: search fewer values of these (step, base), or "
            'write execution.strategy = "switch", or "padded" for an MLP'
        )


# a crash that loses more than this is worth a warning, and how long rounds should take then
_LONG_ROUND_S, _SHORTER_ROUND_S = 1200.0, 600.0


def long_round(plan: Plan, places: int | None) -> Iterator[str]:
    """A warning if a crash could lose much, because a first round takes long.

    `places` is how many buckets train at full speed at the same time; None if not known.
    """
    if places is None:
        return
    each_s = [bucket.predicted_train_s or 0.0 for bucket in plan.buckets]
    # programs of several structures run on all devices, one after the other
    spread = {known.class_id for known in plan.classes if known.strategy == "switch"}
    in_turn_s = sum(
        s for s, one in zip(each_s, plan.buckets, strict=True) if one.class_id in spread
    )
    round_s = max(in_turn_s + (sum(each_s) - in_turn_s) / places, max(each_s, default=0.0))
    lanes = [lane for bucket in plan.buckets for lane in bucket.lanes]
    epochs = max((lane.epoch_to - lane.epoch_from for lane in lanes), default=0)
    if round_s > _LONG_ROUND_S and epochs > 1:
        fewer = max(1, int(epochs * _SHORTER_ROUND_S / round_s))
        yield (
            f"round 1 may take {round_s / 60:.0f} minutes, and a crash would lose all of it; write "
            f"schedule.round_epochs = {fewer} to commit about every {_SHORTER_ROUND_S / 60:.0f} "
            "minutes"
        )
