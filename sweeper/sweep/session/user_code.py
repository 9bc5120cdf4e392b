"""The user code of a study: its digests, and what of it has changed since the study began."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.user_source import (
    MAIN,
    OF_ANOTHER_MAIN,
    changed_names,
    is_of_another_main,
    source_digests,
)
from sweeper.errors import StudyError


def code_digests(config: StudyConfig) -> dict[str, dict[str, str]]:
    """The digest of each file of user code, by the key that names a function in it."""
    code: dict[str, dict[str, str]] = {}
    for function, key in config.functions.items():
        code.setdefault(key, {}).update(source_digests(function, config.base_dir))
    return code


def changed_code(
    config: StudyConfig, began: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str]]:
    """The files of user code that have changed, by the key that names it."""
    for key, now in code_digests(config).items():
        before = began.get(key, {})
        if not before and all(name.startswith(f"{MAIN}.") for name in now):
            continue  # earlier versions recorded nothing about __main__
        in_main = any(name.startswith(f"{MAIN}.") for name in before)
        if changed := changed_names(before, now, config.edition, in_main=in_main):
            yield key, ", ".join(changed)


def only_proposes(key: str) -> bool:
    """Whether the code for this key only proposes and ends trials, whose past effects stay."""
    return key.startswith(("study.sampler.", "study.pruner."))


def refuse_edited(config: StudyConfig, sessions: Sequence[Mapping[str, Any]]) -> None:
    """Refuse to use a trained model with different source than it was trained with.

    Raises:
        StudyError: with the key and the files; code that only proposes trials may have changed.
    """
    edited = [] if not sessions else [*changed_code(config, sessions[0]["code"])]
    found = "has changed since the model was trained"
    absent = {key: name for name, key in config.functions.items() if is_of_another_main(name)}
    problems = [
        config.problem(key, f"{absent[key]} is not defined in this program", OF_ANOTHER_MAIN)
        if key in absent
        else config.problem(key, f"{files} {found}", "restore it, or train the study again")
        for key, files in edited
        if not only_proposes(key)
    ]
    if problems:
        raise StudyError(problems)
