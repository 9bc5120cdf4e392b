"""Study files that the program writes: one to begin with, and one that runs a trial again."""

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

# columns that are left out, of which it is said why
_MAX_TOLD = 6
SCHEMA_FILE = "study.schema.json"


def begin(
    template: str | None, output: Path, data: Path | None, target: str | None = None
) -> tuple[str, ...]:
    """Write a study file at `output`, of the table `data` where one is given.

    It predicts `target`; where that is None a column is guessed. The schema that the file names is
    written beside it, if there is none. What comes back says what was guessed.

    Raises:
        StudyError: the file is there already, there is no such template, or it has no use for a
            table, or for a target.
        DataError: the table cannot be read, or has no such column.
    """
    text, told = _begun(_template(template), output, data, target)
    write_new(output, text)
    if not output.with_name(SCHEMA_FILE).exists():
        text = json.dumps(study_schema(), indent=2) + "\n"
        write_new(output.with_name(SCHEMA_FILE), text)
    return told


def begin_again(run_dir: Path, number: int | None, output: Path) -> None:
    """Write a study file at `output` that runs trial `number` again; the best if None.

    Raises:
        SweeperError: as `trial_file`, or there is such a file already.
    """
    from sweeper.export.trial_file import trial_file

    write_new(output, trial_file(run_dir, number, output))


def _template(name: str | None) -> Template | None:
    if name is None or name in tuple(Template):
        return None if name is None else Template(name)
    hint = f"write one of {', '.join(Template)}"
    if Path(name).is_file():
        hint = f"write --data {name}"
    raise StudyError(Problem("", "", f"no study '{name}' to begin with", hint))


def _begun(
    template: Template | None, output: Path, data: Path | None, target: str | None
) -> tuple[str, tuple[str, ...]]:
    """The text of the study file, and what to say of it."""
    if data is None:
        if target is not None:
            raise StudyError(Problem("", "--target", "a column of no table", "write --data FILE"))
        return study_text(template or Template.DIGITS, output), ()
    if template is Template.DIGITS:
        found, hint = "a table for the study of the digits", "write csv or regression, or neither"
        raise StudyError(Problem("", "--data", found, hint))
    from sweeper.config import parse
    from sweeper.data.guess import guess
    from sweeper.data.sizes import part_sizes

    guessed = guess(data, target)
    chosen = template or (Template.CSV if guessed.is_classes else Template.REGRESSION)
    if chosen is Template.REGRESSION and guessed.is_text:
        found = f"the target '{guessed.target}' is text, and no numbers to predict"
        hint = "begin with `init csv`, for its classes, or name another with --target"
        raise DataError(Problem(str(data), "", found, hint))
    text = filled_in(study_text(chosen, output), data, guessed, output)
    sizes = part_sizes(parse(text, output), guessed.rows)
    if sizes.train < 1:
        found = f"{guessed.rows} rows, too few to train, to validate and to test on"
        raise DataError(Problem(str(data), "", found, "name a table of more rows"))
    in_proportion = guessed.rarest >= sizes.n_parts and guessed.values <= min(
        sizes.train, sizes.val, sizes.test
    )
    if not in_proportion:
        text = text.replace("stratify = true", "stratify = false")
    told = _guessed(guessed, is_classes=chosen is Template.CSV)
    name = data.name if data.exists() else str(data)
    return text, tuple(f"{name}: {one}" for one in told)


def _guessed(guessed: Guess, *, is_classes: bool) -> Iterator[str]:
    """What the study takes a table for, and what it leaves out of it."""
    from sweeper.data.csv_reader import settings_told

    if guessed.settings:
        yield f"it is read with {settings_told(guessed.settings)}"
    kind = f"as {guessed.values} classes" if is_classes else "as numbers"
    other = "" if guessed.because == "as asked" else "; --target NAME takes another"
    yield f"the target is '{guessed.target}', {guessed.because}, {kind}{other}"
    if is_classes and not guessed.is_classes:
        yield "it looks like numbers to predict: `init regression` writes a study of those"
    yield from guessed.words.values()
    if guessed.is_left_out:
        of = f"{guessed.gaps} of {guessed.rows + guessed.gaps}"
        yield f'{of} rows have no target and are left out: missing_target = "drop"'
    if guessed.stray:
        yield f"the target is to be fixed before the study can run: {guessed.stray}"
    for name, what in list(guessed.as_text.items())[:_MAX_TOLD]:
        values = "categories"
        if name == guessed.target:
            values = "classes" if is_classes else "numbers"
        yield f"'{name}' is taken as {values}, but it {what}"
    if len(guessed.as_text) > _MAX_TOLD:
        yield f"{len(guessed.as_text) - _MAX_TOLD} more columns hold numbers written as text"
    yield from guessed.hints[:_MAX_TOLD]
    if len(guessed.hints) > _MAX_TOLD:
        yield f"`sweeper plan` says more of {len(guessed.hints) - _MAX_TOLD} other columns"
    reasons = list(guessed.drop.items())
    for name, why in reasons[:_MAX_TOLD]:
        yield f"'{name}' is left out: it {why}"
    if others := reasons[_MAX_TOLD:]:
        yield f"{len(others)} more are left out in the same way, see data.drop"
    left = f"{guessed.features} {'column' if guessed.features == 1 else 'columns'}"
    filled = '; impute = "median" fills gaps in numbers' if guessed.has_gaps else ""
    yield f"{left} to learn from{filled}"
