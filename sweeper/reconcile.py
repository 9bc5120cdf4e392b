"""Whether a study may go on under a study file that has changed since it began."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sweeper.config import StudyConfig
from sweeper.errors import Problem

# Where a class runs, what is kept, and when a study ends: no row depends on it without saying so.
_FREE = (
    "study.timeout",
    "execution.threads",
    "execution.workers",
    "execution.memory_fraction",
    "execution.retries",
    "execution.trial_timeout",
    "execution.max_failures",
    "execution.costs",
    "results.dir",
    "results.keep_models",
)
# How trials are asked, planned and cut into rounds: valid, but equal to an unbroken run up to here.
_BOUNDARY = (
    "study.n_trials",
    "schedule",
    "execution.strategy",
    "execution.lane_loop",
    # which trials share a program, and which of them fail
    "execution.memory_limit",
    # where the best epoch counts, a lane carries its optimizer's state after it
    "results.save_optimizer",
)


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs from the study's first file; None where it is absent."""

    key: str
    before: object
    now: object


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What stands in the way of going on, and what makes a session boundary."""

    refused: tuple[Change, ...]
    boundary: tuple[Change, ...]


def reconcile(before: Mapping[str, Any], now: Mapping[str, Any]) -> Reconciled:
    """Compare two studies, each as `StudyConfig.canonical` gives it."""
    refused: list[Change] = []
    boundary: list[Change] = []
    for change in _changes(before, now):
        if _is_free(change):
            continue
        (boundary if _below(change.key, _BOUNDARY) else refused).append(change)
    return Reconciled(tuple(refused), tuple(boundary))


def refusals(config: StudyConfig, changes: tuple[Change, ...]) -> list[Problem]:
    """What to write instead of each change that a study cannot go on with."""
    return [
        config.problem(
            change.key,
            f"was {change.before!r} when the study in {config.run_dir} began, now {change.now!r}",
            "put it back, or start over with --fresh, which moves the old directory aside",
        )
        for change in changes
    ]


def other_start(
    config: StudyConfig, began: Mapping[str, str] | None, now: Mapping[str, str] | None
) -> Iterator[Problem]:
    """That trials started from another saved model when the study began.

    Both have `path` and `digest` of it, None where weights are fresh.
    """
    if (None if began is None else began["digest"]) == (None if now is None else now["digest"]):
        return
    fresh = "start over with --fresh, which moves the old directory aside"
    if began is None:
        found, mend = "the study there began with fresh weights", "leave it out"
    elif now is None:
        found = f"its trials start from {began['path']}, and the copy of that is gone"
        mend = "name the file again"
    else:
        found = f"{now['path']} is not {began['path']} as it was when the study there began"
        mend = "leave it out to go on with the copy in the run directory"
    yield Problem(str(config.run_dir), "--continue-from", found, f"{mend}, or {fresh}")


def _is_free(change: Change) -> bool:
    if change.key == "study.n_trials":
        return int(str(change.now)) < int(str(change.before))
    return _below(change.key, _FREE)


def _below(key: str, tables: tuple[str, ...]) -> bool:
    return any(key == table or key.startswith(f"{table}.") for table in tables)


def _changes(before: Any, now: Any, key: str = "") -> Iterator[Change]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in [*before, *(name for name in now if name not in before)]:
            inner = f"{key}.{name}" if key else str(name)
            yield from _changes(before.get(name), now.get(name), inner)
    elif before != now:
        yield Change(key, before, now)
