"""The plan of one round: which trials train together, in which program, in which order.

`plan_round` is a pure function from values to a value that can be printed, compared and stored. It
decides *which program* a trial gets; threads and workers only take buckets from it in order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sweeper.config.trial import ClassTable
from sweeper.scheduler.capacity import capacity_for
from sweeper.scheduler.classes import Bucket, Lane, LiveTrial, Plan, Policy, ProgramClass, Strategy
from sweeper.scheduler.lattice import EXACT, PaddedSize, PartSize, format_sizes, plain_size
from sweeper.scheduler.signature import Structure, StructureOf, short_hash
from sweeper.scheduler.switching import capacity_of, longest_s, switch_classes

# the setting that determines how phases alternate, if there are any
_SWITCHING = "train.switching"
# seconds per epoch and parameter, to order buckets of models that the cost model does not know
_UNKNOWN_S = 1e-7


@dataclass(frozen=True, slots=True)
class _ClassifiedTrial:
    """A live trial that has its class."""

    live: LiveTrial
    structure: Structure
    program: ProgramClass


def plan_round(
    live: Sequence[LiveTrial],
    classes: Iterable[ProgramClass],
    structure_of: StructureOf,
    policy: Policy,
) -> Plan:
    """The next round for the trials `live`; those that have a class keep it."""
    classified, added = _classify(live, classes, structure_of, policy)
    by_class = _by_class(classified).values()
    buckets = [bucket for trials in by_class for bucket in _cut(trials, policy)]
    buckets.sort(key=lambda weighted: (-weighted[0], weighted[1].numbers))
    numbered = (replace(bucket, bucket=index) for index, (_, bucket) in enumerate(buckets))
    return Plan(tuple(added), tuple(numbered))


def _classify(
    live: Sequence[LiveTrial],
    classes: Iterable[ProgramClass],
    structure_of: StructureOf,
    policy: Policy,
) -> tuple[list[_ClassifiedTrial], list[ProgramClass]]:
    """`live` with a class each, and the classes that were created for them."""
    by_id = {known.class_id: known for known in classes}
    by_content = {_content(known): known for known in by_id.values()}
    structures = [structure_of(trial.spec) for trial in live]
    trials_per_program = Counter(structure.program for structure in structures)
    new = [trial.spec for trial in live if not trial.class_id]
    switches = switch_classes(new, by_id.values(), structure_of, policy)
    wanted = [
        None
        if trial.class_id
        else switches.get(structure.program)
        or _choose_class(structure, trials_per_program, by_content, policy)
        for trial, structure in zip(live, structures, strict=True)
    ]
    n_joining = Counter(_content(program) for program in wanted if program is not None)
    classified: list[_ClassifiedTrial] = []
    added: list[ProgramClass] = []
    for trial, structure, program in zip(live, structures, wanted, strict=True):
        if program is None:
            known = by_id[trial.class_id]
        else:
            content = _content(program)
            if content not in by_content:
                by_content[content] = _with_capacity(program, n_joining[content], policy)
                added.append(by_content[content])
            known = by_content[content]
        classified.append(_ClassifiedTrial(trial, structure, known))
    return classified, added


Content = tuple[str, Strategy, int | None, int | None, tuple[int, ...], str]


def _content(program: ProgramClass) -> Content:
    """What distinguishes two classes of a study."""
    size = program.padded_width, program.padded_depth, program.run_widths, program.padded_parts
    return program.settings, program.strategy, *size


def _choose_class(
    structure: Structure,
    trials_per_program: Mapping[str, int],
    known: Mapping[Content, ProgramClass],
    policy: Policy,
) -> ProgramClass:
    """The class for a trial of `structure`, without a capacity yet.

    `auto` chooses the cheapest class of the lattice, which is exact if it is for a single shape. If
    padding does not help, the trial shares a program if another trial has the same structure, or
    probably will.
    """
    if policy.given is not None:
        size = _size_given(structure, policy.given)
        return _program(structure, policy.given.strategy, policy, size)
    best = policy.forecast.best_class(structure)
    if policy.strategy == "process":
        return _program(structure, "process", policy)
    if policy.strategy == "exact" or (best is None and policy.strategy == "padded"):
        return _program(structure, "exact", policy)
    if best is None:
        exact = _program(structure, "exact", policy)
        expected = policy.trials_a_structure[structure.kind]
        is_repeated = trials_per_program[structure.program] > 1 or expected >= 2
        return (
            exact
            if is_repeated or _content(exact) in known
            else _program(structure, "process", policy)
        )
    if policy.strategy == "auto" and best.structures == 1:
        return _program(structure, "exact", policy)
    return _program(structure, "padded", policy, best.padded_size)


def _size_given(structure: Structure, given: ClassTable) -> PaddedSize:
    """The padded size of the class that the study file of a single trial names."""
    if given.sizes:
        sizes = tuple(PartSize(part.name, *given.sizes[part.name]) for part in structure.sizes)
        return PaddedSize(sizes, given.run_widths)
    if given.width is None or given.depth is None:
        return EXACT
    return PaddedSize(plain_size(given.width, given.depth), given.run_widths)


def _program(
    structure: Structure,
    strategy: Strategy,
    policy: Policy,
    size: PaddedSize = EXACT,
) -> ProgramClass:
    settings = (structure.family or "") if size.sizes else structure.program
    return ProgramClass(
        class_id="",
        settings=settings,
        strategy=strategy,
        lane_loop=policy.lane_loop,
        capacity=1,
        precision=policy.precision,
        padded_width=size.width,
        padded_depth=size.depth,
        run_widths=size.run_widths,
        padded_parts=format_sizes(size.sizes),
        predicted_compile_s=policy.forecast.compile_s(structure, size),
        cached_s=policy.forecast.costs.compile_cached_s,
    )


def _with_capacity(program: ProgramClass, trials: int, policy: Policy) -> ProgramClass:
    """A new class that `trials` trials join at first."""
    lanes = trials * policy.members
    capacity = capacity_for(program.lane_loop, lanes, policy.forecast.devices)
    if policy.given is not None:
        capacity = policy.given.capacity
    elif program.strategy == "process":
        capacity = policy.members
    elif program.strategy == "switch":
        capacity = capacity_of(policy)
    elif program.lane_loop == "map":  # the study's own, known before the first trial is proposed
        capacity = policy.forecast.capacity
    capacity = max(capacity, policy.members)
    name = (*_content(program), program.lane_loop, capacity, program.precision)
    return replace(program, class_id=short_hash(*name), capacity=capacity)


def _by_class(classified: Iterable[_ClassifiedTrial]) -> dict[str, list[_ClassifiedTrial]]:
    found: dict[str, list[_ClassifiedTrial]] = {}
    for trial in classified:
        found.setdefault(trial.program.class_id, []).append(trial)
    return found


def _cut(trials: Sequence[_ClassifiedTrial], policy: Policy) -> Iterable[tuple[float, Bucket]]:
    """The trials of one class in buckets of its capacity, ordered by trial number.

    Each comes with its weight against other buckets: predicted seconds, or an estimate.
    """
    program = trials[0].program
    side = "process" if program.strategy == "process" else "inline"
    for group in _group_trials(trials, program.capacity // policy.members):
        lanes = tuple(_lane(trial.live, policy) for trial in group)
        predicted_s, waste = _predict_bucket(group, lanes, policy)
        weight = _estimate_s(group, lanes) if predicted_s is None else predicted_s
        yield weight, Bucket(0, program.class_id, side, lanes, predicted_s, waste)


def _group_trials(
    trials: Sequence[_ClassifiedTrial], most: int
) -> Iterable[Sequence[_ClassifiedTrial]]:
    """The trials of a class in groups of at most `most`.

    Lanes side by side whose program branches by the epoch pass through it together, so the trials
    of a group have trained for equally many epochs; otherwise they would wait for each other. If
    each phase has its own program this is not needed: lanes in the same phase train together,
    however many epochs they have trained.
    """
    program = trials[0].program
    is_vmap = program.lane_loop == "vmap"
    has_clock = is_vmap and json.loads(program.settings).get(_SWITCHING) == "cond"
    ages = Counter(trial.live.epochs_done * has_clock for trial in trials)
    for age in sorted(ages, reverse=True):
        alike = [trial for trial in trials if trial.live.epochs_done * has_clock == age]
        alike.sort(key=lambda trial: trial.live.spec.number)
        yield from (alike[start : start + most] for start in range(0, len(alike), most))


def _lane(trial: LiveTrial, policy: Policy) -> Lane:
    return Lane(trial.spec.number, trial.epochs_done, policy.next_stop(trial), trial.checkpoint)


def _predict_bucket(
    trials: Sequence[_ClassifiedTrial], lanes: Sequence[Lane], policy: Policy
) -> tuple[float, float] | tuple[None, None]:
    """Seconds of a bucket, and the part of them that no trial uses.

    Side by side, every lane of the class takes as long as the one with the most epochs.
    """
    program = trials[0].program
    epochs = [lane.epoch_to - lane.epoch_from for lane in lanes]
    taken_s: list[float] = []
    useful_s = 0.0
    for trial, count in zip(trials, epochs, strict=True):
        padded_s = policy.forecast.epoch_s(trial.structure, program.padded_size, program.capacity)
        own_s = policy.forecast.epoch_s(trial.structure, EXACT, program.capacity)
        if padded_s is None or own_s is None:
            return None, None
        taken_s.append(padded_s * (count if program.lane_loop == "map" else max(epochs)))
        useful_s += own_s * count
    spent_s, useful_s = sum(taken_s) * policy.members, useful_s * policy.members
    if program.lane_loop == "vmap":
        spent_s *= program.capacity / (len(trials) * policy.members)
    waste = max(0.0, 1 - useful_s / spent_s) if spent_s else 0.0
    if program.strategy == "switch" and policy.switching is not None:
        return longest_s(taken_s * policy.members, policy.switching.devices), waste
    return spent_s, waste


def _estimate_s(trials: Sequence[_ClassifiedTrial], lanes: Sequence[Lane]) -> float:
    """Seconds of a bucket whose models the cost model does not know: proportional to their size."""
    epochs = sum(lane.epoch_to - lane.epoch_from for lane in lanes)
    return _UNKNOWN_S * epochs * max(trial.structure.n_parameters for trial in trials)
