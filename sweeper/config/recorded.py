"""Rebuilds a study from the settings recorded in a ledger or with published tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweeper.config.load import parse
from sweeper.config.study_config import StudyConfig
from sweeper.config.toml import toml_text


def study_of(settings: Mapping[str, Any], file: Path) -> StudyConfig:
    """The study with these settings; `file` is its study file."""
    return parse(study_text(settings), file)


def study_text(settings: Mapping[str, Any]) -> str:
    """A study file with these settings."""
    settings = {"edition": 1, **settings}  # not recorded while there was only one
    links = {setting: {"same_as": of} for setting, of in settings.get("same_as", {}).items()}
    search = {**settings["search"], **links}
    written = {k: v for k, v in settings.items() if k != "same_as"} | {"search": search}
    return toml_text(written)
