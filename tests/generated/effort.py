"""How many generated examples a test tries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis


def some(count: int) -> Callable[..., Any]:
    """This many examples, the same ones each time."""
    return hypothesis(
        max_examples=count,
        derandomize=True,
        phases=[Phase.generate],  # shrinking a failing file takes minutes
        database=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,  # ways to break what few studies have
        ],
    )
