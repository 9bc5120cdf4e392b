"""Checks the models that a run directory must contain, and says how to restore them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

from sweeper.config import StudyConfig
from sweeper.errors import SweeperError
from sweeper.programs.provenance import misfits, whose
from sweeper.programs.saved_file import read_saved
from sweeper.results.ranking import BestTrials, Row
from sweeper.rundir import RunDir
from sweeper.sweep.session.session import KEEPS_CANDIDATES
from sweeper.sweep.state import EndedTrials
from sweeper.sweep.verify.damage import Damage


@dataclass(frozen=True, slots=True)
class ExpectedModel:
    """The model of a member of the trial of `row`; `is_kept` if it must exist."""

    row: Row
    member: int
    is_kept: bool


def expected_models(
    run_dir: RunDir,
    config: StudyConfig,
    sessions: Sequence[Mapping[str, Any]],
    ended: EndedTrials,
    *,
    has_finished: bool,
) -> list[ExpectedModel]:
    """Every model that must be in a run directory, and those of candidates that exist."""
    kept = kept_trials(sessions, ended.values(), config, has_finished=has_finished)
    members = range(len(config.members))
    every = [(number, member) for number in sorted(ended.candidates_with({})) for member in members]
    return [
        ExpectedModel(ended[number], member, number in kept)
        for number, member in every
        if number in kept or run_dir.saved(number, member).exists()
    ]


def kept_trials(
    sessions: Sequence[Mapping[str, Any]],
    rows: Iterable[Row],
    config: StudyConfig,
    *,
    has_finished: bool,
) -> set[int]:
    """The finished trials whose weights the sessions have certainly kept.

    Each session kept those of the trials that might be among the best, as many as it was asked for,
    and removed the others; if the study finished, those of the best. Removed weights stay gone,
    even if more are asked for later. Sessions of earlier versions always kept those of the best
    only. Whether the study finished in an earlier session is not recorded.
    """
    rounds: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        rounds[row["run_id"]][row["last_round"]].append(row)
    asked = [_keeps(session, config) for session in sessions]
    best, kept = BestTrials(config.study.directions, max(asked, default=0)), set[int]()
    for session, most in zip(sessions, asked, strict=True):
        kept &= _numbers(best.rows()[:most])
        for _, new in sorted(rounds[session["run_id"]].items()):
            best.add(new)
            left = best.candidates(n=most) if session.get(KEEPS_CANDIDATES) else best.rows()[:most]
            kept = (kept | _numbers(new)) & _numbers(left)
    return kept & _numbers(best.rows()[: asked[-1]]) if has_finished else kept


def _keeps(session: Mapping[str, Any], config: StudyConfig) -> int:
    """How many trials' weights a session kept; a migrated one may not say."""
    return int(session["study"]["results"].get("keep_models", config.results.keep_models))


def _numbers(rows: Iterable[Row]) -> set[int]:
    return {row["trial_number"] for row in rows}


def damaged_model(
    run_dir: RunDir,
    config: StudyConfig,
    model: ExpectedModel,
    data_digest: str | None,
    trusted: bool,
) -> Iterator[Damage]:
    """The damage of a model's files; large files are read only if `trusted`."""
    number, member = model.row["trial_number"], model.member
    saved, weights = run_dir.saved(number, member), run_dir.model(number, member)
    hint = _hint(run_dir, config, number)

    def damage(name: str, found: str) -> Damage:
        return Damage(f"{run_dir.models.name}/{name}", found, hint)

    if model.is_kept:
        missing = (path for path in (saved, weights) if not path.exists())
        yield from (damage(path.name, "it is missing") for path in missing)
    if not saved.exists():
        return
    try:
        file = read_saved(saved, trusted=trusted)
    except SweeperError as error:
        yield damage(saved.name, error.problems[0].found)
        return
    for name, found in misfits(file, weights, whose(model.row, member, data_digest)):
        yield damage(name, found)


def _hint(run_dir: RunDir, config: StudyConfig, number: int) -> str:
    again = f"python -m sweeper trial {quote(str(run_dir.root))} {number}"
    there = f"{config.run_dir}-trial-{number}"
    return (
        "everything else of the study is fine; to restore the model: "
        f"{again}, and run the file that it writes, which puts it in {there}/models"
    )
