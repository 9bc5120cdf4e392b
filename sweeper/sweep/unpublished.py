"""Reports whether published tables or status lag behind the ledger, without verifying either.

They lag while a study runs, and after it was killed: rows are committed before they are published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from sweeper.errors import FRESH
from sweeper.results.status import find_status, is_published
from sweeper.rundir import RunDir

if TYPE_CHECKING:
    from sweeper.study.learning import Learned


def describe_unpublished(run_dir: RunDir) -> str | None:
    """What is not published of a study, and how to publish it; None if nothing or if it runs."""
    if is_published(run_dir) or _is_running(run_dir):
        return None
    # most studies ended normally: commands that read little start sooner without these
    from sweeper.ledger import count_committed
    from sweeper.results.light import readable
    from sweeper.results.publish import last_round

    what = "tables are"
    committed = count_committed(run_dir.ledger)
    if committed is None:
        return None
    table = readable(run_dir.trials, ("trial_number",))
    rows, rounds = 0 if table is None else len(table), last_round(run_dir.own_parts()) or 0
    if rows < committed.trials:
        lacks = f"{run_dir.trials.name} has {rows} of {committed.trials} finished trials"
    elif rounds < committed.rounds:
        lacks = f"{run_dir.metrics.name}/ has the curves of {rounds} of {committed.rounds} rounds"
    elif (round_ := _round(run_dir)) < committed.rounds:
        what, lacks = (
            "status is",
            f"{run_dir.status.name} is of round {round_} of {committed.rounds}",
        )
    else:
        return None
    publish = f"python -m sweeper verify {quote(str(run_dir.root))} --repair"
    return f"the {what} behind the ledger: {lacks}; publish the rest with: {publish}"


def learning_gaps(
    learned: Learned, place_of: Callable[[Path], Path] = lambda path: path
) -> Iterator[str]:
    """Which earlier studies have trials that a new one does not learn from, and what to do.

    `place_of` says where the directory of an earlier study is now, if it was moved aside.
    """
    from sweeper.ledger import count_committed

    for source in learned.sources:
        if "://" in source.name:
            continue
        place = place_of(Path(source.name))
        run_dir, again = RunDir(place), f"then start over with {FRESH}"
        if str(place) != source.name:
            again += f" and --learn-from {quote(str(place))} (in Python learn_from=)"
        if is_published(run_dir):
            continue
        if _is_running(run_dir):
            yield (
                f"{place} is still running, and what it trains later is not learnt, not even "
                f"after a resume: wait until it has ended, {again}"
            )
            continue
        committed = count_committed(run_dir.ledger)
        if committed is not None and source.n_seen < committed.trials:
            yield (
                f"{place} was killed before all its trials were published: only "
                f"{source.n_seen} of {committed.trials} can be learnt from; publish the rest with "
                f"python -m sweeper verify {quote(str(place))} --repair, {again}"
            )


def _round(run_dir: RunDir) -> float:
    """The round of the status; if it cannot be read, other messages say so."""
    status = find_status(run_dir)
    return inf if status is None else status.round


def _is_running(run_dir: RunDir) -> bool:
    """Whether it runs, as far as is known."""
    status = find_status(run_dir)
    if status is not None:
        return status.is_running
    from sweeper.ledger import is_held

    return is_held(run_dir.ledger)  # a study that is starting has no status yet
