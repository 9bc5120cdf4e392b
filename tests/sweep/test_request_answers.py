"""Which requests a study grants, and what it answers."""

from __future__ import annotations

from pathlib import Path

from sweeper.config import parse
from sweeper.sweep.request_answers import (
    answer_to_enqueue,
    answer_to_stop,
    grant_to_enqueue,
    grant_to_stop,
)
from sweeper.sweep.requests import Answer, EnqueueRequest, StopRequest
from sweeper.sweep.state import EndedTrials, SweepState
from sweeper.trial import Request
from tests.command_line import STUDY

CONFIG = parse(STUDY, Path("study.toml"), ["study.n_trials=4"])
_CLASS = "{strategy='exact',lane_loop='map',capacity=4,epochs=4}"
_TRIAL = f"trial={{number=17,epochs=4,class={_CLASS}}}"
ALONE = parse(STUDY, Path("trial.toml"), ["study.n_trials=1", "search={}", _TRIAL])


def state_after(n_asked: int, *granted: Request) -> SweepState:
    """A study that was asked for so many trials, with these requests granted."""
    state = SweepState(EndedTrials(["minimize"], 1), n_asked=n_asked)
    state.requests = {request.key: request for request in granted}
    return state


def test_trials_to_propose_get_the_next_free_numbers_until_there_are_none() -> None:
    state = state_after(1, Request("a", 1, {"lr": 0.1}))
    asked = [EnqueueRequest(key, {"lr": 0.2}) for key in "abcd"]
    granted = grant_to_enqueue(asked, state, CONFIG, is_stopped=False)
    assert granted == [Request("b", 2, {"lr": 0.2}), Request("c", 3, {"lr": 0.2})]
    assert grant_to_enqueue(asked, state, CONFIG, is_stopped=True) == []
    answer = answer_to_enqueue(asked[0], state, CONFIG, is_stopped=False)
    assert answer == Answer(True, "trial 1 has these values")
    answer = answer_to_enqueue(asked[3], state, CONFIG, is_stopped=False)
    stopped = answer_to_enqueue(asked[3], state, CONFIG, is_stopped=True)
    assert stopped.text.startswith("your sampler or pruner has called study.stop")
    assert answer.text.startswith("all 4 trials were proposed or enqueued already; ask again")


def test_only_a_trial_that_the_request_has_stopped_counts_as_stopped() -> None:
    ended = {
        0: {"trial_number": 0, "state": "PRUNED", "reason": "stopped", "value": None},
        1: {"trial_number": 1, "state": "COMPLETE", "reason": None, "value": 0.5},
    }
    requests = [StopRequest(key, number) for key, number in (("a", 0), ("b", 1), ("c", 2))]
    assert grant_to_stop(requests, ended) == (Request("a", 0),)
    state = state_after(4)
    state.ended.add(ended)
    answers = [answer_to_stop(request, state, ended, CONFIG) for request in requests]
    assert answers[1:] == [
        Answer(False, "trial 1 has ended in this round by itself: COMPLETE"),
        Answer(False, "trial 2 is not in training yet"),
    ]
    texts = [
        answer_to_stop(StopRequest("d", number), state_after(1), {}, ALONE).text
        for number in (17, 0)
    ]
    assert texts == [
        "trial 17 is not in training yet",
        "trial 0 does not exist: the only trial is 17",
    ]
