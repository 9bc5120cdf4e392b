"""Checks whether a run directory is intact, and rewrites what can be restored."""

from __future__ import annotations

from sweeper.sweep.verify.damage import Damage
from sweeper.sweep.verify.directory import Verified, repair, restore_ledger, verify

__all__ = ["Damage", "Verified", "repair", "restore_ledger", "verify"]
