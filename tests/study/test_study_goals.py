"""Samplers and pruners, objectives, constraints and timeouts: how studies end.

Each study runs on the round machine; what a crash changes there is `test_round_machine`'s subject.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from sweeper.ledger import Ledger
from sweeper.results.ranking import best_first, models_left_out, pareto_front
from sweeper.results.status import Status, ended_by
from sweeper.study.ask_tell import Study
from sweeper.study.limits import STOPPED, max_failures
from sweeper.sweep.progress import SessionProgress
from sweeper.sweep.resume import restore
from sweeper.sweep.sweep import Sweep
from tests.round_machine import Crash, CrashingLedger, contents, new_ledger, run, study
from tests.sweep.test_round_machine import CONDITIONAL, GOALS, PRUNERS, QUEUE, SAMPLERS

SEVERAL = GOALS["several"]
FEW = "study.n_trials=16", "schedule.parallel=5", "schedule.round_epochs=2"
SIZE_AND_LOSS = (
    "study.metric=['n_parameters','val_loss']",
    "study.direction=['minimize','minimize']",
)
GRID = "search.optimizer.lr={type='float',low=1e-3,high=9e-3,step=2e-3}"


def ended(overrides: tuple[str, ...], diverging: frozenset[int] = frozenset()) -> list[Any]:
    """The rows of a study that ran to its end."""
    ledger = new_ledger()
    run(study([*FEW, *overrides]), ledger, diverging)
    return ledger.trial_rows()


def options(sampler: str, pruner: str) -> tuple[str, ...]:
    chosen = f"study.sampler={{{SAMPLERS[sampler]}}}", f"study.pruner={{{PRUNERS[pruner]}}}"
    return (*chosen, GRID) if sampler == "grid" else (*chosen, QUEUE)


@pytest.mark.parametrize("pruner", ["median", "halving", "asha", "hyperband", "own"])
@pytest.mark.parametrize("sampler", sorted(SAMPLERS))
def test_each_sampler_resumes_with_each_pruner_unchanged(sampler: str, pruner: str) -> None:
    config = study([*FEW, *options(sampler, pruner), *CONDITIONAL[:2]])
    unbroken, broken = new_ledger(), new_ledger()
    run(config, unbroken)

    for at in range(2, 40, 3):
        try:
            run(config, CrashingLedger(broken, at, after=at % 2 == 0))
        except Crash:
            continue
        break
    else:
        run(config, broken)

    assert contents(broken) == contents(unbroken)


@pytest.mark.parametrize("pruner", sorted(set(PRUNERS) - {"none"}))
def test_each_pruner_ends_trials_early(pruner: str) -> None:
    rows = ended((f"study.pruner={{{PRUNERS[pruner]}}}", "study.n_trials=40"))
    states = {row["state"] for row in rows}
    assert states == {"COMPLETE", "PRUNED"}
    assert {row["reason"] for row in rows if row["state"] == "PRUNED"} == {"pruned"}
    assert all(row["epochs_done"] == 8 for row in rows if row["state"] == "COMPLETE")


@pytest.mark.parametrize("sampler", sorted(set(SAMPLERS) - {"grid", "own"}))
def test_each_sampler_proposes_its_own(sampler: str) -> None:
    config = study([f"study.sampler={{{SAMPLERS[sampler]}}}", "study.seed=3"])
    mine = [dict(spec.drawn) for spec in Study(config).ask(6, 0)]
    other = study([f"study.sampler={{{SAMPLERS[sampler]}}}", "study.seed=4"])
    assert mine == [dict(spec.drawn) for spec in Study(config).ask(6, 0)]
    assert mine != [dict(spec.drawn) for spec in Study(other).ask(6, 0)]


def test_several_objectives_have_a_column_each() -> None:
    for row in ended(SEVERAL):
        assert row["value"] == row["final_val_accuracy"]
        assert row["value_1"] == 3 * row["params_width"] == row["n_parameters"]
        assert row["value_2"] == row["final_val_loss"]
        assert row["best_value"] >= row["value"]


def test_an_objective_may_be_the_number_of_parameters_alone() -> None:
    rows = ended(("study.metric=n_parameters", "study.direction=minimize"))
    assert [row["value"] for row in rows] == [row["n_parameters"] for row in rows]
    assert {row["best_epoch"] for row in rows} == {1}


def test_a_diverged_trial_has_no_values() -> None:
    row = ended(SEVERAL, diverging=frozenset({2}))[2]
    assert (row["state"], row["reason"], row["value"]) == ("PRUNED", "diverged", None)
    assert "value_1" not in row


class Keeping:
    """Records whose weights are saved and kept."""

    def __init__(self) -> None:
        self.kept: set[int] = set()

    def keep_model(self, spec: Any, checkpoint: str, digest: str, row: Any) -> None:
        self.kept.add(spec.number)

    def tidy(self, checkpoints: set[str], models: set[int]) -> None:
        self.kept &= models


def test_the_weights_of_the_front_are_kept_first() -> None:
    store = Keeping()
    config = study([*FEW, *SEVERAL, "results.keep_models=3"])
    ledger = new_ledger()
    run(config, ledger, store=store)
    rows, ways = ledger.trial_rows(), config.study.directions
    front = [row["trial_number"] for row in pareto_front(rows, ways)]
    assert store.kept == {row["trial_number"] for row in best_first(rows, ways, 3)}
    assert set(front[:3]) <= store.kept


@pytest.mark.parametrize("seed", [7, 46])
def test_a_model_is_kept_until_its_trial_can_no_longer_be_one_of_the_best(seed: int) -> None:
    """Later trials push back others of the front, but not this one; a crash changes nothing."""
    settings = f"study.seed={seed}", "results.keep_models=2", *FEW[:1]
    rounds = "schedule.parallel=2", "schedule.round_epochs=6"
    config = study([*settings, *rounds, *SIZE_AND_LOSS])
    unbroken, ledger = Keeping(), new_ledger()
    run(config, ledger, store=unbroken)
    rows, ways = ledger.trial_rows(), config.study.directions
    assert unbroken.kept == {row["trial_number"] for row in best_first(rows, ways, 2)}
    for at in (3, 8, 15, 20):
        broken, ledger = Keeping(), new_ledger()
        with pytest.raises(Crash):
            run(config, CrashingLedger(ledger, at, after=True), store=broken)
        run(config, ledger, store=broken)
        assert broken.kept == unbroken.kept


@pytest.mark.parametrize(
    ("front", "models", "kept", "said"),
    [
        (9, 5, 5, "has 9 trials, but results.keep_models = 5 keeps the models of 5 only; refit"),
        (9, 3, 5, "but the models of only 3 exist: others were removed by an earlier session"),
        (4, 3, 5, "has 4 trials, but the models of only 3 exist: others were removed"),
        (5, 5, 5, "None"),
        (9, 0, 0, "None"),
    ],
)
def test_a_front_whose_models_are_not_all_kept_is_reported(
    front: int, models: int, kept: int, said: str
) -> None:
    assert said in str(models_left_out(front, models, kept))


def final_status(sweep: Sweep, config: Any) -> Any:
    return SessionProgress(config, "test", 16, 0.0, 0).status(sweep.state, 1.0, "finished")


def test_status_shows_the_front() -> None:
    config, ledger = study([*FEW, *SEVERAL]), new_ledger()
    status = final_status(run(config, ledger), config)
    front = pareto_front(ledger.trial_rows(), config.study.directions)
    assert [one["trial_number"] for one in status.front] == [row["trial_number"] for row in front]
    assert status.front[0]["values"] == [front[0][name] for name in ("value", "value_1", "value_2")]
    assert status.best == status.front[0]


def test_the_best_trial_meets_the_constraints() -> None:
    config = study(
        [*FEW, "study.constraints=[{metric='n_parameters',max=100},{metric='val_loss',min=0.5}]"]
    )
    ledger = new_ledger()
    status = final_status(run(config, ledger), config)
    rows = ledger.trial_rows()
    for row in rows:
        assert row["feasible"] is (row["n_parameters"] <= 100 and row["final_val_loss"] >= 0.5)
    kept = [row for row in rows if row["feasible"]]
    assert 0 < len(kept) < len(rows) == 16
    assert status.best["value"] == max(row["value"] for row in kept)
    assert status.feasible == len(kept)
    assert status.front == []


def test_the_best_trial_is_none_without_a_feasible_one() -> None:
    config = study([*FEW, "study.constraints=[{metric='val_loss',max=-1}]"])
    status = final_status(run(config, new_ledger()), config)
    assert (status.best, status.feasible) == (None, 0)


def test_samplers_learn_which_trials_violate_constraints() -> None:
    """Only the smallest networks satisfy it; without it few would be drawn."""
    tpe = "study.sampler={name='tpe',n_startup_trials=10}"
    bounded = "study.constraints=[{metric='n_parameters',max=24}]"
    many = ("study.n_trials=60", "schedule.parallel=4", tpe, "train.epochs=2")
    free, told = ended(many), ended((*many, bounded))
    small = [sum(row["params_width"] == 8 for row in rows[20:]) for rows in (free, told)]
    assert small[1] > 2 * small[0] + 10


class Clock:
    """Every look at it takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_a_study_ends_normally_when_its_time_is_spent() -> None:
    config = study([*FEW, "study.timeout=10s"])
    ledger = new_ledger()
    run(config, ledger, timer=Clock())
    rows = ledger.trial_rows()
    assert 5 <= len(rows) < 16
    cut = [row for row in rows if row["reason"] == "timeout"]
    assert {(row["state"], row["epochs_done"] < 8) for row in cut} == {("PRUNED", True)}
    assert all(row["value"] == row["final_val_accuracy"] for row in cut)
    assert {row["reason"] for row in rows} <= {"timeout", None}


