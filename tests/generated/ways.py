"""All ways to break a study."""

from __future__ import annotations

from tests.generated import (
    broken_agreements,
    broken_later,
    broken_parts,
    broken_searches,
    broken_settings,
)
from tests.generated.breakage import BREAKAGES

FROM = (broken_settings, broken_searches, broken_agreements, broken_parts, broken_later)
__all__ = ["BREAKAGES"]
