"""Write study files: a first one from a table, and one that repeats a trial."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.cli.templates import Template, filled_in, study_text
from sweeper.config.json_schema import study_schema
from sweeper.errors import DataError, Problem, StudyError
from sweeper.results.text_files import write_new

if TYPE_CHECKING:
    from sweeper.data.guess import Guess

# how many omitted columns to explain one by one
_MAX_TOLD = 6
SCHEMA_FILE = "study.schema.json"


def begin(
    template: str | None, output: Path, data: Path | None, target: str | None = None
) -> tuple[str, ...]:
    """Write a study file to `output`, for the table `data` if given.

    It predicts `target`, or a guessed column if that is None. The schema that the file names is
    written next to it unless it exists. Returns messages about what was guessed.

    Raises:
        StudyError: the file already exists, the template is unknown, or it does not
        take a table or a target.
        DataError: the table cannot be read or has no such column.
    """
    text, told = _begun(_template(template), output, data, target)
    write_new(output, text)
    if not output.with_name(SCHEMA_FILE).exists():
        text = json.dumps(study_schema(), indent=2) + "\n"
        write_new(output.with_name(SCHEMA_FILE), text)
    return told


def begin_again(run_dir: Path, number: int | None, output: Path) -> None:
    """Write a study file to `output` that repeats trial `number`, or the best trial if None.

    Raises:
        SweeperError: as `trial_file`, or the file already exists.
    """
    from sweeper.export.trial_file import trial_file

    write_new(output, trial_file(run_dir, number, output))


def _template(name: str | None) -> Template | None:
    if name is None or name in tuple(Template):
        return None if name is None else Template(name)
    hint = f"use one of {', '.join(Template)}"
    if Path(name).is_file():
        hint = f"use --data {name}"
    raise StudyError(Problem("", "", f"unknown template '{name}'", hint))


def _begun(
    template: Template | None, output: Path, data: Path | None, target: str | None
) -> tuple[str, tuple[str, ...]]:
    """The text of the study file, and messages about it."""
    if data is None:
        if target is not None:
            raise StudyError(Problem("", "--target", "needs a table", "add --data FILE"))
        return study_text(template or Template.DIGITS, output), ()
    if template is Template.DIGITS:
        found, hint = "the digits study takes no table", "use csv or regression, or omit it"
        raise StudyError(Problem("", "--data", found, hint))
    from sweeper.config import parse
    from sweeper.data.guess import guess
    from sweeper.data.sizes import part_sizes

    guessed = guess(data, target)
    chosen = template or (Template.CSV if guessed.is_classes else Template.REGRESSION)
    if chosen is Template.REGRESSION and guessed.is_text:
        found = f"the target '{guessed.target}' is text, not numbers"
        hint = "use `init csv` to predict it as classes, or choose another column with --target"
        raise DataError(Problem(str(data), "", found, hint))
    text = filled_in(study_text(chosen, output), data, guessed, output)
    sizes = part_sizes(parse(text, output), guessed.rows)
    if sizes.train < 1:
        found = f"{guessed.rows} rows are too few to train, validate and test on"
        raise DataError(Problem(str(data), "", found, "use a table with more rows"))
    in_proportion = guessed.rarest >= sizes.n_parts and guessed.values <= min(
        sizes.train, sizes.val, sizes.test
    )
    if not in_proportion:
        text = text.replace("stratify = true", "stratify = false")
    told = _guessed(guessed, is_classes=chosen is Template.CSV)
    name = data.name if data.exists() else str(data)
    return text, tuple(f"{name}: {one}" for one in told)


def _guessed(guessed: Guess, *, is_classes: bool) -> Iterator[str]:
    """What the study makes of the table, and what it leaves out."""
    from sweeper.data.csv_reader import format_settings

    if guessed.settings:
        yield f"it is read with {format_settings(guessed.settings)}"
    kind = f"as {guessed.values} classes" if is_classes else "as numbers"
    other = "" if guessed.because == "as asked" else "; choose another with --target NAME"
    yield f"the target is '{guessed.target}', {guessed.because}, {kind}{other}"
    if is_classes and not guessed.is_classes:
        yield "it looks like a numeric target: use `init regression` to predict numbers"
    yield from guessed.words.values()
    if guessed.is_left_out:
        of = f"{guessed.gaps} of {guessed.rows + guessed.gaps}"
        yield f'{of} rows have no target and are left out: missing_target = "drop"'
    if guessed.stray:
        yield f"fix the target before you run the study: {guessed.stray}"
    for name, what in list(guessed.as_text.items())[:_MAX_TOLD]:
        values = "categories"
        if name == guessed.target:
            values = "classes" if is_classes else "numbers"
        yield f"'{name}' is taken as {values}, but it {what}"
    if len(guessed.as_text) > _MAX_TOLD:
        yield f"{len(guessed.as_text) - _MAX_TOLD} more columns hold numbers written as text"
    yield from guessed.hints[:_MAX_TOLD]
    if len(guessed.hints) > _MAX_TOLD:
        yield f"{len(guessed.hints) - _MAX_TOLD} more columns have hints: see `sweeper plan`"
    reasons = list(guessed.drop.items())
    for name, why in reasons[:_MAX_TOLD]:
        yield f"'{name}' is left out: it {why}"
    if others := reasons[_MAX_TOLD:]:
        yield f"{len(others)} more columns are left out for similar reasons, see data.drop"
    left = f"{guessed.features} {'column' if guessed.features == 1 else 'columns'}"
    filled = '; impute = "median" fills gaps in numbers' if guessed.has_gaps else ""
    yield f"{left} to learn from{filled}"
