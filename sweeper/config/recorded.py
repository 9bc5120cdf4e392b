"""Reads recorded JSON back into a study or a dataclass, each value with its declared type."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from sweeper.config.load import parse
from sweeper.config.study_config import StudyConfig
from sweeper.config.toml import toml_text


def study_of(settings: Mapping[str, Any], file: Path) -> StudyConfig:
    """The study that has these settings; it is in `file`."""
    return parse(study_text(settings), file)


def study_text(settings: Mapping[str, Any]) -> str:
    """The text of a study file with these settings."""
    settings = {"edition": 1, **settings}  # none was recorded while there was only one
    links = {setting: {"same_as": of} for setting, of in settings.get("same_as", {}).items()}
    search = {**settings["search"], **links}
    written = {k: v for k, v in settings.items() if k != "same_as"} | {"search": search}
    return toml_text(written)


Kind = TypeVar("Kind")


def of_json(kind: type[Kind], text: str) -> Kind:
    """The `kind` that `text` describes.

    Raises:
        ValueError: a value is missing or of another type; the message says where, leaving out keys
            that are JSON themselves.
    """
    try:
        return TypeAdapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    place = ".".join(str(one) for one in first["loc"] if "{" not in str(one))
    raise ValueError(f"{place}: {first['msg']}")
