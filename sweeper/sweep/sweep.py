"""The round loop: ask, plan, train to the next decision, decide, commit.

Decisions are made in `Study` and `scheduler`, training happens in an executor. This module fixes
the order, so that a crash at any moment loses nothing that was committed. `run` publishes a round
while the next one trains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from sweeper.executors.executor import Outcome, Work
from sweeper.faults import Step, fault_points
from sweeper.ledger import BucketRecord, Closing
from sweeper.results.status import StudyState
from sweeper.results.timeline import Activity
from sweeper.scheduler.class_names import class_name
from sweeper.scheduler.classes import Bucket, Plan
from sweeper.scheduler.plan import plan_round
from sweeper.study.ask_tell import Study
from sweeper.study.limits import n_proposals
from sweeper.sweep.context import SweepContext
from sweeper.sweep.feasibility import Feasibility
from sweeper.sweep.request_answers import (
    answer_at_end,
    answer_to_enqueue,
    answer_to_stop,
    grant_to_enqueue,
    grant_to_stop,
)
from sweeper.sweep.requests import EnqueueRequest, StopRequest
from sweeper.sweep.resume import judged_metric, restore
from sweeper.sweep.rows import bucket_record, trial_row, untrained_row
from sweeper.sweep.session.crashes import MAX_CRASHES
from sweeper.sweep.state import Running, SweepState, column_of, finite_start
from sweeper.sweep.stopping import end_state, ending_reason, is_over, n_unasked
from sweeper.sweep.verdicts import Judge, Verdict
from sweeper.trial import LaneRecord, Reason, Request, TrialSpec, TrialState

Trained = tuple[Work, Outcome]
"""The work of a bucket, and what training it returned."""


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
        self._judge = Judge(context.config, context.metrics, context.structure_of)
        self._study = Study(context.config, restored.past)
        self._spent_before_s = restored.state.spent_s
        self._n_trials = n_proposals(context.config)

    @property
    def finished(self) -> bool:
        """Whether every trial has ended, or something has ended the study."""
        return is_over(self._context.config, self.state, self._left)

    @property
    def end_state(self) -> StudyState:
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

    def train(self, plan: Plan, meanwhile: Callable[[], None] = lambda: None) -> list[Trained]:
        """Each bucket's work and outcome in the open round, in the plan's order.

        Meanwhile, `meanwhile` is called and proposals for later rounds are drawn.
        """
        works = [self._work(bucket) for bucket in plan.buckets]
        training = self._context.train(works)
        meanwhile()
        timeline = self._context.timeline
        with timeline.spending(Activity.ASK), fault_points(Step.ASK_AHEAD):
            self._ask_ahead(plan)
        outcomes = sorted(training, key=lambda outcome: outcome.bucket.bucket)
        for outcome in outcomes:
            timeline.add(outcome.spans)
        return list(zip(works, outcomes, strict=True))

    def close(self, trained: Sequence[Trained]) -> None:
        """Decide which trials of the open round end, and commit it."""
        state, context = self.state, self._context
        spans = context.timeline.cut()
        state.spent_s = self._spent_before_s + context.timer() - self._started_s
        records = self._records(trained)
        state.absorb(records)
        outcomes = [outcome for _, outcome in trained]
        lanes = [lane for outcome in outcomes for lane in outcome.lanes]
        checkpoints = {lane.number: lane.checkpoint for lane in lanes}
        digests = {file: digest for outcome in outcomes for file, digest in outcome.digests.items()}
        pending = context.requests.pending()
        requests = [request for request in pending if isinstance(request, StopRequest)]
        with fault_points(Step.DECIDE):
            ended = self._decide(lanes, {request.number for request in requests})
        self._keep_models(ended, checkpoints, digests)
        live = {n: file for n, file in checkpoints.items() if n not in ended}
        closing = Closing(
            metrics=context.metrics,
            elapsed_s=context.timeline.elapsed_s,
            live=live,
            digests={file: digests[file] for file in sorted(set(live.values()))},
            ahead=tuple(trial.spec for trial in state.waiting.values()),
            memory=self._study.take_recorded(),
            spent_s=state.spent_s,
            run_id=context.run_id,
            spans=spans,
            requests=grant_to_stop(requests, ended),
        )
        with fault_points(Step.CLOSE_ROUND):
            context.ledger.close_round(state.rounds + 1, closing, records, ended)
        state.close(closing, ended)
        for request in requests:
            answer = answer_to_stop(request, state, ended, context.config)
            context.requests.answer(request, answer)
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
        for request in self._context.requests.pending():
            self._context.requests.answer(request, answer_at_end(request, self.state))

    def _plan_next(self, number: int) -> Plan:
        state, context = self.state, self._context
        pending = context.requests.pending()
        requests = [request for request in pending if isinstance(request, EnqueueRequest)]
        granted = self._grant(requests)
        with fault_points(Step.ASK):
            specs = self._next_specs()
        live = [trial.live(self._epochs(trial.spec)) for trial in state.running.values()]
        feasible = self._feasibility.feasible(specs)
        live += [Running(spec).live(self._epochs(spec)) for spec in feasible]
        with fault_points(Step.PLAN):
            plan = plan_round(live, state.classes.values(), context.structure_of, context.policy)
        memory = self._study.take_recorded()
        with fault_points(Step.OPEN_ROUND):
            context.ledger.open_round(number, specs, plan.as_dict(), memory, granted)
        state.open(specs, plan, memory, granted)
        for request in requests:
            stopped = self._study.is_stopped
            answer = answer_to_enqueue(request, state, context.config, is_stopped=stopped)
            context.requests.answer(request, answer)
        return plan

    def _grant(self, requests: Iterable[EnqueueRequest]) -> list[Request]:
        """Enqueue the requested trials that are granted; returns the requests granted just now."""
        stopped = self._study.is_stopped
        granted = grant_to_enqueue(requests, self.state, self._context.config, is_stopped=stopped)
        for request in granted:
            self._study.enqueue(request.number, request.params or {})
        return granted

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
        self, lanes: Sequence[LaneRecord], stopped: Container[int]
    ) -> dict[int, Mapping[str, Any]]:
        """The rows of the trials that end in this round, by themselves or because `stopped`.

        Every value is reported before any trial is judged, and trials are judged by number: with
        successive halving, verdicts depend on the order.
        """
        lanes = sorted(lanes, key=lambda lane: lane.number)
        self._report(lanes)
        verdicts = self._verdicts(lanes, stopped)
        self._tell(verdicts)
        return {number: self._row(number, verdict) for number, verdict in verdicts.items()}

    def _report(self, lanes: Iterable[LaneRecord]) -> None:
        """Report what the lanes measured of the metric that the pruner judges, if there is one."""
        judged_by = judged_metric(self._context.metrics, self._context.config.study.objectives)
        for lane in lanes:
            if judged_by is None or lane.failure is not None:
                continue
            column = column_of(lane, judged_by, self._context.config.edition)
            self._study.report(lane.number, lane.curve.first_epoch, finite_start(column))

    def _verdicts(self, lanes: Sequence[LaneRecord], stopped: Container[int]) -> dict[int, Verdict]:
        """The verdicts of the trials that end in this round, by number.

        If the study ends with this round, its other trials are cut off, and get one, too.
        """
        running, judge = self.state.running, self._judge
        verdicts = self._infeasible()
        for lane in lanes:
            trial, number = running[lane.number], lane.number
            verdict = judge.judge(trial, lane, self._study.should_prune)
            if verdict is None and number in stopped:
                verdict = judge.cut_off(trial, lane, Reason.STOPPED)
            if verdict is not None:
                verdicts[number] = verdict
        verdicts = dict(sorted(verdicts.items()))
        reason = ending_reason(self._context.config, self.state, verdicts.values())
        if reason is None:
            return verdicts
        others = [lane for lane in lanes if lane.number not in verdicts]
        verdicts |= {
            lane.number: judge.cut_off(running[lane.number], lane, reason) for lane in others
        }
        return dict(sorted(verdicts.items()))

    def _infeasible(self) -> dict[int, Verdict]:
        """The verdicts of the open round's trials that are not trained."""
        known = self._feasibility.known_excesses
        return {
            number: Verdict(TrialState.PRUNED, Reason.INFEASIBLE, (), known(trial.spec))
            for number, trial in self.state.running.items()
            if not trial.class_id
        }

    def _tell(self, verdicts: Mapping[int, Verdict]) -> None:
        """Tell the sampler how trials have ended."""
        for number, verdict in verdicts.items():
            self._study.constrain(number, verdict.excesses)
            self._study.tell(number, verdict.state, verdict.values)

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

    def _records(self, trained: Iterable[Trained]) -> list[BucketRecord]:
        members, search = self._context.policy.members, self._context.config.search
        return [
            bucket_record(
                work, outcome, class_name(work.program, search), members, self._context.boundary
            )
            for work, outcome in trained
        ]

    def _epochs(self, spec: TrialSpec) -> int:
        return self._context.config.epochs_of(spec.params)
