"""Whether a study may go on under a study file that has changed since it began."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sweeper.config import StudyConfig
from sweeper.config.data import FunctionTable
from sweeper.config.recorded import study_of
from sweeper.config.toml import toml_value
from sweeper.config.user_source import (
    MAIN,
    OF_ANOTHER_MAIN,
    changed_names,
    is_of_another_main,
    source_digests,
)
from sweeper.errors import Problem, StudyError, SweeperError

# Where a class runs, what is kept, and when a study ends: no row depends on it without saying so.
_FREE = (
    "study.timeout",
    "execution.threads",
    "execution.workers",
    "execution.devices",
    "execution.engine",
    "execution.memory_fraction",
    "execution.retries",
    "execution.trial_timeout",
    "execution.max_failures",
    "execution.grace",
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
# Tables whose entries stand in an order that rows depend on: samplers go through the space in it,
# and metrics are of the part that the first loss compares with the data.
_ORDERED = ("search", "train.losses")

_FRESH = "start over with --fresh, which moves the old directory aside"
_BACK = f"put it back, name another results.dir, or {_FRESH}"


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


def departures(began: Mapping[str, str], now: Mapping[str, str]) -> tuple[Change, ...]:
    """What of libraries, device and flags is not what it was when the study began.

    What was not recorded then is not told.
    """
    return tuple(
        Change(name, before or "absent", now[name] or "absent")
        for name, before in began.items()
        if name in now and now[name] != before
    )


def mark_of(sessions: Iterable[Mapping[str, Any]]) -> str | None:
    """What changed in any of the sessions, as rows are marked with it; None where nothing did.

    Rows after a change may differ for good, also where it was taken back: what a trial is told to
    try depends on those before it.
    """
    first: dict[str, int] = {}
    for number, session in enumerate(sessions, 1):
        for change in session["boundaries"]:
            told = f"{change['key']}: {change['before']} -> {change['now']}"
            first.setdefault(told, number)
    return "; ".join(f"{told} (session {number})" for told, number in first.items()) or None


def joined(
    config: StudyConfig,
    sessions: Sequence[Mapping[str, Any]],
    digest: str | None,
    start: Mapping[str, str] | None,
    *,
    asks_start: bool = True,
) -> tuple[Change, ...]:
    """The session boundaries of going on after these; none for a new study.

    `digest` is that of the data, None where nobody read them.

    Raises:
        StudyError: it cannot go on under this study file, these data or this start.
    """
    if not sessions:
        return ()
    began = sessions[0]
    found = reconcile(_as_of_now(config, began["study"]), config.canonical())
    problems = refusals(config, found.refused)
    code = dict(_changed_code(config, began["code"]))
    corrected = tuple(
        Change(key, f"{code[key]} as it was", "another") for key in code if _asks(key)
    )
    if not problems:
        problems = [_other(config, key, files) for key, files in code.items() if not _asks(key)]
    known = data_digest(sessions)
    if not problems and known is not None and digest not in (None, known):
        problems = [_other_data(config)]
    if not problems and asks_start:
        problems = [*other_start(config, began["continued_from"], start)]
    if problems:
        raise StudyError(problems)
    return (*found.boundary, *corrected)


def data_digest(sessions: Sequence[Mapping[str, Any]]) -> str | None:
    """The digest of a study's data; None where none of its sessions tells."""
    # one of a ledger that was migrated cannot be compared
    known = (past["data_digest"] for past in sessions if past["data_digest"] is not None)
    return next(known, None)


def xla_threads(sessions: Sequence[Mapping[str, Any]]) -> int | None:
    """How many threads XLA had when a study began; None where no session tells."""
    told = sessions[0].get("environment", {}).get("xla_threads") if sessions else None
    return int(told) if told else None


def refuse_edited(config: StudyConfig, sessions: Sequence[Mapping[str, Any]]) -> None:
    """Refuse to use a trained model with other source than that which it was trained with.

    Raises:
        StudyError: with the key and the files; code that only asks for trials may have changed.
    """
    edited = [] if not sessions else [*_changed_code(config, sessions[0]["code"])]
    found = "is not what it was when the model was trained"
    absent = {key: name for name, key in config.functions.items() if is_of_another_main(name)}
    problems = [
        config.problem(key, f"{absent[key]} is not defined in this program", OF_ANOTHER_MAIN)
        if key in absent
        else config.problem(key, f"{files} {found}", "put it back, or train the study again")
        for key, files in edited
        if not _asks(key)
    ]
    if problems:
        raise StudyError(problems)


