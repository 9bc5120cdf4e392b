"""Study files to start from: complete TOML files in this directory, which `init` fills in."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.config.toml import Source, toml_value

if TYPE_CHECKING:
    from sweeper.data.guess import Guess

# rows of the training part, so that an epoch has some steps; and columns to drop by name
_STEPS, _LARGEST_BATCH = 8, 64
_MAX_REASONS = 20


class Template(StrEnum):
    """The available study files."""

    DIGITS = "digits"
    CSV = "csv"
    REGRESSION = "regression"


def study_text(template: Template, written_to: Path) -> str:
    """The study file of a template, to be written to `written_to`."""
    text = files("sweeper.cli.templates").joinpath(f"{template}.toml").read_text(encoding="utf-8")
    return text.replace("study.toml", written_to.name)


def filled_in(text: str, data: Path, guessed: Guess, written_to: Path) -> str:
    """A study file for the table `data`, named after it."""
    named = data.stem if data.exists() else str(data.with_suffix(""))
    name = re.sub(r"\W+", "-", named).strip("-") or "study"
    path = data if data.is_absolute() else Path(os.path.relpath(data, written_to.parent))
    batch = max(1, min(_LARGEST_BATCH, guessed.rows // 2 // _STEPS))
    for key, value in {
        "study.name": name,
        "data.source": guessed.source,
        "data.path": path.as_posix(),
        "data.target": guessed.target,
        "data.drop": list(guessed.drop),
        "data.impute": "median" if guessed.has_gaps else "none",
        "train.batch_size": batch,
    }.items():
        text = _with(text, key, value)
    settings = {**guessed.settings, **({"missing_target": "drop"} if guessed.is_left_out else {})}
    others = [f"{name} = {toml_value(value)}\n" for name, value in settings.items()]
    if guessed.words:
        names = ", ".join(f"'{name}'" for name in guessed.words)
        kept = f"missing_values = {toml_value([*guessed.missing_values])}"
        others.append(_comment(f"{kept}  # so that words such as NA in {names} stay text"))
    reasons = [_comment(f"'{name}' {why}") for name, why in guessed.drop.items()]
    lines = text.splitlines(keepends=True)
    path, drop = _line(text, "data.path"), _line(text, "data.drop") - 1
    between = lines[path:drop]
    return "".join([*lines[:path], *others, *between, *reasons[:_MAX_REASONS], *lines[drop:]])


def _comment(text: str) -> str:
    """A comment line, whatever characters the text contains."""
    return f"# {''.join(c if c.isprintable() else ' ' for c in text)}\n"


def _with(text: str, key: str, value: str | int | list[str]) -> str:
    """The file with a new value for a setting that has its own line."""
    lines, line = text.splitlines(keepends=True), _line(text, key)
    setting, _, old = lines[line - 1].partition("= ")
    comment = re.search(r' *#[^"]*$', old)
    said = f"{setting}= {toml_value(value)}"
    told = "" if comment is None else comment[0].strip()
    lines[line - 1] = f"{said:<34} {told}".rstrip() + "\n"
    return "".join(lines)


def _line(text: str, key: str) -> int:
    line = Source(Path(), text).line(key)
    assert line is not None, f"{key} is on a line of every template"
    return line
