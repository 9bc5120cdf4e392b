"""Values too large, too deep or too long for any study file are refused at once, by line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from sweeper.config import load, parse
from sweeper.errors import Problem, StudyError
from tests.config.conftest import VALID, Read, Refused

_DEEP = ".".join("a" * 3000)
_TOO_LONG = "an integer of more than 64 bits"
_TOO_DEEP = "too many nested tables or arrays"
_WIDE = 'model.width = { type = "int", low = 1, high = 10_000_000 }'
_FINE = 'optimizer.eps = { type = "float", low = 1e-9, high = 1.0, step = 1e-9 }'
_PYTHON = 'kind = "python"\nfunction = "nets:build"'
_ALL = 'model.temperature = { type = "float", low = -1.7e308, high = 1.7e308 }'


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "found"),
    [
        ("n_trials = 8", f"n_trials = {2**63}", 7, "study.n_trials", _TOO_LONG),
        ("n_trials = 8", f"n_trials = {-(2**63) - 1}", 7, "study.n_trials", _TOO_LONG),
        ("n_trials = 8", f"n_trials = 0x{'f' * 5000}", 7, "study.n_trials", _TOO_LONG),
        ("n_trials = 8", f"n_trials = {'1' * 5000}", 7, "", _TOO_LONG),
        ("[search]", f"[search]\nmodel.{_DEEP} = 1", 29, "search.model.a", _TOO_DEEP),
        ("[search]", f"[study.pruner.{_DEEP}]\n[search]", 28, "study.pruner.a", _TOO_DEEP),
        ("width = 8", f"width = {'[' * 60}{']' * 60}", 16, "model.width", _TOO_DEEP),
        (
            *("[search]", f"[search]\n{_WIDE}", 29, "search.model.width"),
            "10000000 values from 1 to 10000000",
        ),
        (
            *("low = 1, high = 3", "low = 0, high = 1000", 29, "search.model.depth"),
            "1001 values from 0 to 1000",
        ),
        (
            *("[search]", f"[search]\n{_FINE}", 29, "search.optimizer.eps.step"),
            "step 1e-09 from 1e-09 to 1.0",
        ),
    ],
)
def test_what_is_too_large_is_refused(
    old: str, new: str, line: int, key: str, found: str, refused: Refused
) -> None:
    (problem,) = refused(old, new)
    assert (problem.where, problem.key) == (f"study.toml:{line}", key)
    assert problem.found == found
    assert problem.hint.startswith("write ")


@pytest.mark.parametrize(
    "ends", [f"low = 0, high = {2**52}", f"low = 1, high = {2**52}, log = true"]
)
def test_more_integers_than_floats_tell_apart_are_refused(ends: str) -> None:
    text = VALID.replace('kind = "mlp"\ndepth = 1\nwidth = 8', _PYTHON)
    wide = f'model.count = {{ type = "int", {ends} }}\n'
    with pytest.raises(StudyError) as refusal:
        parse(text.partition("model.depth")[0] + wide, Path("study.toml"))
    (problem,) = refusal.value.problems
    assert problem.key == "search.model.count.high"
    assert problem.found.endswith("has integers that floats cannot tell apart")
    parse(
        text.partition("model.depth")[0] + wide.replace(str(2**52), str(2**52 - 1)), Path("s.toml")
    )


def test_a_range_too_wide_for_floats_is_refused() -> None:
    text = VALID.replace('kind = "mlp"\ndepth = 1\nwidth = 8', _PYTHON)
    text = text.partition("model.depth")[0] + _ALL + "\n"
    with pytest.raises(StudyError) as refusal:
        parse(text, Path("study.toml"))
    (problem,) = refusal.value.problems
    assert problem.key == "search.model.temperature.high"
    assert problem.found == "-1.7e+308 to 1.7e+308 is wider than the range of floats"


@pytest.mark.parametrize(
    ("override", "key", "found"),
    [
        (f"{_DEEP}=1", _DEEP, _TOO_DEEP),
        (f"study.n_trials={2**64}", "study.n_trials", _TOO_LONG),
    ],
)
def test_overrides_have_the_same_limits(
    override: str, key: str, found: str, refused: Refused
) -> None:
    (problem,) = refused("", "", override)
    assert (problem.where, problem.key, problem.found) == ("--set", key, found)


_FINITE = "write a finite number"
_ARGUMENT = 'search.model.cap={type="categorical",choices=[1.0,inf]}'


@pytest.mark.parametrize(
    ("override", "key", "found", "hint"),
    [
        (_ARGUMENT, "search.model.cap.choices", "inf is not a finite number", _FINITE),
        (
            "search.optimizer.lr.or=[nan]",
            *("search.optimizer.lr.or", "nan is not a finite number", _FINITE),
        ),
        (
            'study.pruner={name="threshold",lower=-1.0,upper=inf}',
            *("study.pruner.upper", "inf is not a finite number", _FINITE),
        ),
        (
            'study.pruner={name="patient",patience=1,wrapped={name="threshold",upper=-inf}}',
            *("study.pruner.wrapped.upper", "-inf is not a finite number", _FINITE),
        ),
        (
            'study.sampler={name="mine:Sampler",bounds=[{low=nan}]}',
            *("study.sampler.bounds.0.low", "nan is not a finite number", _FINITE),
        ),
        (
            'study.sampler={name="mine:Sampler",since=2026-01-31}',
            "study.sampler.since",
            "2026-01-31 is a date or a time, which no setting takes",
            'write text in quotes, "2026-01-31"',
        ),
        (
            'study.sampler={name="mine:Sampler",word="\udcff"}',
            *("study.sampler.word", "'\udcff' is not valid Unicode", "write it in UTF-8"),
        ),
        ("model.\udcff=1", "model.\udcff", "'\udcff' is not valid Unicode", "write it in UTF-8"),
        (
            "data.impute={constant=nan}",
            *("data.impute", "constant = nan is not a finite number", _FINITE),
        ),
    ],
)
def test_a_value_that_cannot_be_recorded_is_refused(
    override: str, key: str, found: str, hint: str
) -> None:
    text = VALID.replace('kind = "mlp"\ndepth = 1\nwidth = 8', f"{_PYTHON}\ncap = 1.0")
    text = text.replace("model.depth", "model.rows")
    with pytest.raises(StudyError) as refusal:
        parse(text, Path("study.toml"), [override])
    (problem,) = refusal.value.problems
    assert (problem.where, problem.key, problem.found, problem.hint) == ("--set", key, found, hint)


def test_the_setting_of_a_value_that_cannot_be_recorded_is_refused_once(refused: Refused) -> None:
    problems = refused("", "", "train.cap=inf", "search.model.depth.choices=[nan]")
    assert [(problem.key, problem.found) for problem in problems] == [
        ("train.cap", "no such setting"),
        ("search.model.depth.choices", "no such setting"),
    ]


def test_an_integer_that_a_column_of_floats_would_round_is_refused() -> None:
    text = VALID.replace('kind = "mlp"\ndepth = 1\nwidth = 8', _PYTHON)
    text = text.replace('{ type = "int", low = 1, high = 3 }', "CHOICES").replace(".depth", ".rows")
    entry = '{{ type = "categorical", choices = [{}, 0.5] }}'
    with pytest.raises(StudyError) as refusal:
        parse(text.replace("CHOICES", entry.format(2**53 + 1)), Path("study.toml"))
    (problem,) = refusal.value.problems
    assert problem.found == f"{2**53 + 1} next to floats would be recorded as {2**53}"
    assert parse(text.replace("CHOICES", entry.format(2**53)), Path("study.toml"))


def test_a_number_of_more_digits_than_python_reads_is_text_on_the_command_line(
    refused: Refused,
) -> None:
    (problem,) = refused("", "", f"study.n_trials={'1' * 5000}")
    assert problem.found == f"'{'1' * 80} ...' is not an integer"


def test_the_largest_integers_of_toml_are_accepted(read: Read) -> None:
    assert read("n_trials = 8", f"n_trials = 8\nsampler.n_startup_trials = {2**63 - 1}")


def test_fifty_thousand_choices_are_read_in_seconds(read: Read) -> None:
    choices = ", ".join(f"{number + 1}e-7" for number in range(50_000))
    began = monotonic()
    entry = f'optimizer.eps = {{ type = "categorical", choices = [{choices}] }}'
    config = read("[search]", f"[search]\n{entry}")
    assert config.search["optimizer.eps"].count() == 50_000
    assert monotonic() - began < 30


def test_a_repeated_choice_among_very_many_is_found(refused: Refused) -> None:
    choices = [*range(1, 5_000), 7]
    entry = f'model.width = {{ type = "categorical", choices = {choices} }}'
    (problem,) = refused("[search]", f"[search]\n{entry}")
    assert problem.found == "7 occurs twice"


def test_a_problem_is_one_printable_line() -> None:
    problem = Problem("study.toml:1", "model.\x1b[31m", "'a\nb\u202e'" + "é" * 2_000, "write\x00")
    assert str(problem).isprintable()
    assert str(problem).startswith("study.toml:1: model.\\x1b[31m: 'a\\nb\\u202e'é")
    assert len(str(problem)) < 700


@pytest.mark.parametrize("written", ["\ufeff" + VALID, VALID.replace("\n", "\r\n")])
def test_byte_order_marks_and_other_line_ends_are_read(written: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_bytes(written.encode())
    assert load(tmp_path / "study.toml").canonical() == parse(VALID, Path("a")).canonical()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _circle(path: Path) -> None:
    path.symlink_to(path)


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10_000_001)


_NO_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a directory": (Path.mkdir, "cannot be read: it is a directory"),
    "a pipe": (_pipe, "cannot be read: it is a pipe or a device"),
    "a link to itself": (_circle, "cannot be read ("),
    "far too large": (_large, "too large for a study file"),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("make", "found"), _NO_FILES.values(), ids=_NO_FILES)
def test_pipes_and_devices_are_refused_without_blocking(
    make: Callable[[Path], None], found: str, tmp_path: Path
) -> None:
    make(tmp_path / "study.toml")
    with pytest.raises(StudyError) as refusal:
        load(tmp_path / "study.toml")
    (problem,) = refusal.value.problems
    assert problem.found.startswith(found)
    assert problem.hint == "name a readable TOML file in UTF-8"


@pytest.mark.parametrize("name", ["/dev/null", "/dev/zero", "/dev/stdin", "x" * 300, "a\x00b"])
def test_paths_that_cannot_be_study_files_are_refused(name: str) -> None:
    with pytest.raises(StudyError, match="cannot be read"):
        load(Path(name))
