"""When `study.stop` ends a study."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.errors import StudyError
from sweeper.sweep.stopping import rules_met
from sweeper.sweep.verdicts import Verdict
from sweeper.trial import Reason, TrialState
from tests import round_machine
from tests.config.conftest import VALID
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS


def stopped(stop: str, *values: float | None, direction: str = "maximize") -> bool:
    """Whether a study stops after trials with these values; None for one that was pruned."""
    study = parse(VALID, Path("study.toml"), [f"study.stop={stop}", f"study.direction={direction}"])
    rows = [
        {
            "last_round": 1 + number // 2,
            "trial_number": number,
            "state": "PRUNED" if value is None else "COMPLETE",
            "reason": "pruned" if value is None else None,
            "value": value,
        }
        for number, value in enumerate(values)
    ]
    # however the ledger orders them
    return bool(rules_met(study, reversed(rows)))


def test_a_study_ends_when_a_complete_trial_is_good_enough() -> None:
    assert not stopped("{ value = 0.9 }", 0.5, None, 0.89)
    assert stopped("{ value = 0.9 }", 0.5, 0.9, 0.1)
    assert stopped("{ value = 0.3 }", 0.5, 0.3, direction="minimize")
    assert not stopped("{ value = 0.3 }", 0.5, 0.4, direction="minimize")


def test_a_study_ends_when_trials_no_longer_improve() -> None:
    assert not stopped("{ patience = 3 }", 0.5, 0.4, None)
    assert stopped("{ patience = 3 }", 0.5, 0.4, None, 0.5)
    assert not stopped("{ patience = 3 }", 0.5, 0.4, None, 0.6)
    assert not stopped("{ patience = 3 }", None, None, None, None)


def test_verdicts_of_the_round_count_and_infeasible_trials_do_not() -> None:
    study = parse(VALID, Path("study.toml"), ["study.stop={value=0.9}", "study.direction=maximize"])
    good = Verdict(TrialState.COMPLETE, None, (0.95,))
    assert rules_met(study, (), [good])
    assert not rules_met(study, (), [Verdict(TrialState.PRUNED, Reason.PRUNED, (0.95,))])
    assert not rules_met(study, (), [Verdict(TrialState.COMPLETE, None, (0.95,), {"0": 1.0})])


def test_trials_that_were_not_trained_use_up_no_patience() -> None:
    study = parse(VALID, Path("study.toml"), ["study.stop={patience=2}"])
    best = Verdict(TrialState.COMPLETE, None, (0.5,))
    idle = Verdict(TrialState.PRUNED, Reason.PRUNED, ())
    untrained = Verdict(TrialState.PRUNED, Reason.INFEASIBLE, ())
    assert not rules_met(study, (), [best, untrained, untrained, idle])
    assert rules_met(study, (), [best, idle, untrained, idle])
    row = {"trial_number": 1, "last_round": 1, "state": "PRUNED", "value": None}
    rows = [row | {"reason": reason} for reason in ("infeasible", "pruned")]
    first = {"trial_number": 0, "last_round": 1, "state": "COMPLETE", "value": 0.5, "reason": None}
    assert not rules_met(study, [first, *rows], ())


@pytest.mark.parametrize("reason", ["timeout", "max_failures", "stopped"])
def test_trials_that_were_cut_off_use_up_no_patience_since_edition_4(reason: Reason) -> None:
    study = parse(VALID, Path("study.toml"), ["study.stop={patience=2}"])
    best = Verdict(TrialState.COMPLETE, None, (0.5,))
    cut, failed = (Verdict(state, Reason(reason)) for state in (TrialState.PRUNED, TrialState.FAIL))
    row = {"last_round": 1, "state": "PRUNED", "value": 0.7, "reason": reason}
    rows = [row | {"trial_number": number} for number in (1, 2)]
    first = {"trial_number": 0, "last_round": 1, "state": "COMPLETE", "value": 0.5, "reason": None}
    assert not rules_met(study, [first, *rows], [cut, cut])
    assert rules_met(study.with_edition(3), [first, *rows]) == ("patience",)
    assert rules_met(study, [first, *rows], [failed, cut, failed]) == ("patience",)
    assert rules_met(study, (), [best, cut, failed, failed]) == ("patience",)


def test_a_study_that_ran_out_of_time_goes_on_with_more_of_it() -> None:
    rules = ["study.stop={patience=8}", "study.sampler={name='random'}", "study.n_trials=32"]
    rules += ["schedule.parallel=8", "schedule.round_epochs=4"]
    ledger = round_machine.new_ledger()
    short = round_machine.study([*rules, "study.timeout=10s"])
    ended = round_machine.run(short, ledger, timer=count(1.0, 4.0).__next__).state.ended
    assert ended.counts == {"COMPLETE": 8, "PRUNED": 8}
    assert (
        len(round_machine.run(round_machine.study(rules).with_edition(3), ledger).state.ended) == 16
    )
    ended = round_machine.run(round_machine.study(rules), ledger).state.ended
    assert ended.counts["COMPLETE"] > 8


def test_only_the_rule_that_ends_a_study_is_named() -> None:
    study = parse(VALID, Path("study.toml"), ["study.stop={value=0.1, patience=2}"])
    best = Verdict(TrialState.COMPLETE, None, (0.5,))
    assert rules_met(study, (), [best, best]) == ()
    assert rules_met(study, (), [best, best, best]) == ("patience",)
    good = Verdict(TrialState.COMPLETE, None, (0.05,))
    assert rules_met(study, (), [best, good]) == ("value",)


@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        (["study.stop={}"], "stop: without a rule"),
        (["study.stop={patience=0}"], "stop.patience"),
        (
            [
                "study.stop={value=1}",
                "study.metric=['val_loss','n_parameters']",
                "study.direction=['minimize','minimize']",
            ],
            "stop: with 2 objectives",
        ),
    ],
)
def test_rules_that_cannot_stop_are_refused(overrides: list[str], match: str) -> None:
    with pytest.raises(StudyError, match=match):
        parse(VALID, Path("study.toml"), overrides)


# a trial's own number of epochs leaves the compiled program as it is
GOOD = (
    *("study.metric=val_accuracy", "study.direction=maximize", "study.value=best"),
    *("study.n_trials=4", "schedule={parallel=2,round_epochs=4}", "optimizer.lr=3e-2"),
    *("model.depth=1", "train.epochs=9", "search={}"),
    "search.train.epochs={type='int',low=1,high=9}",
)


def of_length(epochs: int) -> str:
    """The setting that gives each of the first two trials so many epochs."""
    return f"study.enqueue=[{{epochs={epochs}}},{{epochs={epochs}}}]"


@pytest.mark.parametrize("saves", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_a_trial_in_training_may_be_good_enough(tmp_path: Path, saves: str) -> None:
    saving = f"results.save_optimizer={saves}"
    longer = (of_length(9), "study.stop={value=0.2}", saving)
    found = trained(study_in(tmp_path / "stopped", DIGITS, *GOOD, *longer))
    rows = found.trials()
    assert rows["state"].tolist() == ["COMPLETE", "COMPLETE"]
    assert rows["reason"].tolist() == ["stopped", "stopped"]
    assert rows["epochs_done"].tolist() == [4, 4]
    best = rows.iloc[0]
    curve = found.metrics().query("trial_number == 0 and metric == 'val_accuracy'")["value"]
    assert best["value"] == curve.max()

    until = (of_length(best["best_epoch"]), "study.n_trials=2", saving)
    again = trained(study_in(tmp_path / "again", DIGITS, *GOOD, *until)).trials().iloc[0]
    assert again["test_accuracy"] == best["test_accuracy"]
    models = [tmp_path / name / "run" / best["model_path"] for name in ("stopped", "again")]
    assert models[0].read_bytes() == models[1].read_bytes()


def test_without_the_best_epoch_only_complete_trials_are_good_enough(tmp_path: Path) -> None:
    last = ("study.value=last", of_length(8), "study.stop={value=0.2}")
    rows = trained(study_in(tmp_path, DIGITS, *GOOD, *last)).trials()
    assert rows["epochs_done"].tolist() == [8, 8]