def test_the_time_of_all_sessions_counts_and_can_be_extended() -> None:
    ledger = new_ledger()
    short = study([*FEW, "study.timeout=10s"])
    run(short, ledger, timer=Clock())
    ended_then = ledger.trial_rows()
    run(short, ledger, timer=Clock())
    assert ledger.trial_rows() == ended_then

    run(study([*FEW, "study.timeout=2h"]), ledger, timer=Clock())
    rows = ledger.trial_rows()
    assert len(rows) == 16
    assert rows[: len(ended_then)] == ended_then


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_changed_time_of_day_does_not_change_a_timeout(jump_s: float) -> None:
    config, days = study([*FEW, "study.timeout=10s"]), count(1e9, jump_s)
    steady, changed = new_ledger(), new_ledger()
    run(config, steady, timer=Clock(), clock=lambda: 1e9)
    run(config, changed, timer=Clock(), clock=lambda: next(days))
    assert contents(changed) == contents(steady)
    assert restore(changed, config).state.spent_s == restore(steady, config).state.spent_s >= 10


def test_a_negative_time_that_an_earlier_version_recorded_counts_as_0() -> None:
    config, ledger = study(FEW), new_ledger()
    run(config, ledger, timer=count(0.0, -100.0).__next__)
    assert restore(ledger, config).state.spent_s == 0


