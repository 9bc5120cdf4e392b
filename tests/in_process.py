"""A study trained in the process of its test, which is faster than a separate process."""

from __future__ import annotations

from pathlib import Path

import sweeper
from sweeper.config import StudyConfig
from sweeper.data.ahead import preparing
from sweeper.data.dataset import Dataset
from sweeper.results.read import Results


def study_in(directory: Path, text: str, *overrides: str) -> StudyConfig:
    """The study of the file `text`, written to `directory`; its results are in `run` there."""
    directory.mkdir(exist_ok=True)
    (directory / "study.toml").write_text(text, encoding="utf-8")
    run_dir = f"results.dir={directory / 'run'}"
    return sweeper.load_study(directory / "study.toml", [run_dir, *overrides])


def prepared(config: StudyConfig) -> Dataset:
    """The data of a study, kept from an earlier test if it can be."""
    with preparing(config) as data:
        return data()


def trained(config: StudyConfig) -> Results:
    """The results of a study, trained to its end."""
    return sweeper.run(config)
