"""Write study files: a first one from a table, and one that repeats a trial."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.config.json_schema import study_schema
from sweeper.config.toml import Source, toml_value
from sweeper.errors import DataError, Problem, StudyError, counted
from sweeper.results.text_files import write_new
from sweeper.templates.advice import Effort, Line, advice, budget, is_imbalanced
from sweeper.templates.completed import template_text

if TYPE_CHECKING:
    from sweeper.data.guess import Guess
    from sweeper.data.sizes import SplitSizes

# how many omitted columns to explain one by one
_MAX_SHOWN = 6
SCHEMA_FILE = "study.schema.json"
_MAX_REASONS = 20  # columns to drop by name
_LONGEST_NAME = 100
STUDY_FILE = "study.toml"  # where `init` writes by default
_ARCHITECTURES = re.compile(r"\d+ MLPs of \d+ architectures")


class Template(StrEnum):
    """The study files to start from: complete TOML files in `templates`, which `init` fills in."""

    DIGITS = "digits"
    CSV = "csv"
    REGRESSION = "regression"


_KINDS = {Template.CSV: "classes", Template.REGRESSION: "numbers"}


def begin(
    template: str | None,
    output: Path,
    data: Path | None,
    target: str | None = None,
    effort: Effort = Effort.NORMAL,
) -> tuple[str, ...]:
    """Write a study file to `output`, for the table `data` if given.

    It predicts `target`, or a guessed column if that is None, and searches with this `effort`. The
    schema that the file names is written next to it unless it exists. Returns messages about what
    was guessed.

    Raises:
        StudyError: the file already exists, the template is unknown, or it does not
        take a table or a target.
        DataError: the table cannot be read or has no such column.
    """
    text, messages = _study_text_and_messages(_template(template), output, data, target, effort)
    write_new(output, text)
    if not output.with_name(SCHEMA_FILE).exists():
        text = json.dumps(study_schema(), indent=2) + "\n"
        write_new(output.with_name(SCHEMA_FILE), text)
    return messages


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


def _study_text_and_messages(
    template: Template | None, output: Path, data: Path | None, target: str | None, effort: Effort
) -> tuple[str, tuple[str, ...]]:
    """The text of the study file, and messages about it."""
    if data is None:
        if target is not None:
            raise StudyError(Problem("", "--target", "needs a table", "add --data FILE"))
        text = study_text(template or Template.DIGITS, output)
        return (text if effort is Effort.NORMAL else _with_lines(text, budget(effort))), ()
    if template is Template.DIGITS:
        found, hint = "the digits study takes no table", "use csv or regression, or omit it"
        raise StudyError(Problem("", "--data", found, hint))
    from sweeper.config import parse
    from sweeper.data.guess import guess
    from sweeper.data.sizes import split_sizes

    guessed = guess(data, target)
    chosen = template or (Template.CSV if guessed.is_classes else Template.REGRESSION)
    if chosen is Template.REGRESSION and guessed.is_text:
        raise DataError(_text_target(data, guessed))
    text = table_study_text(chosen, data, guessed, output, effort)
    sizes = split_sizes(parse(text, output), guessed.rows)
    if sizes.train < 1:
        found = f"{guessed.rows} rows are too few to train, validate and test on"
        raise DataError(Problem(str(data), "", found, "use a table with more rows"))
    not_stratified = ""
    if not guessed.has_each_class_in(sizes) and chosen is Template.CSV:
        text = text.replace("stratify = true", "stratify = false")
        not_stratified = _why_not_stratified(guessed, sizes)
    other_way = _other_way(chosen, data, guessed, output)
    messages = _describe_guess(guessed, chosen, other_way, not_stratified)
    name = data.name if data.exists() else str(data)
    return text, tuple(f"{name}: {one}" for one in messages)


def _text_target(data: Path, guessed: Guess) -> Problem:
    """The problem of a target of text that is to be predicted as numbers."""
    if guessed.as_numbers:
        return Problem(str(data), "", f"the target '{guessed.target}' {guessed.as_numbers}", "")
    found = f"the target '{guessed.target}' is text, not numbers"
    hint = "use `init csv` to predict it as classes, or choose another column with --target"
    return Problem(str(data), "", found, hint)


def _other_way(chosen: Template, data: Path, guessed: Guess, output: Path) -> str:
    """The command for a study that takes the target the other way: as numbers, or as classes."""
    other = Template.REGRESSION if chosen is Template.CSV else Template.CSV
    file = output.with_stem(f"{output.stem}-{_KINDS[other]}")
    command = ["sweeper", "init", other, "--data", data, "--target", guessed.target, "-o", file]
    return shlex.join(map(str, command))


def _why_not_stratified(guessed: Guess, sizes: SplitSizes) -> str:
    """Why the parts of the split cannot have the same classes, and what follows."""
    if guessed.rarest >= sizes.n_splits:
        least = counted(sizes.smallest, "row")
        return f"{guessed.values} classes do not fit into the {least} of a part: not stratified"
    rows = counted(guessed.rarest, "row")
    found = f"class '{guessed.rarest_value}' has {rows}, too few for each part of the split"
    judged = ", and judged by accuracy instead of auroc" if is_imbalanced(guessed) else ""
    return f"{found}: not stratified{judged}; add rows, or merge classes, and use init again"


def _describe_guess(
    guessed: Guess, chosen: Template, other_way: str, not_stratified: str
) -> Iterator[str]:
    """What the study makes of the table, and what it leaves out.

    `other_way` is the command for a study that takes the target the other way, `not_stratified`
    says why rows are not split by class, if they are not.
    """
    from sweeper.data.csv_file import format_settings

    if guessed.settings:
        yield f"it is read with {format_settings(guessed.settings)}"
    yield from _describe_target(guessed, chosen, other_way)
    if not_stratified and not guessed.as_numbers:
        yield not_stratified
    yield from guessed.words.values()
    if guessed.is_left_out:
        of = f"{guessed.gaps} of {guessed.rows + guessed.gaps}"
        yield f'{of} rows have no target and are left out: missing_target = "drop"'
    if guessed.stray:
        yield f"fix the target before you run the study: {guessed.stray}"
    yield from _describe_columns(guessed, chosen)


def _describe_target(guessed: Guess, chosen: Template, other_way: str) -> Iterator[str]:
    """The target, how it was found, and whether it may be meant the other way."""
    is_classes = chosen is Template.CSV
    kind = f"as {guessed.values} classes" if is_classes else "as numbers"
    other = "" if guessed.because == "as asked" else "; choose another with --target NAME"
    yield f"the target is '{guessed.target}', {guessed.because}, {kind}{other}"
    if guessed.codes and is_classes:
        yield f"its values are {guessed.codes}: to predict them as numbers, use `{other_way}`"
    elif guessed.codes:
        yield f"its values are {guessed.codes}: to predict them as classes, use `{other_way}`"
    elif is_classes and not guessed.is_classes:
        yield f"it looks like a numeric target: to predict numbers, use `{other_way}`"


def _describe_columns(guessed: Guess, chosen: Template) -> Iterator[str]:
    """What is doubtful about columns, which are left out, and how many are left."""
    for name, what in list(guessed.as_text.items())[:_MAX_SHOWN]:
        values = "categories"
        if name == guessed.target:
            values = "classes" if chosen is Template.CSV else "numbers"
        yield f"'{name}' is taken as {values}, but it {what}"
    if len(guessed.as_text) > _MAX_SHOWN:
        yield f"{len(guessed.as_text) - _MAX_SHOWN} more columns hold numbers written as text"
    yield from guessed.hints[:_MAX_SHOWN]
    if len(guessed.hints) > _MAX_SHOWN:
        yield f"{len(guessed.hints) - _MAX_SHOWN} more columns have hints: see `sweeper plan`"
    yield from _describe_roles(guessed)
    reasons = list(guessed.drop.items())
    for name, why in reasons[:_MAX_SHOWN]:
        yield f"'{name}' is left out: it {why}"
    if others := reasons[_MAX_SHOWN:]:
        yield f"{len(others)} more columns are left out for similar reasons, see data.drop"
    left = f"{guessed.features} {'column' if guessed.features == 1 else 'columns'}"
    yield f'{left} to learn from; impute = "median" fills gaps in numbers'


def _describe_roles(guessed: Guess) -> Iterator[str]:
    """Columns that are features, but may be meant to split or weigh the rows."""
    if guessed.time:
        yield (
            f"rows are split at random; if they are a series in time, test on the latest: "
            f"{_split_by_time(guessed.time)} instead of split in [data]"
        )
    if guessed.split_column:
        name = guessed.split_column
        setting = f"{_split_by_column(name)} instead of split in [data]"
        yield f"'{name}' is a feature; if it says how to split the rows, write {setting}"
    if guessed.weight:
        setting = f"weight = {toml_value(guessed.weight)} in [data]"
        yield f"'{guessed.weight}' is a feature; if it says how much a row counts, write {setting}"


def _split_by_time(name: str) -> str:
    """The setting that validates and tests on the latest rows."""
    return f"split = {{ val = 0.2, test = 0.1, time = {toml_value(name)} }}"


def _split_by_column(name: str) -> str:
    """The setting that splits the rows as a column says."""
    return f"split = {{ column = {toml_value(name)} }}"


def study_text(template: Template, written_to: Path) -> str:
    """The study file of a template, to be written to `written_to`.

    It is named after its file, if that has a name of its own: two files are two studies, each with
    its own run directory.
    """
    text = template_text(template)
    if written_to.name == STUDY_FILE:
        return text
    return _with_lines(
        text.replace(STUDY_FILE, written_to.name), [Line("study.name", _name([written_to.stem]))]
    )


def _study_name(template: Template, data: Path, guessed: Guess) -> str:
    """The name of a study of the table `data`, with what the user chose to predict."""
    parts = [data.stem if data.exists() else str(data.with_suffix(""))]
    if guessed.because == "as asked":
        parts.append(guessed.target)
    if guessed.is_classes is not (template is Template.CSV):
        parts.append(_KINDS[template])
    return _name(parts)


def _is_plain(character: str) -> bool:
    """Whether the pattern of `study.name` has a character; it lacks some of Python's, such as ²."""
    return character.isalpha() or character.isdecimal() or character == "_"


