"""A small valid study, to be changed by tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.config import StudyConfig, parse
from sweeper.errors import Problem, StudyError

VALID = """\
version = 1

[study]
name = "small"
metric = "val_loss"
direction = "minimize"
n_trials = 8

[data]
source = "sklearn"
name = "iris"

[model]
kind = "mlp"
depth = 1
width = 8

[optimizer]
name = "adamw"
lr = 1e-3

[train]
loss = "cross_entropy"
metrics = ["accuracy"]
epochs = 4
batch_size = 16

[search]
model.depth = { type = "int", low = 1, high = 3 }
optimizer.lr = { type = "float", low = 1e-4, high = 1e-2, log = true }
"""

Read = Callable[..., StudyConfig]
Refused = Callable[..., tuple[Problem, ...]]


@pytest.fixture
def read() -> Read:
    """Reads the valid study with the text `old` replaced by `new`, and overrides."""

    def read(old: str = "", new: str = "", *overrides: str) -> StudyConfig:
        assert old in VALID
        return parse(VALID.replace(old, new, 1), Path("study.toml"), overrides)

    return read


@pytest.fixture
def refused(read: Read) -> Refused:
    """The problems of the valid study after `old` is replaced by `new`."""

    def refused(old: str = "", new: str = "", *overrides: str) -> tuple[Problem, ...]:
        with pytest.raises(StudyError) as refusal:
            read(old, new, *overrides)
        return refusal.value.problems

    return refused
