"""Where things are kept that make the next start faster, and that may be deleted at any time."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path

CACHE_VARIABLE = "SWEEPER_CACHE_DIR"


def cache_root() -> Path:
    """`SWEEPER_CACHE_DIR`, or else the user's cache directory."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else user_cache_path("sweeper")
