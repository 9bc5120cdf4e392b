"""Writes a trial's model with all that it takes to use it elsewhere, as one file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig
from sweeper.errors import Problem, SetupError, StudyError
from sweeper.programs.saved_file import content_of, read_saved
from sweeper.rundir import RunDir
from sweeper.saved_code import Code
from sweeper.trial_file import trial_of, trial_tables


def export(directory: Path, number: int | None, member: int, output: Path) -> int:
    """Write the model of trial `number` of a run directory to `output`; of the best if None.

    `member` counts the trainings that the trial is the mean of. Gives the trial's number.

    Raises:
        SetupError: nothing was published there, or what is kept is damaged.
        StudyError: there is no such trial or member, or its weights are not kept.
    """
    if output.exists():
        mend = "name another with -o, or remove it"
        raise StudyError(Problem(str(output), "", "there is such a file already", mend))
    run_dir = RunDir(directory)
    config, row = trial_of(directory, number)
    path = run_dir.saved(row["trial_number"], member)
    if not path.is_file():
        raise StudyError(_not_kept(config, run_dir, row["trial_number"], member))
    kept = read_saved(path)
    record = {**kept.record, **_record(config, run_dir, row, member)}
    output.parent.mkdir(parents=True, exist_ok=True)
    staged = output.with_name(f".{output.name}.{os.getpid()}")
    staged.write_bytes(content_of(kept.tensors, record, kept.record["versions"]))
    staged.replace(output)
    return int(row["trial_number"])


def _record(
    config: StudyConfig, run_dir: RunDir, row: Mapping[str, Any], member: int
) -> dict[str, Any]:
    """What the file says besides its weights."""
    its = config.members[member]
    told = {name: value for name, value in row.items() if isinstance(value, bool | int | float)}
    return {
        "study": config.study.name,
        "trial": row["trial_number"],
        "replicate": its.replicate,
        "fold": its.fold,
        "metric": config.study.metric,
        "value": row["value"],
        "row": told,
        "params": json.loads(row["params_json"]),
        "settings": _plain(trial_tables(config, row)),
        "base_dir": str(config.base_dir.absolute()),
        "code": asdict(Code.of(config)),
        "data": _data(config, run_dir, its.fold),
    }


def _data(config: StudyConfig, run_dir: RunDir, fold: int) -> dict[str, Any]:
    try:
        data = json.loads(run_dir.preparation.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        found = f"cannot be read ({error})"
        mend = f"python -m sweeper run {config.source.path} writes it again"
        raise SetupError(Problem(str(run_dir.preparation), "", found, mend)) from error
    folds = data.pop("folds")
    scaled = {name: values[fold] for name, values in folds.items() if values}
    return {**data, "fold": scaled or None}


def _not_kept(config: StudyConfig, run_dir: RunDir, number: int, member: int) -> Problem:
    if not 0 <= member < len(config.members):
        found = f"trial {number} has {len(config.members)} members, and no member {member}"
        return Problem("", "--member", found, f"write 0 to {len(config.members) - 1}")
    kept = sorted({int(path.stem.split("-")[1]) for path in run_dir.models.glob("*.safetensors")})
    mend = f"name one of {', '.join(map(str, kept))}" if kept else "set results.keep_models"
    found = f"the weights of trial {number} are not kept"
    return Problem(str(run_dir.root), "", found, f"{mend}, or train it again: sweeper trial")


def _plain(tables: Any) -> Any:
    """Values as JSON has them."""
    return json.loads(json.dumps(tables))
