"""A study on a CSV file for one test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.config import StudyConfig, parse

# lines 1 to 8 of every study file of these tests; [data] is line 9, and its settings follow
_HEAD = """\
version = 1
study = { name = "t", metric = "val_loss", direction = "minimize", n_trials = 4, seed = 7 }
model = { kind = "mlp", depth = 1, width = 4 }
optimizer = { name = "adamw", lr = 1e-3 }
train = { program = "supervised", loss = "LOSS", epochs = 2, batch_size = BATCH }
execution = { precision = "PRECISION" }
[search]
SEARCH
[data]
"""

MakeStudy = Callable[..., StudyConfig]


@pytest.fixture
def make_study(tmp_path: Path) -> MakeStudy:
    """Makes a study file; if a table is given, it is written to `rows.csv` next to it."""

    def make(
        data: str,
        table: str | None = None,
        *,
        loss: str = "cross_entropy",
        batch: int = 2,
        precision: str = "float64",
        search: str = 'optimizer.lr = { type = "float", low = 1e-4, high = 1e-2 }',
    ) -> StudyConfig:
        if table is not None:
            (tmp_path / "rows.csv").write_text(table, encoding="utf-8")
        words = {"LOSS": loss, "BATCH": str(batch), "PRECISION": precision, "SEARCH": search}
        text = _HEAD
        for word, value in words.items():
            text = text.replace(word, value)
        file = tmp_path / "study.toml"
        file.write_text(text + data, encoding="utf-8")
        return parse(text + data, file)

    return make
