"""Whether a run directory is whole, and what can be written anew of it."""

from __future__ import annotations

from sweeper.sweep.verify.directory import Verified, repair, restore_ledger, verify
from sweeper.sweep.verify.models import Damage

__all__ = ["Damage", "Verified", "repair", "restore_ledger", "verify"]
