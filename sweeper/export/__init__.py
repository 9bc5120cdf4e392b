"""A trial's model, with everything needed to use it elsewhere, as one directory."""

from __future__ import annotations

from sweeper.export.directory import export

__all__ = ["export"]
