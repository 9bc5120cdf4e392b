"""The state of a sweep: a fold over closed rounds, and statistics of finished trials.

A running program and a resumed one apply the same records in the same order, so their states cannot
differ. Statistics are updated as trials end, because a pass over all rows in each round would make
long studies slow.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from sweeper.ledger import BucketRecord, Closing
from sweeper.results.ranking import BestTrials, ParetoFront, Row, is_feasible
from sweeper.scheduler.capacity import Ceiling
from sweeper.scheduler.classes import LiveTrial, Plan, ProgramClass
from sweeper.trial import Curve, LaneRecord, Memory, Reason, Request, TrialSpec, TrialState


class EndedTrials(Mapping[int, Row]):
    """The rows of finished trials by number; `n_best` is how many have their weights kept.

    `counts` are trials by state, `n_diverged` and `n_infeasible` count pruned trials that
    diverged or were not trained because of a constraint, `n_feasible` complete trials that meet
    every constraint.
    """

    def __init__(self, directions: Sequence[str], n_best: int) -> None:
        self.counts = Counter[str]()
        self.n_diverged = self.n_infeasible = self.n_feasible = 0
        self._rows: dict[int, Row] = {}
        self._best = BestTrials(directions, n_best)
        several = len(directions) > 1
        self._front = ParetoFront(directions) if several else BestTrials(directions, 1)

    def __getitem__(self, number: int) -> Row:
        return self._rows[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, ended: Mapping[int, Row]) -> None:
        """Add the trials that ended in a round."""
        rows = ended.values()
        self._rows.update(ended)
        self.counts.update(str(row["state"]) for row in rows)
        self.n_diverged += sum(row.get("reason") == Reason.DIVERGED for row in rows)
        self.n_infeasible += sum(row.get("reason") == Reason.INFEASIBLE for row in rows)
        self.n_feasible += sum(
            row["state"] == TrialState.COMPLETE and is_feasible(row) for row in rows
        )
        self._best.add(rows)
        self._front.add(rows)

    @property
    def best(self) -> list[int]:
        """The best `n_best`, best first."""
        return [row["trial_number"] for row in self._best.rows()]

    def candidates_with(self, ended: Mapping[int, Row]) -> set[int]:
        """The trials that may be among the best `n_best` when the study finishes.

        They are chosen from finished trials and from `ended`, which are about to end. With one
        objective, they are the best so far.
        """
        return {row["trial_number"] for row in self._best.candidates(ended.values())}

    @property
    def front(self) -> list[Row]:
        """The feasible complete trials that no other dominates; for one objective, the best."""
        return [row for row in self._front.rows() if is_feasible(row)]


def column_of(lane: LaneRecord, index: int, edition: int) -> list[float]:
    """The metric `index` of a lane after each epoch in which it did not diverge.

    It may be finite in that epoch too, but is then that of a model whose loss is not. Studies of
    editions 1 to 3 use it.
    """
    values = lane.curve.values[:, index].tolist()
    if lane.diverged_epoch is None or edition < 4:
        return values
    return values[: lane.diverged_epoch - lane.curve.first_epoch]


def finite_start(values: Iterable[float]) -> list[float]:
    """The `values` before the first that is not finite, which are reported to the pruner.

    Some samplers would treat a reported NaN as a good result, but a short history as a bad one.
    """
    return list(takewhile(math.isfinite, values))


@dataclass(slots=True)
class Running:
    """A trial from its first round on: its proposal, and the results of its buckets so far.

    `rows` are the rows of buckets.parquet that it was part of, `lanes` its own lane in each.
    """

    spec: TrialSpec
    class_id: str = ""
    checkpoint: str = ""
    rows: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    lanes: list[LaneRecord] = field(default_factory=list[LaneRecord])

    @property
    def curves(self) -> list[Curve]:
        """What its lanes measured, except failed ones."""
        return [lane.curve for lane in self.lanes if len(lane.curve.values)]

    @property
    def epochs_done(self) -> int:
        """The last committed epoch."""
        return max((lane.curve.last_epoch for lane in self.lanes), default=0)

    def live(self, epochs: int) -> LiveTrial:
        """The trial as the scheduler sees it."""
        return LiveTrial(self.spec, epochs, self.epochs_done, self.class_id, self.checkpoint)

    def column(self, index: int, edition: int) -> list[float]:
        """The metric `index` after each epoch in which it did not diverge, from epoch 1 on."""
        lanes = [lane for lane in self.lanes if len(lane.curve.values)]
        return [value for lane in lanes for value in column_of(lane, index, edition)]

    def reports(self, index: int, edition: int) -> list[float]:
        """What the pruner gets of the metric `index`, from epoch 1 on."""
        return finite_start(self.column(index, edition))


@dataclass(slots=True)
class SweepState:
    """Every class, every live trial and the rows of finished ones, after `rounds` rounds."""

    ended: EndedTrials
    rounds: int = 0
    n_asked: int = 0
    """How many proposals were drawn, including those in `waiting`."""
    waiting: dict[int, Running] = field(default_factory=dict[int, Running])
    """Proposals drawn ahead, by number."""
    classes: dict[str, ProgramClass] = field(default_factory=dict[str, ProgramClass])
    """By class id."""
    running: dict[int, Running] = field(default_factory=dict[int, Running])
    """Live trials, by number."""
    checkpoint_digests: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the name of the file."""
    kept: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    """What sampler and pruner store with each trial."""
    kept_with_study: dict[str, Any] = field(default_factory=dict[str, Any])
    """What sampler and pruner store for the study."""
    ceilings: dict[str, frozenset[Ceiling]] = field(default_factory=dict[str, frozenset[Ceiling]])
    """The capacities of classes for which memory was short."""
    requests: dict[str, Request] = field(default_factory=dict[str, Request])
    """The recorded requests, by key."""
    spent_s: float = 0.0
    """The wall time of all sessions."""
    committed_at: float | None = None
    """When the last round that trained or ended a trial was closed; None before the first."""
    compile_s: float = 0.0
    train_s: float = 0.0
    predicted_compile_s: float = 0.0
    predicted_train_s: float = 0.0
    n_compiled: int = 0
    n_cache_hits: int = 0

    @property
    def enqueued(self) -> dict[int, Request]:
        """The requests for trials to propose, by their numbers."""
        requests = self.requests.values()
        return {request.number: request for request in requests if request.params is not None}

    def open(
        self,
        specs: Iterable[TrialSpec],
        plan: Plan,
        memory: Memory,
        requests: Iterable[Request] = (),
    ) -> None:
        """Add a round's new trials, classes, lanes and requests."""
        self._keep(memory)
        self.requests |= {request.key: request for request in requests}
        for spec in specs:
            drawn_ahead = self.waiting.pop(spec.number, None)
            self.n_asked += drawn_ahead is None
            self.running[spec.number] = drawn_ahead or Running(spec)
        for program in plan.classes:
            self.classes[program.class_id] = program
        for bucket in plan.buckets:
            for number in bucket.numbers:
                self.running[number].class_id = bucket.class_id

    def absorb(self, records: Iterable[BucketRecord]) -> None:
        """Add the results of the open round's buckets to their trials."""
        for record in records:
            row = record.row
            self.compile_s += row["compile_s"]
            self.train_s += row["train_s"]
            self.predicted_compile_s += row["predicted_compile_s"] or 0.0
            self.predicted_train_s += row["predicted_train_s"] or 0.0
            self.n_compiled += row["compile_s"] > 0
            self.n_cache_hits += row["cache_hit"] is True
            if ceiling := row.get("ceiling"):  # rows of older versions have none
                known = self.ceilings.get(row["class_id"], frozenset())
                self.ceilings[row["class_id"]] = known | {Ceiling(**ceiling)}
            for lane in record.lanes:
                trial = self.running[lane.number]
                trial.rows.append(record.row)
                trial.lanes.append(lane)

    def draw_ahead(self, specs: Iterable[TrialSpec]) -> None:
        """Let proposals wait for a later round; those already waiting stay."""
        for spec in specs:
            if spec.number not in self.waiting:
                self.waiting[spec.number] = Running(spec)
                self.n_asked += 1

    def close(self, closing: Closing, ended: Mapping[int, Mapping[str, Any]]) -> None:
        """End the round: `ended` trials leave with their rows, the others keep a checkpoint."""
        self.rounds += 1
        self.checkpoint_digests = closing.digests
        self.draw_ahead(closing.ahead)
        self.requests |= {request.key: request for request in closing.requests}
        # earlier versions read the time of day, which may be set back
        self.spent_s = max(0.0, closing.spent_s)
        self._keep(closing.memory)
        for number, checkpoint in closing.live.items():
            self.running[number].checkpoint = checkpoint
        live = (row for number in closing.live for row in self.running[number].rows[-1:])
        times = [time for row in (*ended.values(), *live) if (time := row.get("finished_at"))]
        self.committed_at = max(times, default=self.committed_at)
        for number in ended:
            del self.running[number]
        self.ended.add(ended)

    def _keep(self, memory: Memory) -> None:
        for number, kept in memory.trials.items():
            self.kept.setdefault(number, {}).update(kept)
        self.kept_with_study.update(memory.study)
