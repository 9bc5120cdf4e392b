"""Python source as text, in files of any encoding that Python itself reads."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path


def read_source(path: Path) -> str:
    """The text of a module, in the encoding that its first lines declare, otherwise UTF-8."""
    with tokenize.open(path) as file:
        return file.read()


def write_source(path: Path, text: str) -> None:
    """Write the text of a module in the encoding that it declares itself.

    Earlier versions recorded texts with their byte order mark.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(text.encode()).readline)
    path.write_text(text.removeprefix("\ufeff"), encoding=encoding, newline="")
