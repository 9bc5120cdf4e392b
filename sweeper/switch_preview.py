"""What `plan` shows of classes of several structures, and what a strategy can not do here."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from sweeper.config import StudyConfig
from sweeper.scheduler.classes import Plan, ProgramClass


def switch_classes(plan: Plan, devices: int) -> Iterator[dict[str, Any]]:
    """The programs of several structures that a plan begins with."""
    for program in plan.classes:
        if program.strategy == "switch":
            yield {
                "class_id": program.class_id,
                "branches": json.loads(program.settings),
                "devices": devices,
                "lanes_per_device": lanes_per_device(program, devices),
                "compile_s": program.predicted_compile_s,
            }


def lanes_per_device(program: ProgramClass, devices: int) -> int:
    """How many lanes of a class one device has room for."""
    is_spread = program.strategy == "switch"
    return math.ceil(program.capacity / devices) if is_spread else program.capacity


def largest_branch(program: ProgramClass) -> Mapping[str, Any]:
    """What a class compiles in, or of several branches the first, which is the largest."""
    settings = json.loads(program.settings)
    return settings[0] if program.branches else settings


def notes(config: StudyConfig, devices: int) -> Iterator[str]:
    """What users of the study's strategy may not expect."""
    strategy = config.execution.strategy
    if config.trial is None and strategy in ("auto", "padded") and "python" in config.kinds:
        yield (
            "models of your own are never padded: trials of one structure share a program, "
            'near misses do not; strategy = "switch" trains several structures in one'
        )
    if strategy == "switch" and devices == 1:
        yield (
            "switch spreads trials over devices, and there is one: it trains them one after "
            'the other, which takes no less time than strategy = "exact"'
        )
