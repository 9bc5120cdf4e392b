"""What `init` suggests follows from the rows, columns and classes of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sweeper.cli.new_study import Template, begin
from sweeper.config import StudyConfig, load
from sweeper.data.guess import Guess
from sweeper.templates.advice import Effort, advice
from tests.command_line import CommandLine


def suggested(rows: int, numbers: int = 4, effort: Effort = Effort.NORMAL) -> dict[str, Any]:
    """The settings for a regression table of this size, with those of no value left out."""
    found = Guess("csv", "y", "", False, rows, numbers, numbers=numbers)
    lines = {line.key: line.value for line in advice(found, effort, is_classes=False)}
    return {key: value for key, value in lines.items() if value is not None}


@pytest.mark.parametrize(
    ("rows", "widest", "batch"),
    [(40, 16, 2), (200, 32, 12), (1_000, 128, 62), (30_000, 128, 128), (200_000, 128, 512)],
)
def test_widths_and_batches_follow_from_the_rows(rows: int, widest: int, batch: int) -> None:
    found = suggested(rows)
    assert found["search.model.width"]["high"] == widest
    assert found["train.batch_size"] == batch


@pytest.mark.parametrize(
    ("rows", "numbers", "bins"),
    [
        *((20_000, 4, 32), (20_000, 32, 32), (20_000, 64, 16), (20_000, 256, 4)),
        *((1_000, 4, 16), (200, 4, 4), (1_800, 61, 4)),
    ],
)
def test_numbers_are_binned_as_far_as_rows_and_columns_allow(
    rows: int, numbers: int, bins: int
) -> None:
    assert suggested(rows, numbers)["model.n_bins"] == bins


@pytest.mark.parametrize(
    ("rows", "numbers", "scale"),
    [(20_000, 500, "quantile"), (100, 4, None), (20_000, 0, None)],
)
def test_numbers_are_ranked_where_bins_do_not_fit(
    rows: int, numbers: int, scale: str | None
) -> None:
    found = suggested(rows, numbers)
    assert "model.n_bins" not in found
    assert found.get("data.scale") == scale


def test_more_effort_searches_more() -> None:
    found = [suggested(50_000, effort=effort) for effort in Effort]
    for key in ("study.n_trials", "train.epochs"):
        values = [one[key] for one in found]
        assert values == sorted({*values})
    assert [one["search.model.width"]["high"] for one in found] == [64, 128, 512]


def written(directory: Path, frame: pd.DataFrame, effort: Effort) -> StudyConfig:
    frame.to_csv(directory / "rows.csv", index=False)
    output = directory / f"{effort}.toml"
    begin(None, output, directory / "rows.csv", "kind", effort)
    return load(output)


def test_imbalanced_classes_are_ranked_and_weighted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kind = np.where(np.arange(1000) % 10 == 0, "rare", "usual")
    config = written(tmp_path, pd.DataFrame({"x": rng.random(1000), "kind": kind}), Effort.NORMAL)
    assert config.study.objectives == ("val_auroc",)
    assert config.data.class_weights == "balanced"
    text = (tmp_path / "normal.toml").read_text(encoding="utf-8")
    assert "# 90% of rows are of one class: accuracy says little" in text

    kind = np.where(np.arange(1000) % 3 == 0, "rare", "usual")
    config = written(tmp_path, pd.DataFrame({"x": rng.random(1000), "kind": kind}), Effort.QUICK)
    assert config.study.objectives == ("val_accuracy",)
    assert config.data.class_weights == "none"


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        (
            ["ok"] * 98 + ["critical"] * 2,
            "class 'critical' has 2 rows, too few for each part of the split: not stratified, and "
            "judged by accuracy instead of auroc",
        ),
        (
            ["ok"] * 49 + ["warm"] * 49 + ["hot"] * 2,
            "class 'hot' has 2 rows, too few for each part of the split: not stratified; add rows",
        ),
        (
            [f"kind {place % 20}" for place in range(100)],
            "20 classes do not fit into the 10 rows of a part: not stratified",
        ),
        (["ok"] * 97 + ["critical"] * 3, None),
        ([f"${place * 1001:,}" for place in range(50)] * 2, ""),  # to be read as numbers
    ],
)
def test_classes_that_are_too_few_to_be_split_are_named(
    kinds: list[str], found: str | None, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"x": np.arange(100) % 7, "kind": kinds})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    told = begin(None, tmp_path / "study.toml", tmp_path / "rows.csv", "kind")
    said = [line for line in told if "not stratified" in line]
    assert load(tmp_path / "study.toml").data.split.stratify == (found is None)
    assert len(said) == bool(found)
    assert all(line.startswith(f"rows.csv: {found}") for line in said)


@pytest.mark.parametrize("template", Template)
@pytest.mark.parametrize("effort", Effort)
def test_every_effort_is_a_study_that_says_what_it_searches(
    template: Template, effort: Effort, tmp_path: Path
) -> None:
    begin(template, tmp_path / "study.toml", None, effort=effort)
    config = load(tmp_path / "study.toml")
    text = (tmp_path / "study.toml").read_text(encoding="utf-8")
    values = [len(config.search[f"model.{name}"].values() or ()) for name in ("depth", "width")]
    assert f"{config.study.n_trials} MLPs of {values[0] * values[1]} architectures" in text


def test_a_study_that_cannot_run_yet_is_written_with_the_reason(command: CommandLine) -> None:
    frame = pd.DataFrame({"x": range(60), "y": [0.5 * i for i in range(59)] + ["about 3"]})
    frame.to_csv(command.directory / "rows.csv", index=False)

    done = command("init", "regression", "--data", "rows.csv", "--target", "y")

    assert done.returncode == 0
    assert "study.toml cannot be run yet: study.toml:" in done.stderr
    assert "correct it, then run it with" in done.stdout
    assert (command.directory / "study.toml").is_file()
