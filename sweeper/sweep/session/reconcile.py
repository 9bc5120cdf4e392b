"""Whether a study may resume with a study file that has changed since it began."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, cast

from sweeper.config import StudyConfig
from sweeper.config.data import FunctionTable
from sweeper.config.load import study_of
from sweeper.config.toml import toml_value
from sweeper.errors import FRESH, Problem, StudyError, SweeperError, listed
from sweeper.process import installed_versions
from sweeper.rundir import RunDir
from sweeper.scheduler.signature import short_hash
from sweeper.sweep.session.user_code import changed_code, only_proposes

# Where a class runs, what is kept and when a study ends: no row depends on these silently.
_FREE = (
    "study.timeout",
    "study.stop",
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
    "results.ensemble",
)
LANE_LOOP = "execution.lane_loop"
# How trials are asked, planned and cut into rounds: valid, but rows may differ from here on.
_BOUNDARY = (
    "study.n_trials",
    "schedule",
    "execution.strategy",
    LANE_LOOP,  # of new classes
    # which trials share a program, and which of them fail
    "execution.memory_limit",
    # if the best epoch counts, a lane carries its optimizer state after it
    "results.save_optimizer",
)
# Packages that read, split and scale the data.
_READERS = ("pandas", "numpy", "scikit-learn", "scipy")
# Tables in which the order of entries matters for rows: samplers go through the space in order, and
# metrics are of the part that the first loss compares with the data.
_ORDERED = ("search", "train.losses")

# A study that differs in these can learn from the trials of another.
_LEARNT_ACROSS = ("search", "study.sampler", "study.pruner", "train.metrics")

# the device that earlier versions recorded for every ARM processor, which does not say which one
_UNKNOWN_CPU = f"cpu ({short_hash('')})"
_FRESH = f"start over with {FRESH}, which moves the old directory aside"
_ELSEWHERE = "change study.name (or results.dir if it is set)"
_BACK = f"restore it, {_ELSEWHERE}, or {_FRESH}"


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs from the study's first file; None if it is absent."""

    key: str
    before: object
    now: object


@dataclass(frozen=True, slots=True)
class StartModel:
    """The saved model that all trials start from."""

    path: str
    digest: str


