"""What commands print to a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from sweeper.cli.console import announce


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
