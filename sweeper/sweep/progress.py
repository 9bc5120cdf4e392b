"""The status of a running sweep, for `status.json` and for observers."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sweeper.config import StudyConfig
from sweeper.ledger import Ledger
from sweeper.results.ranking import value_columns
from sweeper.results.status import Status, StudyState
from sweeper.scheduler.class_names import class_name
from sweeper.scheduler.classes import Plan
from sweeper.study.limits import max_failures, n_proposals, stopped_by
from sweeper.sweep.session.reconcile import xla_threads
from sweeper.sweep.state import EndedTrials, SweepState
from sweeper.sweep.stopping import n_unasked, rules_met
from sweeper.trial import CUT_OFF, Reason, TrialState


@dataclass(slots=True)
class SessionProgress:
    """Counts the progress of a session, to estimate its rate and remaining time."""

    config: StudyConfig
    run_id: str
    n_trials: int
    started_at: float
    ended_before: int
    xla_threads: int | None = None
    learned: Mapping[str, int] | None = None
    timer: Callable[[], float] = time.monotonic
    began_s: float = field(init=False)
    """When it began, by the timer: the time of day may be changed."""

    def __post_init__(self) -> None:
        self.began_s = self.timer()

    @classmethod
    def begin(
        cls,
        config: StudyConfig,
        run_id: str,
        ledger: Ledger,
        state: SweepState,
        learned: Mapping[str, int] | None,
    ) -> Self:
        """The progress of a session that starts now with a study in this `state`."""
        return cls(
            config=config,
            run_id=run_id,
            n_trials=n_proposals(config),
            started_at=time.time(),
            ended_before=len(state.ended),
            xla_threads=xla_threads(ledger.sessions()),
            learned=learned,
        )

    def status(
        self,
        state: SweepState,
        now: float,
        study_state: StudyState,
        plan: Plan | None = None,
        spent_s: Mapping[str, float] | None = None,
    ) -> Status:
        """The status after the last closed round; `plan` is the round in training.

        `spent_s` is the time of this session by activity.
        """
        ended, front = state.ended.counts, self._front(state.ended)
        stopper = stopped_by(self.config, state.kept_with_study)
        is_finished = study_state == "finished"
        unasked = n_unasked(self.n_trials, state, is_stopped=stopper is not None)
        waiting = len(state.waiting) + unasked
        rate = self._trials_per_s(len(state.ended))
        left = len(state.running) + waiting
        return Status(
            study=self.config.study.name,
            run_id=self.run_id,
            pid=os.getpid(),
            host=socket.gethostname(),
            state=study_state,
            started_at=self.started_at,
            updated_at=now,
            round=state.rounds,
            n_trials=max(self.n_trials, state.n_asked),
            counts={
                **{name.value: ended[name.value] for name in TrialState},
                "RUNNING": len(state.running),
                "WAITING": waiting,
            },
            diverged=state.ended.n_diverged,
            infeasible=state.ended.n_infeasible,
            best=front[0] if front else None,
            front=front if len(self.config.study.objectives) > 1 else [],
            feasible=state.ended.n_feasible if self.config.study.constraints else None,
            timeout=self._cut_short(state, waiting) if is_finished else None,
            stop=self._stop(state, waiting) if is_finished else None,
            stopped_by=stopper if is_finished and self.n_trials > state.n_asked else None,
            max_failures=self._limit(ended[TrialState.FAIL.value]),
            metric=self.config.study.metric,
            direction=self.config.study.direction,
            trials_per_minute=None if rate is None else 60 * rate,
            eta_s=None if rate is None else left / rate,
            running=[] if plan is None else self._buckets(plan, state),
            compile_s=state.compile_s,
            train_s=state.train_s,
            predicted_compile_s=state.predicted_compile_s,
            predicted_train_s=state.predicted_train_s,
            n_compiled=state.n_compiled,
            n_cache_hits=state.n_cache_hits,
            spent_s=dict(spent_s or {}),
            committed_at=state.committed_at,
            xla_threads=self.xla_threads,
            learned=self.learned,
            edition=self.config.edition,
            epochs=self._epochs(state.ended) if is_finished else None,
        )

    def _epochs(self, ended: EndedTrials) -> dict[str, int] | None:
        """The epochs that trials have trained, and would have if none had been pruned.

        None if a limit cut some off, or pruned ones could have stopped early: how far they would
        have come is not known.
        """
        rows = ended.values()
        pruned = [row for row in rows if row["reason"] == Reason.PRUNED]
        if any(_is_cut_off(row) for row in rows) or (pruned and self.config.stops is not None):
            return None
        saved = (
            self.config.epochs_of(json.loads(row["params_json"])) - row["epochs_done"]
            for row in pruned
        )
        trained = sum(row["epochs_done"] for row in rows)
        everything = trained + sum(saved)
        return {"trained": trained, "without_pruning": everything, "pruned": len(pruned)}

    def _trials_per_s(self, ended: int) -> float | None:
        mine, ran_s = ended - self.ended_before, self.timer() - self.began_s
        return mine / ran_s if mine and ran_s > 0 else None

    def _cut_short(self, state: SweepState, waiting: int) -> str | None:
        """The timeout, if it leaves trials unstarted or has ended some in the last round."""
        if rules_met(self.config, state.ended.values()):
            return None
        is_cut = waiting or _has_cut(state, Reason.TIMEOUT)
        return self.config.study.timeout if is_cut else None

    def _stop(self, state: SweepState, waiting: int) -> Mapping[str, float] | None:
        """The rules of `study.stop` that leave trials unstarted or have ended some."""
        met = rules_met(self.config, state.ended.values())
        if not met or not (waiting or _has_cut(state, Reason.STOPPED)):
            return None
        return {name: getattr(self.config.study.stop, name) for name in met}

    def _limit(self, failed: int) -> int | float | None:
        """The limit of failed trials, if it was exceeded."""
        return self.config.execution.max_failures if failed > max_failures(self.config) else None

    def _front(self, ended: EndedTrials) -> list[Mapping[str, Any]]:
        """The trials that no other dominates, as shown in a status; for one objective, the best."""
        names = value_columns(len(self.config.study.objectives))
        return [
            {
                "trial_number": row["trial_number"],
                "value": row["value"],
                "values": [row[name] for name in names],
                "params": {name: row.get(f"params_{name}") for name in self.config.columns},
            }
            for row in ended.front
        ]

    def _buckets(self, plan: Plan, state: SweepState) -> list[dict[str, Any]]:
        return [
            {
                "bucket": bucket.bucket,
                "place": None,  # until it starts
                "class_id": bucket.class_id,
                "class_name": class_name(state.classes[bucket.class_id], self.config.search),
                "trials": list(bucket.numbers),
                "params": [dict(state.running[number].spec.params) for number in bucket.numbers],
            }
            for bucket in plan.buckets
        ]


def _has_cut(state: SweepState, reason: Reason) -> bool:
    """Whether trials have ended in the last round for this reason."""
    rows = (row for row in state.ended.values() if _is_cut_off(row))
    return any(row["reason"] == reason and row["last_round"] == state.rounds for row in rows)


def _is_cut_off(row: Mapping[str, Any]) -> bool:
    """Whether a limit, a rule or a request ended a trial; one that fails may have run out of time.

    With `study.value = "best"`, a trial that a rule ended is complete.
    """
    return row["reason"] in CUT_OFF and row["state"] != TrialState.FAIL