@dataclass(frozen=True, slots=True)
class InitialWeights:
    """Digests of initial weights that no key changes, and the environment they were built in."""

    digests: Mapping[str, str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The changes that prevent a resume, and those that make a session boundary."""

    refused: tuple[Change, ...]
    boundary: tuple[Change, ...]


def reconcile(before: Mapping[str, Any], now: Mapping[str, Any]) -> Reconciled:
    """Compare two studies, each in the form of `StudyConfig.canonical`."""
    refused: list[Change] = []
    boundary: list[Change] = []
    for change in _changes(before, now):
        if _is_free(change):
            continue
        (boundary if _below(change.key, _BOUNDARY) else refused).append(change)
    return Reconciled(tuple(refused), tuple(boundary))


def environment_changes(began: Mapping[str, str], now: Mapping[str, str]) -> tuple[Change, ...]:
    """Which libraries, device and flags differ from when the study began.

    Anything not recorded at that time is left out.
    """
    return tuple(
        Change(name, before or "absent", now[name] or "absent")
        for name, before in began.items()
        if name in now and now[name] != before and before != _UNKNOWN_CPU
    )


def describe_changes(sessions: Iterable[Mapping[str, Any]]) -> str | None:
    """What changed in any session, as rows are marked with it; None if nothing did.

    Rows after a change may differ permanently, even if it was reverted: proposals depend on earlier
    trials.
    """
    first: dict[str, int] = {}
    for number, session in enumerate(sessions, 1):
        for change in session["boundaries"]:
            description = f"{change['key']}: {change['before']} -> {change['now']}"
            first.setdefault(description, number)
    return (
        "; ".join(f"{description} (session {number})" for description, number in first.items())
        or None
    )


def check_resume(
    config: StudyConfig,
    sessions: Sequence[Mapping[str, Any]],
    digest: str | None,
    start: StartModel | None,
    *,
    asks_start: bool = True,
    weights: InitialWeights | None = None,
) -> tuple[Change, ...]:
    """The session boundaries if the study resumes after these sessions; none for a new study.

    `digest` is that of the data, None if it was not read; `weights` is the result of
    `preflight.fixed_start`, None if no model was built.

    Raises:
        StudyError: it cannot resume with this study file, data, initial weights or start model.
    """
    if not sessions:
        return ()
    began = sessions[0]
    changes = reconcile(_as_of_now(config, began["study"]), config.canonical())
    code = dict(changed_code(config, began["code"]))

    def problems_by_kind() -> Iterator[list[Problem]]:
        """The problems of each kind; one is checked only if those before it found none."""
        refused = (one for one in changes.refused if not _is_moved_rows(config.run_dir, one))
        yield refusals(config, tuple(refused))
        yield [_other(config, key, files) for key, files in code.items() if not only_proposes(key)]
        known = data_digest(sessions)
        if known is not None and digest not in (None, known):
            yield [_other_data(config, began)]
        if weights is not None:
            yield [*_other_weights(config, began.get("fixed_start"), weights)]
        if asks_start:
            yield [*_other_start(config, began["continued_from"], start)]

    if problems := next(filter(None, problems_by_kind()), []):
        raise StudyError(problems)
    corrected = tuple(
        Change(key, f"{code[key]} as it was", "another") for key in code if only_proposes(key)
    )
    return (*changes.boundary, *corrected)


def data_digest(sessions: Sequence[Mapping[str, Any]]) -> str | None:
    """The digest of a study's data; None if no session recorded one."""
    # that of a migrated ledger cannot be compared
    known = (past["data_digest"] for past in sessions if past["data_digest"] is not None)
    return next(known, None)


def xla_threads(sessions: Sequence[Mapping[str, Any]]) -> int | None:
    """The number of XLA threads when a study began; None if no session recorded it."""
    threads = sessions[0].get("environment", {}).get("xla_threads") if sessions else None
    return int(threads) if threads else None


def _as_of_now(config: StudyConfig, began: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a study as this version writes them, with defaults for new ones.

    Raises:
        StudyError: one of them has a different meaning now.
    """
    try:
        return study_of(began, config.source.path).canonical()
    except SweeperError as error:
        first = error.problems[0]
        found = f"the study in {config.run_dir} began with settings of another version of sweeper"
        hint = f"use that version, {_ELSEWHERE}, or {_FRESH}"
        raise StudyError(config.problem(first.key, f"{found}: {first.found}", hint)) from error


def _other(config: StudyConfig, key: str, what: str) -> Problem:
    found = f"{what} has changed since the study in {config.run_dir} began"
    return config.problem(key, found, _BACK)


def _other_data(config: StudyConfig, began: Mapping[str, Any]) -> Problem:
    """The problem that the rows are not those of the first session, `began`."""
    if readers := [*_other_readers(began)]:
        before, now = (listed([one[side] for one in readers]) for side in (0, 1))
        found = f"the data is read differently with {now} than with {before}, or has changed"
        fix = f"install {before}, restore the data, {_ELSEWHERE}, or {_FRESH}"
        return config.problem("data", found, fix)
    if not isinstance(config.data, FunctionTable):
        return _other(config, "data", "the data")
    found = (
        f"'{config.data.function}' does not return the same rows as when the study in "
        f"{config.run_dir} began"
    )
    fix = f"make it return the same rows, {_ELSEWHERE}, or {_FRESH}"
    return config.problem("data.function", found, fix)


def _other_weights(
    config: StudyConfig, began: Mapping[str, Any] | None, now: InitialWeights
) -> Iterator[Problem]:
    """Builders whose weights that no key changes are not those of the first session.

    Earlier versions recorded none, and those of other libraries or another device may differ.
    """
    if began is None or began["environment"] != now.environment:
        return
    names = {key: name for name, key in config.functions.items()}
    for place, digest in now.digests.items():
        if began["digests"].get(place, digest) != digest:
            key = place.partition(" ")[0]
            found = (
                f"'{names.get(key, key)}' returns other initial weights than when "
                f"the study in {config.run_dir} began, from the same code: a file that it reads "
                "has changed"
            )
            yield config.problem(key, found, _BACK)
            return


def _other_readers(began: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The packages that prepare data and have changed: as the first session had them, and now."""
    recorded = began.get("environment", began.get("versions", {}))
    for package, version in installed_versions(_READERS).items():
        if recorded.get(package, version) not in ("", version):
            yield f"{package}=={recorded[package]}", f"{package}=={version}"


def format_setting(value: object) -> str:
    """The value of a setting as in a study file, without unset entries."""
    if isinstance(value, Mapping):
        given = cast("Mapping[str, object]", value)
        value = {key: each for key, each in given.items() if each not in (None, [])}
    return "not set" if value is None else toml_value(value)


def refusals(config: StudyConfig, changes: tuple[Change, ...]) -> list[Problem]:
    """What to write instead of each change that prevents a resume."""
    # it may have been given on the command line, which a user forgets more easily than a file
    place = "" if config.source.place else " in the file or with --set"

    def problem_of(change: Change) -> Problem:
        found = (
            f"was {format_setting(change.before)} when the study in {config.run_dir} began, "
            f"now {format_setting(change.now)}"
        )
        restore = f"restore it{place}"
        if config.follows_from_rows(change.key):
            found += "; it is not set and follows from the rows, which may be others"
            restore = "pass the same rows and settings"
        return config.problem(
            change.key, found, f"{restore}, {_elsewhere(config, change.key)}, or {_FRESH}"
        )

    return [*map(problem_of, changes)]


def _elsewhere(config: StudyConfig, key: str) -> str:
    """How to keep the study as it is and run the changed one, too, which may learn from it."""
    if not (config.study.sampler.learns and _below(key, _LEARNT_ACROSS)):
        return _ELSEWHERE
    learn = f"--learn-from {quote(str(config.run_dir))} (in Python learn_from=)"
    return f"{_ELSEWHERE} and learn from these trials with {learn}"


def _other_start(
    config: StudyConfig, began: Mapping[str, str] | None, now: StartModel | None
) -> Iterator[Problem]:
    """The problem that trials started from another saved model when the study began.

    `began` is what the first session recorded; either is None for fresh weights.
    """
    if (None if began is None else began["digest"]) == (None if now is None else now.digest):
        return
    if began is None:
        found, hint = "the study there began with fresh weights", "omit it"
    elif now is None:
        found = f"its trials start from {began['path']}, but the copy of it is missing"
        hint = "give the file again"
    else:
        found = f"{now.path} differs from {began['path']}, with which the study there began"
        hint = "omit it to resume with the copy in the run directory"
    yield Problem(
        str(config.run_dir),
        "--continue-from (in Python continue_from)",
        found,
        f"{hint}, {_ELSEWHERE}, or {_FRESH}",
    )


def _is_free(change: Change) -> bool:
    if change.key == "study.n_trials":
        return int(str(change.now)) < int(str(change.before))
    is_declared = change.key.startswith("model.") and change.key.endswith(".fixed_start")
    return is_declared or _below(change.key, _FREE)


def _is_moved_rows(run_dir: Path, change: Change) -> bool:
    """Whether only the directory has moved that holds the rows of a study in memory.

    Trials of that study are trained again in `run_dir`, which is below it. The digest of the data
    tells whether the rows are the same.
    """
    if change.key != "data.path" or not isinstance(change.before, str):
        return False
    places = [RunDir(parent).rows for parent in run_dir.absolute().parents]
    return Path(str(change.now)) in places and Path(change.before).name == places[0].name


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
