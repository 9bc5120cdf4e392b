"""`[optimizer.schedule]`: how the learning rate changes from the first step to the last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from sweeper.config.roles import TRACED
from sweeper.config.table import Table

ScheduleName = Literal["constant", "cosine", "warmup_cosine", "exponential", "one_cycle"]

# the numbers that each schedule has use for, with the values that they have where none is written;
# those of one_cycle are Optax's
SHAPES: Mapping[str, Mapping[str, float]] = {
    "constant": {},
    "cosine": {"end": 0.0},
    "warmup_cosine": {"warmup": 0.1, "start": 0.0, "end": 0.0},
    "exponential": {"end": 0.01},
    "one_cycle": {"warmup": 0.3, "start": 1 / 25, "end": 1 / 25e4},
}

_Share = Annotated[Annotated[float, Field(ge=0, le=1)] | None, TRACED]


class LrScheduleTable(Table):
    """`[optimizer.schedule]`; `optimizer.lr` is the highest rate, at the end of the warm-up.

    All is relative, to the rate and to the steps that the trial trains.
    """

    name: ScheduleName = Field(default="constant", description="how the learning rate changes")
    warmup: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, TRACED] = Field(
        default=None,
        description="share of all steps in which the rate rises; of warmup_cosine (0.1) and "
        "one_cycle (0.3)",
        examples=[0.2],
    )
    start: _Share = Field(
        default=None,
        description="first rate as a share of lr; of warmup_cosine (0) and one_cycle (1/25)",
        examples=[0.1],
    )
    end: _Share = Field(
        default=None,
        description="rate after the last step as a share of lr; of cosine and warmup_cosine (0), "
        "exponential (0.01) and one_cycle (1/250000)",
        examples=[0.05],
    )