def _name(parts: Iterable[str]) -> str:
    """A name that a study and its directory may have, from these texts."""
    plain = ("".join(c if _is_plain(c) else "-" for c in part) for part in parts)
    words = (re.sub(r"-+", "-", part).strip("-_") for part in plain)
    return "-".join(filter(None, words))[:_LONGEST_NAME].rstrip("-") or "study"


def table_study_text(
    template: Template,
    data: Path,
    guessed: Guess,
    written_to: Path,
    effort: Effort = Effort.NORMAL,
) -> str:
    """A study file for the table `data`, named after it."""
    text = study_text(template, written_to)
    path = data if data.is_absolute() else Path(os.path.relpath(data, written_to.parent))
    suggested = {
        line.key: line for line in advice(guessed, effort, is_classes=template is Template.CSV)
    }
    weights = suggested.pop("data.class_weights", None)
    is_named = written_to.name != STUDY_FILE
    names = [] if is_named else [Line("study.name", _study_name(template, data, guessed))]
    text = _with_lines(
        text,
        [
            *names,
            Line("data.source", guessed.source),
            Line("data.path", path.as_posix()),
            Line("data.target", guessed.target),
            Line("data.drop", list(guessed.drop)),
            *suggested.values(),
        ],
    )
    others = _further_lines(guessed, weights)
    reasons = [_comment(f"'{name}' {why}") for name, why in guessed.drop.items()]
    lines = text.splitlines(keepends=True)
    if guessed.time:
        by_time = _comment(f"{_split_by_time(guessed.time)}  # instead, for a series in time")
        lines.insert(_line(text, "data.split"), by_time)
    if guessed.split_column:
        setting = _split_by_column(guessed.split_column)
        by_column = _comment(f"{setting}  # instead, if it says how to split")
        lines.insert(_line(text, "data.split"), by_column)
    path, drop = _line(text, "data.path"), _line(text, "data.drop") - 1
    between = lines[path:drop]
    return "".join([*lines[:path], *others, *between, *reasons[:_MAX_REASONS], *lines[drop:]])


