"""Whether the code that a run directory names is this user's own, or comes from elsewhere.

Each session records the functions of its study with a digest of their source, signed with a key of
the user. Without such a signature, a run directory is treated as somebody else's: its code only
runs if it is verified in another way, or trusted.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.trust import TRUST, is_at_hand, is_known
from sweeper.config.user_source import (
    MAIN,
    OF_ANOTHER_MAIN,
    changed_names,
    is_of_another_main,
    source_digests,
)
from sweeper.errors import Problem, SetupError
from sweeper.rundir import RunDir
from sweeper.sweep.session import backup
from sweeper.user_dirs import state_root

_KEY_BYTES = 32
_NOT_YOURS = "no study that you have run here has used"


def sign(config: StudyConfig, start: str | None) -> dict[str, Any] | None:
    """The record by which a session's code is known as this user's own; None without a key.

    `start` is the digest of the saved model that trials start from.
    """
    key = _key()
    if key is None:
        return None
    claims = {
        "base_dir": str(config.base_dir),
        "functions": {name: source_digests(name, config.base_dir) for name in config.functions},
        "engine": _engine(config),
        "start": start,
    }
    return {"claims": claims, "mac": _mac(key, claims)}


def is_own_start(run_dir: RunDir, digest: str) -> bool:
    """Whether this user has run the study with the saved model of this digest."""
    return any(claims["start"] == digest for claims in _own_claims(backup.sessions(run_dir)))


def is_own(config: StudyConfig, run_dir: RunDir) -> bool:
    """Whether this user has run the study in `run_dir` with the study file of `config`."""
    own = _own_claims(backup.sessions(run_dir))
    return any(claims["base_dir"] == str(config.base_dir) for claims in own)


def refuse_foreign(config: StudyConfig, run_dir: RunDir) -> None:
    """Refuse functions and clusters named by a study from `run_dir` that are not the user's own.

    Raises:
        SetupError: with each of them and its key.
    """
    if problems := [*foreign(config, run_dir.root, backup.sessions(run_dir))]:
        raise SetupError(problems)


def foreign(
    config: StudyConfig, root: Path, sessions: Sequence[Mapping[str, Any]]
) -> Iterator[Problem]:
    """The functions named by a study in the run directory `root` that are not this user's own.

    `sessions` are those of its ledger, empty if that cannot be read.
    """
    own = [*_own_claims(sessions)]
    for function, key in config.function_keys:
        if is_of_another_main(function):
            found = f"names {function}, which is not defined in this program"
            yield Problem(str(root), key, found, OF_ANOTHER_MAIN)
            continue
        if is_known(function, config.base_dir):
            continue
        edits = [*_edits(config, function, own)]
        if not all(edits):  # the user has run the study with the current source
            continue
        if edits:
            changed = ", ".join(edits[0])
            found = f"names {function}, but {changed} has changed since you ran the study"
            yield Problem(str(root), key, found, f"restore it in {config.base_dir}")
        elif not _is_here(config, root, function, sessions):
            found = f"names {function}, which {_NOT_YOURS}"
            hint = f"run this in {config.base_dir} if you own the source there; otherwise, {TRUST}"
            yield Problem(str(root), key, found, hint)
    engine = _engine(config)
    if engine is not None and not any(claims["engine"] == engine for claims in own):
        found = f"names a cluster to train on, {engine['address']}, which {_NOT_YOURS}"
        yield Problem(str(root), "execution.engine", found, TRUST)


def _edits(
    config: StudyConfig, function: str, own: Sequence[Mapping[str, Any]]
) -> Iterator[list[str]]:
    """The files of a function that the user has edited since each time the study ran with it."""
    now = source_digests(function, config.base_dir)
    in_main = function.partition(":")[0] == MAIN
    for claims in own:
        before = claims["functions"].get(function)
        if before is not None and claims["base_dir"] == str(config.base_dir):
            yield changed_names(before, now, config.edition, in_main=in_main)


def _is_here(
    config: StudyConfig, root: Path, function: str, sessions: Sequence[Mapping[str, Any]]
) -> bool:
    """Whether the study file's directory is the current one, and has the recorded source."""
    here, root = Path.cwd().resolve(), root.resolve()
    if config.base_dir.resolve() != here or here.is_relative_to(root) or not sessions:
        return False
    recorded = {name: one for files in sessions[0]["code"].values() for name, one in files.items()}
    return is_at_hand(function, here, recorded)


def _engine(config: StudyConfig) -> dict[str, Any] | None:
    engine = config.execution.engine
    return None if engine is None else engine.model_dump(mode="json")


def _own_claims(sessions: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The claims of sessions that are signed with this user's key."""
    records = [record for record in (session.get("signed") for session in sessions) if record]
    key = _key(create=False) if records else None
    for record in records:
        with suppress(KeyError, TypeError, AttributeError):  # the ledger was tampered with
            if key and hmac.compare_digest(_mac(key, record["claims"]), record["mac"]):
                yield record["claims"]


def _mac(key: bytes, claims: Mapping[str, Any]) -> str:
    text = json.dumps(claims, sort_keys=True)
    return hmac.new(key, text.encode("utf-8", "backslashreplace"), hashlib.blake2b).hexdigest()


def _key(*, create: bool = True) -> bytes | None:
    """This user's key; None if it does not exist and cannot be created."""
    root = state_root()
    if root is None:
        return None
    path = root / "key"
    with suppress(OSError):
        if create and not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_key(path)
        key = path.read_bytes()
        return key if len(key) == _KEY_BYTES else None
    return None


def _make_key(path: Path) -> None:
    with suppress(FileExistsError):  # another process was faster
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, os.urandom(_KEY_BYTES))
        finally:
            os.close(file)
