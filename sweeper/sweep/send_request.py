"""How commands send requests to a study, and wait for its answers."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence

from sweeper.config import StudyConfig
from sweeper.config.study import read_trial
from sweeper.config.table import Flaw
from sweeper.errors import Problem
from sweeper.files import remove_inside, replacing
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.sweep.requests import GRID_ONLY, Answer, PendingRequest, answer_file
from sweeper.trial import Scalar

_LOOKS_S = 0.1


def new_key() -> str:
    """A key for a new request; keys sort by the time that they were made."""
    return f"{time.time_ns():020d}-{secrets.token_hex(4)}"


def send(run_dir: RunDir, request: PendingRequest) -> None:
    """Write a request into a run directory.

    Raises:
        OSError: it cannot be written.
    """
    with replacing(run_dir.requests / f"{request.key}.json", run_dir.staging) as staged:
        staged.write_text(json.dumps(request.body), encoding="utf-8")


def wait_for_answer(run_dir: RunDir, request: PendingRequest, timeout_s: float) -> Answer | None:
    """The answer to a request; None if none came in time, or the study stopped running."""
    path = answer_file(run_dir, request)
    until = time.monotonic() + timeout_s
    while True:
        is_running = read_status(run_dir).is_running
        if path.is_file():
            answer = Answer(**json.loads(path.read_text(encoding="utf-8")))
            remove_inside(run_dir.root, path)
            return answer
        if not is_running or time.monotonic() > until:
            return None
        time.sleep(_LOOKS_S)


def read_values(
    config: StudyConfig, place: str, given: Sequence[tuple[str, object]]
) -> tuple[dict[str, Scalar], list[Problem]]:
    """The parameters of a trial to propose, by column, and what is wrong with the values given."""
    if config.study.sampler.name == "grid":
        hint = "use another sampler in a new study"
        return {}, [Problem(place, "study.sampler", GRID_ONLY, hint)]
    if not given:
        hint = "write --set KEY=VALUE for at least one searched setting"
        return {}, [Problem(place, "", "no value is given", hint)]
    table = dict(given)
    params, flaws = read_trial(table, "", config.search)
    names = [name for name, _ in given]
    flaws += [Flaw(name, "given twice", "remove one") for name in table if names.count(name) > 1]
    return params, [Problem(place, f"--set {flaw.key}", flaw.found, flaw.hint) for flaw in flaws]