def _further_lines(guessed: Guess, weights: Line | None) -> Iterator[str]:
    """Settings of `[data]` that the template lacks, some of them as comments."""
    settings = {**guessed.settings, **({"missing_target": "drop"} if guessed.is_left_out else {})}
    for name, value in settings.items():
        yield f"{name} = {toml_value(value)}\n"
    if weights is not None:
        yield _setting("class_weights ", weights.value, weights.why)
    if guessed.words:
        names = ", ".join(f"'{name}'" for name in guessed.words)
        kept = f"missing_values = {toml_value([*guessed.missing_values])}"
        yield _comment(f"{kept}  # so that words such as NA in {names} stay text")
    if guessed.weight:
        setting = f"weight = {toml_value(guessed.weight)}"
        yield _comment(f"{setting}  # if it says how much a row counts; then it is not a feature")


def _comment(text: str) -> str:
    """A comment line, whatever characters the text contains."""
    return f"# {''.join(c if c.isprintable() else ' ' for c in text)}\n"


def _with_lines(text: str, changed: Iterable[Line]) -> str:
    """The file with other values for settings that have their own lines, or without them."""
    for one in changed:
        lines, place = text.splitlines(keepends=True), _line(text, one.key) - 1
        if one.value is None:
            del lines[place]
        else:
            name, _, old = lines[place].partition("= ")
            comment = re.search(r'# *([^"]*)$', old.rstrip())
            lines[place] = _setting(name, one.value, one.why or (comment[1] if comment else ""))
        text = "".join(lines)
    return _ARCHITECTURES.sub(_architectures(text), text, count=1)


def _architectures(text: str) -> str:
    """What the first comment of a file says that it searches."""
    from sweeper.config import parse

    config = parse(text, Path())
    depths, widths = (config.drawn_values(f"model.{name}") or () for name in ("depth", "width"))
    return f"{config.study.n_trials} MLPs of {len(depths) * len(widths)} architectures"


def _setting(name: str, value: Any, why: str) -> str:
    """A line of the file; `name` may end with spaces."""
    said = f"{name}= {toml_value(value)}"
    return (f"{said:<34} # {why}" if why else said) + "\n"


def _line(text: str, key: str) -> int:
    line = Source(Path(), text).line(key)
    assert line is not None, f"{key} is on a line of every template"
    return line
