"""`study.toml` in a run directory: the study file as first run, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweeper.config import StudyConfig, is_toml
from sweeper.config.load import study_text
from sweeper.faults import Step, fault_points
from sweeper.files import replacing
from sweeper.rundir import RunDir

OVERRIDE = "# --set "  # a line with a setting from the command line
_AGAIN = "# Written again from the ledger: the study as it was first run, with all its settings.\n"


def copy_study(run_dir: RunDir, config: StudyConfig) -> None:
    """Write it, unless it exists and can be read."""
    if study_copy_problem(run_dir):
        with fault_points(Step.COPY_STUDY):
            _write(run_dir, _as_run(config))


def restore_copy(run_dir: RunDir, settings: Mapping[str, Any]) -> None:
    """Write it again from the settings in the ledger, unless it exists and can be read."""
    if study_copy_problem(run_dir):
        _write(run_dir, _AGAIN + study_text(settings))


def study_copy_problem(run_dir: RunDir) -> str:
    """What is wrong with it; empty if nothing is."""
    if not run_dir.study_file.exists():
        return "it is missing"
    return "" if is_toml(run_dir.study_file) else "it cannot be read"


def _write(run_dir: RunDir, text: str) -> None:
    with replacing(run_dir.study_file, run_dir.staging) as staged:
        staged.write_text(text, encoding="utf-8")


def _as_run(config: StudyConfig) -> str:
    """The text of the study file, after settings that were given on the command line."""
    given = [f"{OVERRIDE}{text}\n" for text in config.source.overrides]
    return "".join([*given, config.source.text])