def test_the_rate_of_a_session_does_not_depend_on_the_time_of_day() -> None:
    config, ledger, now = study(FEW), new_ledger(), iter((5.0, 35.0))
    run(config, ledger)
    progress = SessionProgress(config, "test", 16, 1e9, 0, timer=now.__next__)
    status = progress.status(restore(ledger, config).state, 1e9 - 3600, "running")
    assert status.trials_per_minute == pytest.approx(2 * 16)


def test_the_time_of_the_last_commit_stays_after_a_restart() -> None:
    config, ledger = study(FEW), new_ledger()
    begun = SessionProgress(config, "test", 16, 0.0, 0)
    assert begun.status(restore(ledger, config).state, 1.0, "running").committed_at is None
    sweep = run(config, ledger, clock=count(1e9).__next__)
    ended_at = max(row["finished_at"] for row in ledger.trial_rows())
    for state in (sweep.state, restore(ledger, config).state):
        status = begun.status(state, ended_at + 7200, "finished")
        assert (status.committed_at, status.updated_at) == (ended_at, ended_at + 7200)


def test_only_a_study_that_its_timeout_ended_says_so() -> None:
    def ended(ledger: Ledger, timeout: str, *more: str) -> Status:
        config = study([*FEW, f"study.timeout={timeout}", *more])
        run(config, ledger, timer=Clock())
        state = restore(ledger, config).state
        return SessionProgress(config, "test", 16, 0.0, 0).status(state, 1.0, "finished")

    ledger = new_ledger()
    cut = ended(ledger, "10s")
    assert cut.timeout == "10s"
    assert "longer study.timeout to continue with new trials" in str(ended_by(cut))
    assert ended(ledger, "2h").timeout is None  # although earlier trials were cut short
    # killed after everything was done
    assert ended(ledger, "11s").timeout is None
    all_begun = ended(new_ledger(), "3s", "schedule.parallel=16")
    assert (all_begun.timeout, all_begun.counts["WAITING"]) == ("3s", 0)
    assert "no trials are left; use --fresh (in Python fresh=True) " in str(ended_by(all_begun))


