"""The round loop: ask, plan, train to the next decision, decide, commit.

Decisions are made in `Study` and `scheduler`, training happens in an executor. This module fixes
the order, so that a crash at any moment loses nothing that was committed. `run` publishes a round
while the next one trains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sweeper.config.study import N_PARAMETERS
from sweeper.executors.executor import Outcome, Work
from sweeper.faults import Step, fault_points
from sweeper.ledger import BucketRecord, Closing
from sweeper.results.timeline import Activity
from sweeper.scheduler.class_names import class_name
from sweeper.scheduler.classes import Bucket, Plan
from sweeper.scheduler.plan import plan_round
from sweeper.study.ask_tell import Study
from sweeper.study.options import n_proposals
from sweeper.sweep.context import SweepContext
from sweeper.sweep.feasibility import Feasibility
from sweeper.sweep.requests import GRID_ONLY, PendingRequest
from sweeper.sweep.resume import judged, restore
from sweeper.sweep.rows import (
    Verdict,
    bucket_record,
    excesses,
    trial_row,
    untrained_row,
    values_of,
)
from sweeper.sweep.session.crashes import MAX_CRASHES
from sweeper.sweep.state import Running, SweepState, column_of, finite_start
from sweeper.sweep.stopping import (
    Doing,
    end_state,
    ending_reason,
    is_good_enough,
    is_over,
    n_unasked,
)
from sweeper.trial import LaneRecord, Reason, Request, TrialSpec, TrialState


class Sweep:
    """A study in training, round by round; a round is committed when `close` returns."""

    def __init__(self, context: SweepContext) -> None:
        self._context = context
        self._started_s = context.timer()
        with fault_points(Step.RESTORE):
            restored = restore(context.ledger, context.config)
        self.state: SweepState = restored.state
        self._open_plan = restored.open_plan
        self._crashes = context.crashes
        self._feasibility = Feasibility(context.config, context.structure_of)
        self._study = Study(context.config, restored.past)
        self._spent_before_s = restored.state.spent_s
        self._n_trials = n_proposals(context.config)
        self._works: list[Work] = []  # of the open round

    @property
    def finished(self) -> bool:
        """Whether every trial has ended, or something has ended the study."""
        return is_over(self._context.config, self.state, self._left)

    @property
    def end_state(self) -> Doing:
        """The state of the study if no further round is trained."""
        return end_state(self._context.config, self.state, self._left)

    @property
    def _left(self) -> int:
        """How many trials the study may still be asked for."""
        return n_unasked(self._n_trials, self.state, is_stopped=self._study.is_stopped)

    @property
    def has_failed(self) -> bool:
        """Whether more trials have failed than are allowed."""
        return ending_reason(self._context.config, self.state) is Reason.MAX_FAILURES

    def tidy(self) -> None:
        """Remove files that a crash left behind, and models of trials that cannot be the best.

        While the study goes on, the models of all candidates stay; once it has finished, those of
        the best trials.
        """
        with fault_points(Step.TIDY):
            state, has_finished = self.state, self.end_state == "finished"
            models = {*state.ended.best} if has_finished else state.ended.candidates_with({})
            self._context.store.tidy(set(state.checkpoint_digests), models)

    def open(self) -> Plan:
        """The plan of the round to train: the one that a crash left open, or the next one.

        A round during which the program died repeatedly is trained in workers.
        """
        plan, self._open_plan = self._open_plan, None
        if plan is None:
            self._crashes = 0
            return self._plan_next(self.state.rounds + 1)
        return plan.in_workers() if self._crashes >= MAX_CRASHES else plan

    def train(self, plan: Plan, meanwhile: Callable[[], None] = lambda: None) -> list[Outcome]:
        """The outcome of each bucket of the open round, in the plan's order.

        Meanwhile, `meanwhile` is called and proposals for later rounds are drawn.
        """
        self._works = [self._work(bucket) for bucket in plan.buckets]
        training = self._context.train(self._works)
        meanwhile()
        timeline = self._context.timeline
        with timeline.spending(Activity.ASK), fault_points(Step.ASK_AHEAD):
            self._ask_ahead(plan)
        outcomes = sorted(training, key=lambda outcome: outcome.bucket.bucket)
        for outcome in outcomes:
            timeline.add(outcome.spans)
        return outcomes

    def close(self, outcomes: Sequence[Outcome]) -> None:
        """Decide which trials of the open round end, and commit it."""
        state, context = self.state, self._context
        spans = context.timeline.cut()
        state.spent_s = self._spent_before_s + context.timer() - self._started_s
        records = self._records(outcomes)
        state.absorb(records)
        lanes = [lane for outcome in outcomes for lane in outcome.lanes]
        checkpoints = {lane.number: lane.checkpoint for lane in lanes}
        digests = {file: digest for o in outcomes for file, digest in o.digests.items()}
        stops = [asked for asked in context.requests.pending() if asked.stop is not None]
        with fault_points(Step.DECIDE):
            ended = self._decide(lanes, {asked.stop for asked in stops})
        self._keep_models(ended, checkpoints, digests)
        live = {n: file for n, file in checkpoints.items() if n not in ended}
        closing = Closing(
            metrics=context.metrics,
            elapsed_s=context.timeline.elapsed_s,
            live=live,
            digests={file: digests[file] for file in sorted(set(live.values()))},
            ahead=tuple(trial.spec for trial in state.waiting.values()),
            memory=self._study.noted(),
            spent_s=state.spent_s,
            run_id=context.run_id,
            spans=spans,
            requests=_granted(stops, ended),
        )
        with fault_points(Step.CLOSE_ROUND):
            context.ledger.close_round(state.rounds + 1, closing, records, ended)
        state.close(closing, ended)
        for asked in stops:
            context.requests.answer(asked, *self._answer_to_stop(asked, ended))
        self.tidy()

    def _keep_models(
        self,
        ended: Mapping[int, Mapping[str, Any]],
        checkpoints: Mapping[int, str],
        digests: Mapping[str, str],
    ) -> None:
        """Keep the models of those trials that end in this round and may be among the best."""
        state = self.state
        for trial in sorted(state.ended.candidates_with(ended) & ended.keys()):
            file = checkpoints[trial]
            with fault_points(Step.KEEP_MODEL):
                spec = state.running[trial].spec
                self._context.store.keep_model(spec, file, digests[file], ended[trial])

    def refuse_requests(self) -> None:
        """Refuse what is still asked for when the study has ended."""
        for asked in self._context.requests.pending():
            text = "the study has ended"
            if asked.key in self.state.requests:
                text = "it was granted before the study ended"
            self._context.requests.answer(asked, text, asked.key in self.state.requests)

    def _plan_next(self, number: int) -> Plan:
        state, context = self.state, self._context
        asked, granted = self._enqueue()
        with fault_points(Step.ASK):
            specs = self._next_specs()
        live = [trial.live(self._epochs(trial.spec)) for trial in state.running.values()]
        feasible = self._feasibility.feasible(specs)
        live += [Running(spec).live(self._epochs(spec)) for spec in feasible]
        with fault_points(Step.PLAN):
            plan = plan_round(live, state.classes.values(), context.structure_of, context.policy)
        memory = self._study.noted()
        with fault_points(Step.OPEN_ROUND):
            context.ledger.open_round(number, specs, plan.as_dict(), memory, granted)
        state.open(specs, plan, memory, granted)
        for one in asked:
            context.requests.answer(one, *self._answer_to_enqueue(one))
        return plan

    def _enqueue(self) -> tuple[list[PendingRequest], list[Request]]:
        """Let the study propose what is asked for; returns that, and what of it is new.

        Nothing is granted if the study is asked for all its trials without it.
        """
        state = self.state
        asked = [one for one in self._context.requests.pending() if one.stop is None]
        granted: list[Request] = []
        if self._context.config.study.sampler.name == "grid" or self._study.is_stopped:
            return asked, granted
        taken = (
            len(self._context.config.study.enqueue),
            state.asked,
            *(n + 1 for n in state.enqueued),
        )
        number = max(taken)
        for one in asked:
            if one.key not in state.requests and number < self._n_trials:
                granted.append(Request(one.key, number, one.params))
                self._study.enqueue(number, one.params)
                number += 1
        return asked, granted

    def _answer_to_enqueue(self, asked: PendingRequest) -> tuple[str, bool]:
        """The answer once the round is open, and whether the request is granted."""
        if (request := self.state.requests.get(asked.key)) is not None:
            return f"trial {request.number} has these values", True
        if self._context.config.study.sampler.name == "grid":
            return GRID_ONLY, False
        if self._study.is_stopped:
            return "the sampler has called study.stop: it proposes no more trials", False
        found = f"all {self._n_trials} trials were proposed or enqueued already"
        hint = "ask again once the study has ended, and run it with a larger study.n_trials"
        return f"{found}; {hint}", False

    def _answer_to_stop(
        self, asked: PendingRequest, ended: Mapping[int, Mapping[str, Any]]
    ) -> tuple[str, bool]:
        """The answer once the round is closed in which these trials have ended."""
        number, state = int(asked.stop or 0), self.state
        if asked.key in state.requests:
            row = state.ended[number]
            return f"trial {number} is stopped after epoch {row['epochs_done']}", True
        if number in state.ended:
            row = state.ended[number]
            when = "in this round" if number in ended else "before"
            reason = f" ({row['reason']})" if row["reason"] else ""
            return f"trial {number} has ended {when} by itself: {row['state']}{reason}", False
        if number in state.waiting or number < self._n_trials:
            return f"trial {number} is not in training yet", False
        return f"trial {number} does not exist: numbers go from 0 to {self._n_trials - 1}", False

    def _next_specs(self) -> list[TrialSpec]:
        """The trials of the next round: waiting proposals, then new ones, up to `parallel`.

        If asking takes long, only as many new ones as keep the machine busy: the others are drawn
        while these train. For each that is not trained there is one more.
        """
        state, parallel = self.state, self._context.config.parallel
        waiting = [trial.spec for trial in state.waiting.values()]
        room = max(0, parallel - len(state.running))
        specs, waiting = waiting[:room], waiting[room:]
        new = room - len(specs)
        if self._asks_ahead and self._context.config.study.sampler.learns:
            started = len(state.running) + len(specs)
            new = min(new, max(0, self._context.busy_with - started))
        left = self._left
        specs += self._study.ask(min(new, left), state.rounds)
        left -= min(new, left)
        ask = partial(self._study.ask, told_through_round=state.rounds)
        return self._feasibility.with_replacements(specs, waiting, left, ask)

    @property
    def _asks_ahead(self) -> bool:
        """Whether to ask ahead; a sampler that learns needs the results of early trials first."""
        learns = self._context.config.study.sampler.learns
        return not learns or len(self.state.ended) >= self._context.ahead_after

    def _ask_ahead(self, plan: Plan) -> None:
        """Draw the proposals that will be needed while the round of `plan` trains.

        As many as trials are certain to end in it, and at least an equal share of `parallel` per
        round: this depends only on what is committed, never on how long asking or training take.
        """
        if not self._asks_ahead:
            return
        state, parallel = self.state, self._context.config.parallel
        ending = sum(
            lane.epoch_to == self._epochs(state.running[lane.number].spec)
            for bucket in plan.buckets
            for lane in bucket.lanes
        )
        share = math.ceil(parallel / (len(self._context.policy.stops) + 1))
        wanted = max(ending - len(state.waiting), min(share, parallel - len(state.waiting)))
        count = max(0, min(wanted, self._left))
        state.draw_ahead(self._study.ask(count, state.rounds))

    def _decide(
        self, lanes: Sequence[LaneRecord], stopped: Container[int | None]
    ) -> dict[int, Mapping[str, Any]]:
        """The rows of the trials that end in this round, by themselves or because `stopped`.

        Every value is reported before any trial is judged, and trials are judged by number: with
        successive halving, verdicts depend on the order.
        """
        lanes = sorted(lanes, key=lambda lane: lane.number)
        judged_by = judged(self._context.metrics, self._context.config.study.objectives)
        for lane in lanes:
            if judged_by is None or lane.failure is not None:
                continue
            column = column_of(lane, judged_by, self._context.config.edition)
            self._study.report(lane.number, lane.curve.first_epoch, finite_start(column))
        verdicts = {lane.number: self._judge(lane) for lane in lanes}
        ended = {number: verdict for number, verdict in verdicts.items() if verdict is not None}
        ended |= {
            lane.number: replace(self._pruned(lane), reason=Reason.STOPPED)
            for lane in lanes
            if lane.number in stopped and lane.number not in ended
        }
        ended = dict(sorted((ended | self._infeasible()).items()))
        reason = ending_reason(self._context.config, self.state, ended.values())
        if reason is not None:
            others = (lane for lane in lanes if lane.number not in ended)
            ended |= {lane.number: replace(self._pruned(lane), reason=reason) for lane in others}
        ended = dict(sorted(ended.items()))
        for number, verdict in ended.items():
            self._study.constrain(number, verdict.excesses)
            self._study.tell(number, verdict.state, verdict.values)
        return {number: self._row(number, verdict) for number, verdict in ended.items()}

    def _infeasible(self) -> dict[int, Verdict]:
        """The verdicts of the open round's trials that are not trained."""
        known = self._feasibility.known_excesses
        return {
            number: Verdict(TrialState.PRUNED, Reason.INFEASIBLE, (), known(trial.spec))
            for number, trial in self.state.running.items()
            if not trial.class_id
        }

    def _judge(self, lane: LaneRecord) -> Verdict | None:
        """How a trial ends in this round; None if it goes on."""
        trial = self.state.running[lane.number]
        if lane.failure is not None:
            return Verdict(TrialState.FAIL, lane.failure.reason)
        now = self._pruned(lane)
        if lane.diverged_epoch is not None or not all(map(math.isfinite, now.values)):
            return Verdict(TrialState.PRUNED, Reason.DIVERGED)
        if trial.epochs_done >= self._epochs(trial.spec):
            return self._complete(trial, None)
        if lane.ended:
            return self._complete(trial, Reason.EARLY_STOP)
        if self._keeps_best:
            complete = self._complete(trial, Reason.STOPPED)
            if is_good_enough(self._context.config.study, complete):
                return complete
        return now if self._study.should_prune(lane.number) else None

    @property
    def _keeps_best(self) -> bool:
        """Whether a trial's value and weights are those of its best epoch, in training already."""
        config = self._context.config
        return config.edition > 2 and config.study.value == "best"

    def _pruned(self, lane: LaneRecord) -> Verdict:
        """The verdict of a trial that ends with the metrics of its last epoch."""
        last = dict(zip(self._context.metrics, lane.curve.values[-1].tolist(), strict=True))
        trial = self.state.running[lane.number]
        return self._verdict(trial, TrialState.PRUNED, Reason.PRUNED, last)

    def _complete(self, trial: Running, reason: Reason | None) -> Verdict:
        """The verdict of a complete trial, whose metrics are the means of its members'."""
        metrics, keeps = self._context.metrics, self._context.config.keeps
        means = {name: np.mean(values_of(trial, metrics, name, keeps)) for name in metrics}
        metric_means = {name: float(mean) for name, mean in means.items()}
        return self._verdict(trial, TrialState.COMPLETE, reason, metric_means)

    def _verdict(
        self, trial: Running, state: TrialState, reason: Reason | None, metrics: Mapping[str, float]
    ) -> Verdict:
        """The verdict of a trial that ends with these metrics."""
        n_parameters = self._context.structure_of(trial.spec).n_parameters
        metrics = {**metrics, N_PARAMETERS: float(n_parameters)}
        study = self._context.config.study
        values = tuple(metrics[name] for name in study.objectives)
        return Verdict(state, reason, values, excesses(study.constraints, metrics))

    def _row(self, number: int, verdict: Verdict) -> dict[str, Any]:
        trial, context = self.state.running[number], self._context
        is_given = number < len(context.config.study.enqueue) or number in self.state.enqueued
        enqueued = {"enqueued": is_given}
        if not trial.lanes:
            round_number = self.state.rounds + 1
            row = untrained_row(trial.spec, verdict, round_number, context, context.clock())
            return row | enqueued
        program = self.state.classes[trial.class_id]
        return trial_row(trial, verdict, program, context, context.clock()) | enqueued

    def _work(self, bucket: Bucket) -> Work:
        specs = tuple(self.state.running[trial].spec for trial in bucket.numbers)
        digests = self.state.checkpoint_digests
        needed = {lane.checkpoint for lane in bucket.lanes if lane.checkpoint}
        return Work(
            self.state.rounds + 1,
            bucket,
            self.state.classes[bucket.class_id],
            specs,
            {file: digests[file] for file in needed},
            tuple(self.state.ceilings.get(bucket.class_id, ())),
            self._crashes,
        )

    def _records(self, outcomes: Sequence[Outcome]) -> list[BucketRecord]:
        members, search = self._context.policy.members, self._context.config.search
        return [
            bucket_record(
                work, outcome, class_name(work.program, search), members, self._context.boundary
            )
            for work, outcome in zip(self._works, outcomes, strict=True)
        ]

    def _epochs(self, spec: TrialSpec) -> int:
        return self._context.config.epochs_of(spec.params)


def _granted(
    stops: Iterable[PendingRequest], ended: Mapping[int, Mapping[str, Any]]
) -> tuple[Request, ...]:
    """The requests to stop a trial that have ended one."""
    return tuple(
        Request(asked.key, asked.stop)
        for asked in stops
        if asked.stop is not None
        and asked.stop in ended
        and ended[asked.stop]["reason"] == Reason.STOPPED
    )
