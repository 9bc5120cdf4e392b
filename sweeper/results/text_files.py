"""Writes files at paths that users choose, completely or not at all; and CSV text."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from sweeper.errors import Problem, SetupError, StudyError, printable

# suffixes of files that are neither CSV text nor written as Parquet
_OTHERS = (
    *(".tsv", ".pq", ".feather", ".arrow", ".orc", ".json", ".jsonl", ".ndjson"),
    *(".npz", ".npy", ".h5", ".hdf5", ".pkl", ".pickle", ".xlsx", ".xls", ".xlsm", ".ods"),
    *(".toml", ".yaml", ".yml", ".html", ".pdf", ".db", ".sqlite", ".eqx", ".safetensors"),
    *(".gz", ".bz2", ".xz", ".zip", ".zst", ".7z"),
)
# characters at which spreadsheets expect a formula to start
_FORMULA = ("=", "+", "-", "@")


def csv_text(
    names: Sequence[str],
    rows: Iterable[Iterable[object]],
    *,
    quote_formulas: bool = False,
    kept: str = "",
) -> str:
    """A table as CSV, with control characters escaped except those in `kept`.

    With `quote_formulas`, text that a spreadsheet would run gets an apostrophe in front.
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


def write_new(path: Path, content: str | bytes) -> None:
    """Write a file that must not exist yet.

    Raises:
        StudyError: it exists.
        SetupError: it cannot be written.
    """
    try:
        _write(path, content, "x", path)
    except FileExistsError:
        raise _existing(path) from None


def check_new_table(path: Path) -> None:
    """Check the path of a new CSV or Parquet file before the long work that produces it.

    Raises:
        StudyError: it exists, or its suffix is that of another format.
        SetupError: its directory does not exist.
    """
    if path.exists():
        raise _existing(path)
    suffix = path.suffix.lower()
    if suffix in _OTHERS:
        found, name = f"{suffix} files are not written, only CSV and Parquet", path.with_suffix("")
        if name.suffix.lower() in (".csv", ".parquet"):
            name = name.with_suffix("")
        raise StudyError(Problem(str(path), "", found, f"use {name}.csv or {name}.parquet"))
    if not path.parent.is_dir():
        found = f"the directory {path.parent} does not exist"
        raise SetupError(Problem(str(path), "", found, "create it, or choose another path with -o"))


def _existing(path: Path) -> StudyError:
    hint = "choose another name with -o, or remove it"
    return StudyError(Problem(str(path), "", "this file already exists", hint))


def refuse_other(path: Path, mark: str) -> None:
    """Refuse to replace a file without `mark`, which this command did not write.

    Raises:
        StudyError: there is such a file.
        SetupError: it cannot be read.
    """
    try:
        is_other = path.is_file() and mark not in path.read_text("utf-8", errors="replace")
    except OSError as error:
        found, hint = f"{error.strerror}", "choose another name with -o"
        raise SetupError(Problem(str(path), "", found, hint)) from error
    if is_other:
        found = "this file already exists, and this command did not write it"
        hint = "choose another name with -o, or remove it"
        raise StudyError(Problem(str(path), "", found, hint))


def write_over(path: Path, text: str) -> None:
    """Write a file, replacing an existing one: call `refuse_other` first.

    Raises:
        SetupError: it cannot be written.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():  # a device, such as /dev/stdout
        _write(path, text, "w", path)
        return
    staged = target.with_name(f"{target.name}.{os.getpid()}.part")
    _write(staged, text, "w", path)
    staged.replace(target)


def _write(path: Path, content: str | bytes, mode: Literal["x", "w"], named: Path) -> None:
    """Write a file that messages call `named`."""
    encoded = content if isinstance(content, bytes) else content.encode("utf-8")
    try:
        with path.open(f"{mode}b") as file:
            try:
                file.write(encoded)
                file.flush()
            except BaseException:  # after a full disk or a signal, no partial file may remain
                if path.is_file():
                    path.unlink()
                raise
    except FileExistsError:
        raise
    except OSError as error:
        hint = "choose a writable path with -o"
        raise SetupError(Problem(str(named), "", f"{error.strerror}", hint)) from error
