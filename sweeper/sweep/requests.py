"""Requests to a study: files that commands leave in its run directory, and its answers.

The process that runs the study takes a request at the next round boundary, records it in the ledger
and removes its file. A trial to propose is recorded when a round is opened, before trials are asked
for; a trial to stop when the round that trains it is closed. A file that is still there after a
crash is taken again, unless its request is recorded.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.search import SearchEntry
from sweeper.config.study import read_trial
from sweeper.config.table import Flaw
from sweeper.errors import Problem, printable
from sweeper.results.events import Observer, Warned
from sweeper.results.status import read_status
from sweeper.rundir import RunDir, open_inside, remove_inside, replacing
from sweeper.trial import Scalar

_ANSWER = ".answer.json"
_LOOKS_S = 0.1
_MAX_BYTES = 1_000_000
GRID_ONLY = "the grid proposes each of its points once, and nothing else"


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request as its file has it: to stop trial `stop`, or to propose one with `params`."""

    key: str
    stop: int | None
    params: Mapping[str, Scalar]
    waits: bool = True

    @property
    def body(self) -> dict[str, Any]:
        """The content of its file."""
        what = {"enqueue": dict(self.params)} if self.stop is None else {"stop": self.stop}
        return {**what, "waits": self.waits}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the study made of a request: whether it is granted, and what that means, in words."""

    is_granted: bool
    text: str


class Requests:
    """The requests of users to a running study; without a run directory, there are none.

    Every answer is also passed to `report`: as news if it grants the request.
    """

    def __init__(
        self,
        run_dir: RunDir | None = None,
        search: Mapping[str, SearchEntry] | None = None,
        report: Observer = lambda event: None,
    ) -> None:
        self._run_dir = run_dir
        self._search = search or {}
        self._observer = report

    def forget_answers(self) -> None:
        """Remove answers to commands that have not waited for them."""
        for path in self._files():
            if path.name.endswith(_ANSWER):
                self._remove(path)

    def pending(self) -> list[PendingRequest]:
        """The requests without an answer, oldest first; files that are not requests are removed.

        A file that this user may not read is left until the next round.
        """
        found: list[PendingRequest] = []
        for path in self._files():
            if path.name.endswith(_ANSWER):
                continue
            try:
                found.append(self._read(path))
            except OSError as error:
                self._report(f"the request {path.name} cannot be read: {error.strerror or error}")
            except ValueError as error:
                self._report(f"the request {path.name} is refused: {error}")
                self._remove(path)
        return found

    def answer(self, asked: PendingRequest, text: str, is_granted: bool) -> None:
        """Answer a request once it is recorded, or refused."""
        assert self._run_dir is not None, "requests come from a run directory"
        what = "for a trial" if asked.stop is None else f"to stop trial {asked.stop}"
        self._report(f"request {what}: {text}", is_news=is_granted)
        if asked.waits:
            target = self._run_dir.requests / f"{asked.key}{_ANSWER}"
            body = json.dumps({"is_granted": is_granted, "text": text})
            with suppress(OSError), replacing(target, self._run_dir.staging) as staged:
                staged.write_text(body, encoding="utf-8")
        self._remove(self._run_dir.requests / f"{asked.key}.json")

    def _report(self, said: str, *, is_news: bool = False) -> None:
        self._observer(Warned(printable(said), is_news))

    def _files(self) -> list[Path]:
        return [] if self._run_dir is None else self._run_dir.own_requests()

    def _remove(self, path: Path) -> None:
        assert self._run_dir is not None, "the file is in it"
        with suppress(OSError):  # a request that is still there is known by its key
            remove_inside(self._run_dir.root, path)

    def _read(self, path: Path) -> PendingRequest:
        """The request in a file.

        Raises:
            OSError: it cannot be read, or is a link.
            ValueError: it is not a request, or asks for values that are not in the search space.
        """
        assert self._run_dir is not None, "the file is in it"
        with open_inside(self._run_dir.root, path, "r", encoding="utf-8") as file:
            text = file.read(_MAX_BYTES)
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("it is not JSON") from None
        match body:
            case {"stop": int(number), "waits": bool(waits)} if type(number) is int and number >= 0:
                return PendingRequest(path.stem, number, {}, waits)
            case {"enqueue": dict(table), "waits": bool(waits)}:
                params, flaws = read_trial(table, "", self._search)
                if flaws or not params:
                    reasons = [f"{flaw.key}: {flaw.found}" for flaw in flaws]
                    raise ValueError("; ".join(reasons) or "it has no values")
                return PendingRequest(path.stem, None, params, waits)
            case _:
                raise ValueError("it contains no known request")


def new_request(stop: int | None, params: Mapping[str, Scalar], *, waits: bool) -> PendingRequest:
    """A request with a key of its own; keys sort by the time that they were made."""
    return PendingRequest(f"{time.time_ns():020d}-{secrets.token_hex(4)}", stop, params, waits)


def leave(run_dir: RunDir, asked: PendingRequest) -> None:
    """Write a request into a run directory.

    Raises:
        OSError: it cannot be written.
    """
    with replacing(run_dir.requests / f"{asked.key}.json", run_dir.staging) as staged:
        staged.write_text(json.dumps(asked.body), encoding="utf-8")


def wait(run_dir: RunDir, asked: PendingRequest, timeout_s: float) -> Answer | None:
    """The answer to a request; None if none came in time, or the study stopped running."""
    path = run_dir.requests / f"{asked.key}{_ANSWER}"
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


def values_asked(
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
    return params, [Problem(place, f"--set {one.key}", one.found, one.hint) for one in flaws]
