"""Settings that a trial already has are drawn again."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.study.ask_tell import Past, PastTrial, Study
from sweeper.trial import TrialState
from tests.config.conftest import VALID

SPACE = (
    "search={model.depth={type='int',low=1,high=3},model.width={type='categorical',choices=[8,16,32]}}",
    "study.n_trials=12",
)


def study(sampler: str, *overrides: str, past: Past | None = None) -> Study:
    chosen = f"study.sampler={{name='{sampler}'}}"
    return Study(parse(VALID, Path("study.toml"), [*SPACE, chosen, *overrides]), past)


def settings(asked: Study, count: int) -> list[tuple[object, ...]]:
    return [tuple(spec.params.values()) for spec in asked.ask(count, 0)]


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_settings_are_drawn_once_while_others_are_left(sampler: str) -> None:
    found = settings(study(sampler), 12)
    assert len({*found[:7]}) == 7
    assert len({*settings(study(sampler, "edition=2"), 7)}) < 7, "edition 2 repeats some"
    assert len(found) == 12, "the space has 9 points"


def test_first_draws_are_those_of_earlier_editions() -> None:
    old, new = settings(study("random", "edition=2"), 3), settings(study("random"), 3)
    assert len({*old}) == 3, "choose a seed without an early repetition"
    assert new == old


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_a_resumed_study_draws_the_same(sampler: str) -> None:
    asked = study(sampler)
    first = asked.ask(5, 0)
    recorded = asked.take_recorded()
    past = [PastTrial(one, (), recorded.trials.get(one.number, {}), None, ()) for one in first]
    resumed = study(sampler, past=Past(past, recorded.study))
    assert resumed.ask(4, 0) == asked.ask(4, 0)


def test_queued_trials_may_repeat_others() -> None:
    queue = "study.enqueue=[{depth=1,width=8},{depth=1,width=8}]"
    asked = study("random", queue)
    first, second = asked.ask(2, 0)
    assert first.params == second.params
    asked.tell(0, TrialState.PRUNED, ())