def test_a_trial_that_ran_out_of_its_own_time_does_not_end_the_study() -> None:
    config, ledger = study([*FEW, "study.timeout=9h"]), new_ledger()
    state = run(config, ledger, killing=frozenset({15})).state
    failed = {**state.ended[15], "reason": "timeout"}  # as execution.trial_timeout does
    assert failed["state"] == "FAIL"
    state.ended.add({15: failed})
    status = SessionProgress(config, "test", 16, 0.0, 0).status(state, 1.0, "finished")
    assert ended_by(status) is None
    assert status.epochs is not None


def test_epochs_of_pruned_trials_that_could_have_stopped_early_are_not_known() -> None:
    config = study([*FEW, "study.n_trials=40", f"study.pruner={{{PRUNERS['median']}}}"])
    sweep = run(config, new_ledger())
    assert final_status(sweep, config).epochs["pruned"]
    stopping = study([*FEW, "study.n_trials=40", "train.early_stop={patience=3}"])
    assert final_status(sweep, stopping).epochs is None


@pytest.mark.parametrize("n_trials", [16, 17])
def test_a_sampler_has_ended_a_study_only_before_its_last_trial(n_trials: int) -> None:
    sweep = run(study(FEW), new_ledger())
    sweep.state.kept_with_study[STOPPED] = True
    config = study([*FEW, f"study.n_trials={n_trials}", "study.sampler={name='own:Sampler'}"])
    progress = SessionProgress(config, "test", n_trials, 0.0, 0)
    stopper = progress.status(sweep.state, 1.0, "finished").stopped_by
    assert stopper == ("own:Sampler" if n_trials == 17 else None)


@pytest.mark.parametrize("limit", ["1", "0.1"])
def test_too_many_failed_trials_end_the_study_normally(limit: str) -> None:
    config = study([*FEW, f"execution.max_failures={limit}"])
    ledger, failing = new_ledger(), frozenset({1, 3, 9})
    sweep = run(config, ledger, killing=failing)
    assert sweep.has_failed
    rows = ledger.trial_rows()
    assert [row["trial_number"] for row in rows if row["state"] == "FAIL"] == [1, 3]
    cut = [row for row in rows if row["reason"] == "max_failures"]
    assert cut
    assert {(row["state"], row["epochs_done"] < 8) for row in cut} == {("PRUNED", True)}
    state = restore(ledger, config).state
    status = SessionProgress(config, "test", 16, 0.0, 0).status(state, 1.0, "failed")
    told = ended_by(status)
    assert told is not None
    assert told.startswith(f"ended by execution.max_failures = {limit}: 2 trials failed; ")
    run(config, ledger, killing=failing)
    assert ledger.trial_rows() == rows

    larger = study([*FEW, "execution.max_failures=3"])
    assert not run(larger, ledger, killing=failing).has_failed
    assert [row["state"] for row in ledger.trial_rows()].count("FAIL") == 3
    state = restore(ledger, config).state
    status = SessionProgress(larger, "test", 16, 0.0, 0).status(state, 1.0, "finished")
    assert ended_by(status) is None


@pytest.mark.parametrize("share", [0.07, 0.14, 0.28, 0.29, 0.55, 0.57, 0.58])
def test_a_share_of_failed_trials_is_exact(share: float) -> None:
    config = study([f"execution.max_failures={share}", "study.n_trials=100"])
    assert max_failures(config) == round(100 * share)


@pytest.mark.parametrize("waiting", [0, 3])
@pytest.mark.parametrize(
    "limit", [{"timeout": "1s"}, {"max_failures": 0.1}, {"stop": {"value": 1.0}}], ids=str
)
def test_a_study_without_trials_left_has_to_start_over(limit: dict[str, Any], waiting: int) -> None:
    config, ledger = study(FEW), new_ledger()
    state = run(config, ledger).state
    status = SessionProgress(config, "test", 16, 0.0, 0).status(state, 1.0, "finished")
    told = ended_by(replace(status, counts={**status.counts, "WAITING": waiting}, **limit))
    assert told is not None
    assert ("--fresh" in told) is (waiting == 0)
    assert ("to continue with new trials" in told) is (waiting == 3)


def test_the_spent_time_is_in_the_ledger() -> None:
    ledger = new_ledger()
    run(study([*FEW, "study.timeout=10s"]), ledger, timer=Clock())
    *_, before, last = [closed.closing.spent_s for closed in ledger.closed_rounds()]
    assert before < 10 <= last