def _asks(key: str) -> bool:
    """Whether code by this key only asks for trials and ends them: what it did stays as it is."""
    return key.startswith(("study.sampler.", "study.pruner."))


def _as_of_now(config: StudyConfig, began: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a study as this version writes them: those that it knew none of by default.

    Raises:
        StudyError: one of them means something else by now.
    """
    try:
        return study_of(began, config.source.path).canonical()
    except SweeperError as error:
        first = error.problems[0]
        found = f"the study in {config.run_dir} began with settings of another version of sweeper"
        hint = f"go on with that version, name another results.dir, or {_FRESH}"
        raise StudyError(config.problem(first.key, f"{found}: {first.found}", hint)) from error


def _changed_code(
    config: StudyConfig, began: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str]]:
    """The files of the user's own code that are not what they were, by the key that names it."""
    for key, now in code_of(config).items():
        before = began.get(key, {})
        if not before and all(name.startswith(f"{MAIN}.") for name in now):
            continue  # earlier versions recorded nothing of what stands in __main__
        in_main = any(name.startswith(f"{MAIN}.") for name in before)
        if changed := changed_names(before, now, config.edition, in_main=in_main):
            yield key, ", ".join(changed)


def _other(config: StudyConfig, key: str, what: str) -> Problem:
    found = f"{what} is not what it was when the study in {config.run_dir} began"
    return config.problem(key, found, _BACK)


def _other_data(config: StudyConfig) -> Problem:
    """That the rows are not those of the first session."""
    if not isinstance(config.data, FunctionTable):
        return _other(config, "data", "the data")
    found = (
        f"'{config.data.function}' does not return the rows that it returned when the study in "
        f"{config.run_dir} began"
    )
    fix = f"let it return those again, name another results.dir, or {_FRESH}"
    return config.problem("data.function", found, fix)


def code_of(config: StudyConfig) -> dict[str, dict[str, str]]:
    """A digest of each file of the user's own code, by the key that names a function of it."""
    code: dict[str, dict[str, str]] = {}
    for function, key in config.functions.items():
        code.setdefault(key, {}).update(source_digests(function, config.base_dir))
    return code


def format_setting(value: object) -> str:
    """The value of a setting as a study file has it, what it leaves open left out."""
    if isinstance(value, Mapping):
        given = cast("Mapping[str, object]", value)
        value = {key: each for key, each in given.items() if each not in (None, [])}
    return "not there" if value is None else toml_value(value)


def refusals(config: StudyConfig, changes: tuple[Change, ...]) -> list[Problem]:
    """What to write instead of each change that a study cannot go on with."""
    return [
        config.problem(
            change.key,
            f"was {format_setting(change.before)} when the study in {config.run_dir} began, "
            f"now {format_setting(change.now)}",
            _BACK,
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
    if began is None:
        found, hint = "the study there began with fresh weights", "leave it out"
    elif now is None:
        found = f"its trials start from {began['path']}, and the copy of that is gone"
        hint = "name the file again"
    else:
        found = f"{now['path']} is not {began['path']} as it was when the study there began"
        hint = "leave it out to go on with the copy in the run directory"
    yield Problem(
        str(config.run_dir),
        "--continue-from",
        found,
        f"{hint}, name another results.dir, or {_FRESH}",
    )


def _is_free(change: Change) -> bool:
    if change.key == "study.n_trials":
        return int(str(change.now)) < int(str(change.before))
    is_declared = change.key.startswith("model.") and change.key.endswith(".fixed_start")
    return is_declared or _below(change.key, _FREE)


def _below(key: str, tables: tuple[str, ...]) -> bool:
    return any(key == table or key.startswith(f"{table}.") for table in tables)


def _changes(before: Any, now: Any, key: str = "") -> Iterator[Change]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        if key in _ORDERED and before.keys() == now.keys() and [*before] != [*now]:
            yield Change(key, [*before], [*now])
        for name in [*before, *(name for name in now if name not in before)]:
            inner = f"{key}.{name}" if key else str(name)
            yield from _changes(before.get(name), now.get(name), inner)
    elif before != now:
        yield Change(key, before, now)
