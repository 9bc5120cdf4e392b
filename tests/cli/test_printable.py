"""Text from a foreign table only writes text to a terminal, a log or a CSV file."""

from __future__ import annotations

import ast
import csv
import io
import logging
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from sweeper.cli import tables
from sweeper.cli.console import console_on
from sweeper.cli.logs import log_events
from sweeper.errors import Problem, printable
from sweeper.export.script import keyword_argument
from sweeper.results.events import StudyOpened, Warned
from sweeper.results.text_files import csv_text
from sweeper.rundir import RunDir

# each moves the cursor of a terminal, hides or reorders text, or begins a line
HOSTILE = {
    "\x1b[2J": r"\x1b[2J",
    "\x1b]0;title\x07": r"\x1b]0;title\x07",
    "\x9b31m": r"\x9b31m",
    "good\rbad": r"good\rbad",
    "a\x08b": r"a\x08b",
    "a\x00b": r"a\x00b",
    "\u202egnp.exe": r"\u202egnp.exe",
    "\u2066x\u2069": r"\u2066x\u2069",
    "a\u200bb": r"a\u200bb",
    "a\u2028b": r"a\u2028b",
    "\ud800": r"\ud800",
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("text", HOSTILE)
def test_a_console_escapes_control_characters_in_every_kind_of_text(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    table = Table(title=text)
    table.add_column(text)
    table.add_row(text)
    terminal = Terminal()
    console_on(terminal).print(text, Text(text, style="bold"), table, sep="\n")
    written = terminal.getvalue()
    assert written.count(HOSTILE[text]) in (4, 5)  # `Text` drops some of them
    for style in ("\x1b[1m", "\x1b[0m", "\x1b[3m", "\n"):
        written = written.replace(style, "")
    assert written.isprintable()


def test_names_with_line_breaks_stay_on_one_line() -> None:
    shown = io.StringIO()
    facts = {"study\nstate": "x\nfinished"}
    console_on(shown).print(tables.pairs(facts), tables.rows("t", ["c"], [["a\nb"]]))
    lines = [line.strip() for line in shown.getvalue().splitlines()]
    assert lines == [r"study\nstate  x\nfinished", "t", "c", r"a\nb"]
    assert str(Problem("f", "", "a\nb", "")) == r"f: a\nb"


def test_other_alphabets_stay_as_they_are() -> None:
    text = "Größe · 温度 °C ✓ ▁▂ │"
    assert printable(text) == text


def test_the_log_escapes_control_characters(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    with log_events(lambda event: None, None, "info") as observer:
        observer(StudyOpened("s", run_dir.root, 0, 1))
        observer(Warned("column '\x1b[2J\r' has gaps"))
        logging.getLogger("sweeper").warning("\x1b[31m")
    log = run_dir.log.read_text(encoding="utf-8")
    assert r"column '\x1b[2J\r' has gaps" in log
    assert r"\x1b[31m" in log
    assert "\x1b" not in log


def test_csv_escapes_control_characters_and_can_be_read_back() -> None:
    text = csv_text(["a\r", "b"], [["x\ny", 1.5], ['"', None], ["\u202e", -2]])
    assert [*csv.reader(io.StringIO(text))] == [
        [r"a\r", "b"],
        [r"x\ny", "1.5"],
        ['"', ""],
        [r"\u202e", "-2"],
    ]


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-x", "@SUM(A1)", " =1", "=HYPERLINK(1)"])
def test_formulas_are_quoted_on_request(text: str) -> None:
    for quote, expected in ((False, text), (True, f"'{text}")):
        written = csv_text([text], [[text]], quote_formulas=quote)
        assert [*csv.reader(io.StringIO(written))] == [[expected], [expected]]


@pytest.mark.parametrize("value", ["-1.5", "+3", "-inf", "name", "", -1.5])
def test_numbers_and_words_are_not_quoted(value: object) -> None:
    written = csv_text(["n"], [[value, 0]], quote_formulas=True)
    assert [*csv.reader(io.StringIO(written))][1] == [str(value), "0"]


@pytest.mark.parametrize(
    "name", ["width", "class", "x=print(1), y", "a b", '"', "\n", "x) or print(1) or dict(y"]
)
def test_an_argument_in_load_py_cannot_inject_code(name: str) -> None:
    for value in (1, "a\n'", "\N{GRINNING FACE}ä", float("inf"), True, None):
        call = ast.parse(f"f({keyword_argument(name, value)})", mode="eval").body
        assert isinstance(call, ast.Call)
        (one,) = call.keywords
        given = one.value
        if one.arg is None:
            assert isinstance(given, ast.Dict)
            (key,), (given,) = given.keys, given.values
            assert isinstance(key, ast.Constant)
            assert key.value == name
        else:
            assert one.arg == name
        source = ast.unparse(given)
        assert eval(source, {"float": float}) == value
