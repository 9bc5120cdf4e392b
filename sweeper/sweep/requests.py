"""The inbox of a study: files that commands leave in its run directory, and its answers.

The process that runs the study takes a request at the next round boundary, records it in the ledger
and removes its file. A trial to propose is recorded when a round is opened, before trials are asked
for; a trial to stop when the round that trains it is closed. A file that is still there after a
crash is taken again, unless its request is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.config.search import SearchEntry
from sweeper.config.study import read_trial
from sweeper.errors import printable
from sweeper.files import open_inside, remove_inside, replacing
from sweeper.results.events import Observer, Warned
from sweeper.rundir import RunDir
from sweeper.trial import Scalar, fields_of

_ANSWER = ".answer.json"
_MAX_BYTES = 1_000_000
GRID_ONLY = "the grid proposes each of its points once, and nothing else"


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A request to stop the trial with this number, as its file has it."""

    key: str
    number: int
    waits: bool = True

    @property
    def body(self) -> dict[str, Any]:
        """The content of its file."""
        return {"stop": self.number, "waits": self.waits}


@dataclass(frozen=True, slots=True)
class EnqueueRequest:
    """A request to propose a trial with these parameters, by column, as its file has it."""

    key: str
    params: Mapping[str, Scalar]
    waits: bool = True

    @property
    def body(self) -> dict[str, Any]:
        """The content of its file."""
        return {"enqueue": dict(self.params), "waits": self.waits}


PendingRequest = StopRequest | EnqueueRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """What the study made of a request: whether it is granted, and what that means, in words."""

    is_granted: bool
    text: str


def answer_file(run_dir: RunDir, request: PendingRequest) -> Path:
    """Where the study writes its answer to a request."""
    return run_dir.requests / f"{request.key}{_ANSWER}"


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
        requests: list[PendingRequest] = []
        for path in self._files():
            if path.name.endswith(_ANSWER):
                continue
            try:
                requests.append(self._read(path))
            except OSError as error:
                self._report(f"the request {path.name} cannot be read: {error.strerror or error}")
            except ValueError as error:
                self._report(f"the request {path.name} is refused: {error}")
                self._remove(path)
        return requests

    def answer(self, request: PendingRequest, answer: Answer) -> None:
        """Answer a request once it is recorded, or refused."""
        assert self._run_dir is not None, "requests come from a run directory"
        match request:
            case StopRequest(number=number):
                what = f"to stop trial {number}"
            case EnqueueRequest():
                what = "for a trial"
        self._report(f"request {what}: {answer.text}", is_news=answer.is_granted)
        if request.waits:
            target = answer_file(self._run_dir, request)
            body = json.dumps(fields_of(answer))
            with suppress(OSError), replacing(target, self._run_dir.staging) as staged:
                staged.write_text(body, encoding="utf-8")
        self._remove(self._run_dir.requests / f"{request.key}.json")

    def _report(self, message: str, *, is_news: bool = False) -> None:
        self._observer(Warned(printable(message), is_news))

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
                return StopRequest(path.stem, number, waits)
            case {"enqueue": dict(table), "waits": bool(waits)}:
                params, flaws = read_trial(table, "", self._search)
                if flaws or not params:
                    reasons = [f"{flaw.key}: {flaw.found}" for flaw in flaws]
                    raise ValueError("; ".join(reasons) or "it has no values")
                return EnqueueRequest(path.stem, params, waits)
            case _:
                raise ValueError("it contains no known request")
