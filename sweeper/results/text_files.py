"""Text files that commands write where the user says: whole, or not at all; and text in CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from sweeper.errors import Problem, SetupError, StudyError, printable

# what spreadsheets take for the beginning of a formula
_FORMULA = ("=", "+", "-", "@")


def csv_text(
    names: Sequence[str],
    rows: Iterable[Iterable[object]],
    *,
    quote_formulas: bool = False,
    kept: str = "",
) -> str:
    """A table in CSV, with control characters escaped, except those that are `kept`.

    With `quote_formulas`, text that a spreadsheet would run begins with an apostrophe.
    """

    def cell(value: object) -> object:
        if not isinstance(value, str):
            return value
        text = printable(value, kept)
        is_formula = text.lstrip().startswith(_FORMULA) and not _is_number(text)
        return f"'{text}" if quote_formulas and is_formula else text

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(cell, names))
    writer.writerows(map(cell, row) for row in rows)
    return text.getvalue()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def write_new(path: Path, text: str) -> None:
    """Write a file where there is none yet.

    Raises:
        StudyError: there is one.
        SetupError: it cannot be written.
    """
    try:
        _write(path, text, "x")
    except FileExistsError:
        hint = "name another with -o, or remove it"
        raise StudyError(Problem(str(path), "", "there is such a file already", hint)) from None


def write_over(path: Path, text: str) -> None:
    """Write a file, also over one that is there.

    Raises:
        SetupError: it cannot be written.
    """
    _write(path, text, "w")


def _write(path: Path, text: str, mode: Literal["x", "w"]) -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            try:
                file.write(text)
                file.flush()
            except BaseException:  # a full disk or a signal: nobody may take half a file for all
                if path.is_file():
                    path.unlink()
                raise
    except FileExistsError:
        raise
    except OSError as error:
        hint = "name a file that can be written with -o"
        raise SetupError(Problem(str(path), "", f"{error.strerror}", hint)) from error
