"""Compiles what is installed, so that no process that is timed has to."""

from __future__ import annotations

import compileall
import sysconfig
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent / "sweeper"


def compile_installed() -> None:
    """Compile this project and all installed libraries, as pip does when it installs them.

    Other installers leave it to the first import, or never do it if `PYTHONDONTWRITEBYTECODE` is
    set; then imports take twice as long.
    """
    compileall.compile_dir(SOURCE, quiet=1)
    # errors in the templates that some libraries contain mean nothing
    compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2, workers=0)
