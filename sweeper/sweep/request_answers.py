"""Which requests a study grants, and its answers in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sweeper.config import StudyConfig
from sweeper.study.limits import n_proposals, outside, trial_numbers
from sweeper.sweep.requests import GRID_ONLY, Answer, EnqueueRequest, PendingRequest, StopRequest
from sweeper.sweep.state import SweepState
from sweeper.trial import Reason, Request


def grant_to_enqueue(
    requests: Iterable[EnqueueRequest], state: SweepState, config: StudyConfig, *, is_stopped: bool
) -> list[Request]:
    """The new requests for trials to propose that are granted, with the trials' numbers.

    Nothing is granted if the study is asked for all its trials without them, or if its own sampler
    or pruner has stopped it.
    """
    if _is_grid(config) or is_stopped:
        return []
    numbers = (number + 1 for number in state.enqueued)
    first = max(len(config.study.enqueue), state.n_asked, *numbers)
    new = [request for request in requests if request.key not in state.requests]
    free = range(first, n_proposals(config))
    return [
        Request(request.key, number, request.params)
        for number, request in zip(free, new, strict=False)
    ]


def grant_to_stop(
    requests: Iterable[StopRequest], ended: Mapping[int, Mapping[str, Any]]
) -> tuple[Request, ...]:
    """The requests to stop a trial that have ended one in this round."""
    return tuple(
        Request(request.key, request.number)
        for request in requests
        if request.number in ended and ended[request.number]["reason"] == Reason.STOPPED
    )


def answer_to_enqueue(
    request: EnqueueRequest, state: SweepState, config: StudyConfig, *, is_stopped: bool
) -> Answer:
    """The answer once the round is open for which requests were granted."""
    if (granted := state.requests.get(request.key)) is not None:
        return Answer(True, f"trial {granted.number} has these values")
    if _is_grid(config):
        return Answer(False, GRID_ONLY)
    if is_stopped:
        found = "your sampler or pruner has called study.stop"
        return Answer(False, f"{found}: no more trials are proposed")
    reason = f"all {n_proposals(config)} trials were proposed or enqueued already"
    hint = "ask again once the study has ended, and run it with a larger study.n_trials"
    return Answer(False, f"{reason}; {hint}")


def answer_to_stop(
    request: StopRequest,
    state: SweepState,
    ended: Mapping[int, Mapping[str, Any]],
    config: StudyConfig,
) -> Answer:
    """The answer once the round is closed in which these trials have ended."""
    number, numbers = request.number, trial_numbers(config)
    if request.key in state.requests:
        epochs = state.ended[number]["epochs_done"]
        return Answer(True, f"trial {number} is stopped after epoch {epochs}")
    if number in state.ended:
        row = state.ended[number]
        when = "in this round" if number in ended else "before"
        reason = f" ({row['reason']})" if row["reason"] else ""
        return Answer(False, f"trial {number} has ended {when} by itself: {row['state']}{reason}")
    if number in state.waiting or number in numbers:
        return Answer(False, f"trial {number} is not in training yet")
    return Answer(False, f"trial {number} does not exist: {outside(numbers)}")


def answer_at_end(request: PendingRequest, state: SweepState) -> Answer:
    """The answer to a request that is still there when the study has ended."""
    if request.key in state.requests:
        return Answer(True, "it was granted before the study ended")
    return Answer(False, "the study has ended")


def _is_grid(config: StudyConfig) -> bool:
    return config.study.sampler.name == "grid"
