"""What commands print to a terminal."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from sweeper.cli.console import announce, console_on
from sweeper.process import escape_unencodable
from tests.processes import shown_on_terminal


@pytest.mark.parametrize(("is_terminal", "shown"), [(True, "checking ...\r\x1b[2K"), (False, "")])
def test_only_a_terminal_shows_what_is_being_done(
    is_terminal: bool, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(file, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", file)

    with announce("checking"):
        pass

    assert file.getvalue() == shown


@pytest.mark.parametrize(
    ("arguments", "doing"),
    [
        (
            ["init", "--data", "rows.csv"],
            ("reading rows.csv", "predicting how long the study takes"),
        ),
        (["predict", "absent", "rows.csv"], ("predicting",)),
    ],
)
def test_commands_that_may_take_long_say_what_they_do(
    arguments: list[str], doing: tuple[str, ...], tmp_path: Path
) -> None:
    rows = (f"{i},{i % 7},{i % 5}\n" for i in range(60))
    (tmp_path / "rows.csv").write_text("".join(["a,b,y\n", *rows]), encoding="utf-8")
    words = [sys.executable, "-m", "sweeper", *arguments]
    shown = shown_on_terminal(words, "stderr", directory=tmp_path, environment=os.environ)
    for one in doing:
        assert f"{one} ...\r\x1b[2K" in shown.decode()


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("utf-8", "▁▄█ • ≥ 3 ± ł"),
        ("cp1252", "_-# • >= 3 ± \\u0142"),
        ("ascii", "_-# * >= 3 +- \\u0142"),
    ],
)
def test_what_an_encoding_lacks_is_printed_in_ascii(encoding: str, shown: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    escape_unencodable(stream)
    console_on(stream).print("▁▄█ • ≥ 3 ± ł")
    stream.seek(0)
    assert stream.read().rstrip() == shown
