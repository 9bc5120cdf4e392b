"""A file is replaced as a whole, however its run directory is named."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from sweeper.files import write_unsynced


def test_a_relative_run_directory_works_on_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Python 3.12 on, `tempfile.mkdtemp` returns an absolute path."""
    made = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **given: str(Path(made(**given)).absolute()))
    monkeypatch.chdir(tmp_path)
    root = Path("run")
    root.mkdir()
    write_unsynced(root / "file", root / ".staging", b"new")
    assert (root / "file").read_bytes() == b"new"
