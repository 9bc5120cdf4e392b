"""The round machine: refill, pruning, retries, growth and crashes, with a simulated executor."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.round_machine import Crash, CrashingLedger, contents, new_ledger, run, study

# each with options that affect its state within this few trials
SAMPLERS = {
    "random": "name='random'",
    "tpe": "name='tpe',n_startup_trials=3",
    "grid": "name='grid'",
    "qmc": "name='qmc',scramble=true",
    "nsgaii": "name='nsgaii',population_size=3",
    "own": "name='tests.round_machine:Remembering',step=2",
    "cmaes": "name='cmaes',popsize=4",
}
PRUNERS = {
    "none": "name='none'",
    "median": "name='median',n_startup_trials=2",
    "percentile": "name='percentile',percentile=40.0,n_startup_trials=2",
    "halving": "name='halving',min_resource=1,reduction_factor=2",
    "asha": "name='asha'",
    "hyperband": "name='hyperband'",
    "patient": "name='patient',patience=1,wrapped={name='asha'}",
    "threshold": "name='threshold',lower=0.7,n_warmup_steps=2",
    "wilcoxon": "name='wilcoxon',p_threshold=0.5",
    "own": "name='tests.round_machine:Tossing',chance=0.3",
}
# what is searched for
GOALS = {
    "one": (),
    "several": (
        "study.metric=['val_accuracy','n_parameters','val_loss']",
        "study.direction=['maximize','minimize','maximize']",
    ),
    "bounded": (
        "study.constraints=[{metric='val_loss',max=0.98},{metric='n_parameters',max=100}]",
    ),
    "stopped": ("study.value=best", "study.stop={value=0.9}"),
}
CONDITIONAL = (
    "search.model.layer_norm={type='categorical',choices=[true,false]}",
    "search.model.dropout={type='float',low=0.1,high=0.3,step=0.1,or=[0.0],"
    "when={'model.layer_norm'=true,'model.depth'=[1,2]}}",
    "search.optimizer.eps={same_as='optimizer.lr'}",
)
QUEUE = "study.enqueue=[{depth=2},{'model.width'=8,lr=1e-3}]"

histories = st.fixed_dictionaries(
    {
        "n_trials": st.integers(1, 16),
        "grown_to": st.integers(0, 20),
        "parallel": st.integers(1, 8),
        "round_epochs": st.integers(1, 8),
        "sampler": st.sampled_from(sorted(SAMPLERS)),
        "pruner": st.sampled_from(sorted(PRUNERS)),
        "goal": st.sampled_from(sorted(GOALS)),
        "conditional": st.booleans(),
        "strategy": st.sampled_from(["auto", "exact", "padded", "process"]),
        "ahead_after": st.sampled_from([0, 4, 200]),
        "diverging": st.frozensets(st.integers(0, 15), max_size=4),
        "killing": st.frozensets(st.integers(0, 15), max_size=3),
        "crashes": st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=12),
    }
)


def overrides(history: dict, n_trials: int) -> list[str]:
    # a pruner judges one objective, and CMA-ES supports one
    goal = "bounded" if history["sampler"] == "cmaes" else history["goal"]
    pruner = "none" if goal == "several" else history["pruner"]
    space = ["search.optimizer.lr.log=false", "search.optimizer.lr.step=3.3e-3"]
    return [
        f"study.n_trials={n_trials}",
        f"schedule.parallel={history['parallel']}",
        f"schedule.round_epochs={history['round_epochs']}",
        f"study.sampler={{{SAMPLERS[history['sampler']]}}}",
        f"study.pruner={{{PRUNERS[pruner]}}}",
        *GOALS[goal],
        *(CONDITIONAL if history["conditional"] else ()),
        *([] if history["sampler"] == "grid" else [QUEUE]),
        f"execution.strategy={history['strategy']}",
        *(space if history["sampler"] == "grid" else []),
    ]


def crashed_gives_the_rows_of_unbroken(history: dict) -> None:
    faults = history["diverging"], history["killing"], history["ahead_after"]
    sizes = sorted({history["n_trials"], max(history["n_trials"], history["grown_to"])})
    studies = [study(overrides(history, size)) for size in sizes]

    unbroken = new_ledger()
    for config in studies:
        run(config, unbroken, *faults)

    broken = new_ledger()
    crashes = list(history["crashes"])
    for config in studies:
        while True:
            at, after = crashes.pop() if crashes else (0, False)
            try:
                run(config, CrashingLedger(broken, at, after), *faults)
                break
            except Crash:
                continue

    assert contents(broken) == contents(unbroken)


def histories_tried(count: int) -> settings:
    unhurried = [HealthCheck.too_slow]
    return settings(max_examples=count, derandomize=True, suppress_health_check=unhurried)


@given(histories)
@histories_tried(25)
def test_a_crash_at_any_ledger_call_changes_no_row(history: dict) -> None:
    crashed_gives_the_rows_of_unbroken(history)


@pytest.mark.slow
@pytest.mark.soak
@given(histories)
@histories_tried(600)
def test_no_crash_of_many_changes_a_row(history: dict) -> None:
    crashed_gives_the_rows_of_unbroken(history)


@given(histories)
@histories_tried(12)
def test_each_live_trial_is_in_exactly_one_bucket_per_round(history: dict) -> None:
    ledger = new_ledger()
    config = study(overrides(history, history["n_trials"]))
    run(config, ledger, history["diverging"], ahead_after=history["ahead_after"])

    live: set[int] = set()
    for closed in ledger.closed_rounds():
        infeasible = {n for n, row in closed.ended.items() if row["reason"] == "infeasible"}
        live |= {spec.number for spec in closed.specs} - infeasible
        lanes = Counter(
            lane["number"] for bucket in closed.plan["buckets"] for lane in bucket["lanes"]
        )
        assert lanes == Counter(live)
        live -= closed.ended.keys()
    assert not live


def test_only_the_trial_that_kills_its_worker_fails() -> None:
    ledger = new_ledger()
    run(study(["execution.strategy=exact"]), ledger, killing=frozenset({3}))

    states = {row["trial_number"]: (row["state"], row["reason"]) for row in ledger.trial_rows()}

    assert states.pop(3) == ("FAIL", "worker_died")
    assert set(states.values()) == {("COMPLETE", None)}


def test_a_diverged_trial_is_pruned_with_its_epoch() -> None:
    ledger = new_ledger()
    run(study(), ledger, diverging=frozenset({0}))

    row = ledger.trial_rows()[0]

    assert (row["state"], row["reason"], row["value"]) == ("PRUNED", "diverged", None)
    assert (row["diverged_epoch"], row["epochs_done"]) == (3, 3)


def test_proposals_are_drawn_ahead_once_enough_trials_have_ended() -> None:
    ledger = new_ledger()
    asked = ["study.n_trials=40", "schedule.parallel=4", "schedule.round_epochs=2"]
    run(study(asked), ledger, ahead_after=8)

    rows = ledger.trial_rows()
    lags = {row["trial_number"]: row["first_round"] - 1 - row["told_through_round"] for row in rows}

    assert {lags[number] for number in range(8)} == {0}
    assert max(lags.values()) >= 1
    # no proposal waits longer than a trial trains
    assert max(lags.values()) <= 4


def test_a_sampler_that_does_not_learn_draws_ahead_from_the_first_round() -> None:
    ledger = new_ledger()
    run(
        study(["study.sampler={name='random'}", "study.n_trials=12", "schedule.parallel=4"]), ledger
    )

    rows = ledger.trial_rows()
    told = {row["trial_number"]: row["told_through_round"] for row in rows}

    assert {told[number] for number in range(4)} == {0}
    assert all(row["told_through_round"] < row["first_round"] - 1 for row in rows[4:])
