"""Study files that the program writes: one to begin with, and one that runs a trial again."""

from __future__ import annotations

import json
from pathlib import Path

from sweeper.config.json_schema import study_schema
from sweeper.errors import DataError, Problem, SetupError, StudyError
from sweeper.templates import Template, filled_in, study_text

SCHEMA_FILE = "study.schema.json"


def begin(template: str | None, output: Path, data: Path | None) -> None:
    """Write a study file at `output`, of the table `data` where one is given.

    The schema that it names is written beside it, if there is none.

    Raises:
        StudyError: the file is there already, there is no such template, or it has no use for a
            table.
        DataError: the table cannot be read.
    """
    write_new(output, _begun(_template(template), output, data))
    if not output.with_name(SCHEMA_FILE).exists():
        text = json.dumps(study_schema(), indent=2) + "\n"
        write_new(output.with_name(SCHEMA_FILE), text)


def begin_again(run_dir: Path, number: int | None, output: Path) -> None:
    """Write a study file at `output` that runs trial `number` again; the best if None.

    Raises:
        SweeperError: as `trial_file`, or there is such a file already.
    """
    from sweeper.trial_file import trial_file

    write_new(output, trial_file(run_dir, number, output))


def _template(name: str | None) -> Template | None:
    if name is None or name in tuple(Template):
        return None if name is None else Template(name)
    mend = f"write one of {', '.join(Template)}"
    if Path(name).is_file():
        mend = f"write --data {name}"
    raise StudyError(Problem("", "", f"no study '{name}' to begin with", mend))


def _begun(template: Template | None, output: Path, data: Path | None) -> str:
    if data is None:
        return study_text(template or Template.DIGITS, output)
    if template is Template.DIGITS:
        found, mend = "a table for the study of the digits", "write csv or regression, or neither"
        raise StudyError(Problem("", "--data", found, mend))
    from sweeper.config import parse
    from sweeper.data.guess import guess
    from sweeper.data.sizes import part_sizes

    guessed = guess(data)
    chosen = template or (Template.CSV if guessed.is_classes else Template.REGRESSION)
    text = filled_in(study_text(chosen, output), data, guessed, output)
    sizes = part_sizes(parse(text, output), guessed.rows)
    if sizes.train < 1:
        found = f"{guessed.rows} rows, too few to train, to validate and to test on"
        raise DataError(Problem(str(data), "", found, "name a table of more rows"))
    in_proportion = guessed.rarest >= sizes.n_parts and guessed.values <= min(
        sizes.train, sizes.val, sizes.test
    )
    return text if in_proportion else text.replace("stratify = true", "stratify = false")


def write_new(path: Path, text: str) -> None:
    """Write a file where there is none yet.

    Raises:
        StudyError: there is one.
        SetupError: it cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        mend = "name another with -o, or remove it"
        raise StudyError(Problem(str(path), "", "there is such a file already", mend)) from None
    except OSError as error:
        mend = "name a file that can be written with -o"
        raise SetupError(Problem(str(path), "", f"{error.strerror}", mend)) from error
