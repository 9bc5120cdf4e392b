"""The models in a directory that holds an exported ensemble."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.errors import Problem, SetupError
from sweeper.files import read_json

ENSEMBLE_FILE = "ensemble.json"
MEMBERS = "members"
_NAME = re.compile(r"trial-\d+(-\d+)?")
_HINT = "export it again"


@dataclass(frozen=True, slots=True)
class SavedMember:
    """An exported model of an ensemble, counted `count` times; `digest` is that of its model."""

    path: Path
    count: int
    digest: str


def members_in(directory: Path) -> tuple[SavedMember, ...]:
    """The models of the ensemble in a directory; empty if it holds none.

    Raises:
        SetupError: the list of them is damaged.
    """
    file = directory / ENSEMBLE_FILE
    if not file.is_file() or (directory / "ledger.db").exists():
        return ()
    try:
        found = (*_members(directory, read_json(file)),)
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = f"it cannot be read ({type(error).__name__})"
        raise SetupError(Problem(str(file), "", reason, _HINT)) from None
    if not found:
        raise SetupError(Problem(str(file), "", "it names no models", _HINT))
    return found


def first_model(directory: Path) -> Path:
    """The exported model in a directory, or the first one of an ensemble."""
    members = members_in(directory)
    return members[0].path if members else directory


def exported_directory(file: Path) -> Path:
    """The directory that was exported with the model in `file`: that of its ensemble, if any."""
    directory = file.parent.resolve()
    ensemble = directory.parent.parent
    is_member = directory.parent.name == MEMBERS and (ensemble / ENSEMBLE_FILE).is_file()
    return ensemble if is_member else directory


def _members(directory: Path, body: Any) -> Iterator[SavedMember]:
    for one in body["members"]:
        name, count = one["name"], one["count"]
        if not _NAME.fullmatch(name) or not isinstance(count, int) or not 1 <= count <= 1000:
            raise ValueError(name)
        path = directory / MEMBERS / name
        if path.is_symlink() or path.parent.is_symlink():
            hint = "put the directory itself there"
            raise SetupError(Problem(str(path), "", "a link, which is not followed", hint))
        yield SavedMember(path, count, str(one["digest"]))
