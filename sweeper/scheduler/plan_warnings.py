"""Warnings about the plan of a first round that wastes compiling, or that a crash would waste."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweeper.errors import listed
from sweeper.scheduler.classes import Plan, ProgramClass

# from here on, programs that hardly any trials share are worth a warning
_MANY_PROGRAMS = 8


def hardly_shared(plan: Plan, strategy: str) -> Iterator[str]:
    """A warning if the first round compiles many programs for few trials without being asked to."""
    count = 0 if strategy == "process" else len(plan.classes)
    trials = {number for bucket in plan.buckets for number in bucket.numbers}
    if count >= _MANY_PROGRAMS and count > len(trials) / 2:
        splitting = _splitting(plan.classes)
        named = listed([*splitting]) or "settings that change the program"
        hint = "search fewer values of these (step, base)"
        if others := [*_other_strategies(strategy, count, splitting)]:
            hint += f", or write execution.strategy = {', or '.join(others)}"
        yield (
            f"{count} programs for the {len(trials)} trials of round 1, because they differ in "
            f"{named}: {hint}"
        )


def _splitting(classes: Sequence[ProgramClass]) -> dict[str, int]:
    """The settings in which classes differ, and how many different values they have of each."""
    every = [_compiled_in(program) for program in classes]
    values = {
        key: {frozenset(json.dumps(branch.get(key)) for branch in branches) for branches in every}
        for key in every[0][0]
        if all(key in branch for branches in every for branch in branches)
    }
    return {key: len(found) for key, found in values.items() if len(found) > 1}


def _compiled_in(program: ProgramClass) -> list[dict[str, Any]]:
    """The settings compiled into a class, of each branch; of a padded one also its sizes."""
    own: Any = json.loads(program.settings)
    branches: list[dict[str, Any]] = own if program.strategy == "switch" else [own]
    sizes: dict[str, int] = {}
    for part in program.padded_size.sizes:
        model = f"model.{part.name}".rstrip(".")
        sizes |= {f"{model}.width": part.width, f"{model}.depth": part.depth}
    return [branch | sizes for branch in branches]


def _other_strategies(strategy: str, count: int, splitting: Mapping[str, int]) -> Iterator[str]:
    """The strategies with which trials would share more programs than with `strategy`."""
    # a switch class has one batch size
    if strategy != "switch" and splitting.get("train.batch_size", 1) <= count / 2:
        yield '"switch"'
    is_sized = any(key.rpartition(".")[2] in ("width", "depth") for key in splitting)
    # auto pads, too, if that takes less time
    if strategy not in ("auto", "padded") and is_sized:
        yield '"padded" for an MLP'


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
