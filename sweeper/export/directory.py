"""The directory that a trial is taken home as: its model, ready for whoever has what there.

`model.safetensors` is for `sweeper.load` and for trials that start from it, `model.eqx`,
`preprocess.json` and `load.py` are for who has Equinox and NumPy alone, `trial.toml` trains it
again, and `README.md` tells all that to people.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig
from sweeper.errors import Problem, SetupError, StudyError
from sweeper.export.card import model_card
from sweeper.export.script import load_script, preprocess
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.saved_file import MODEL_FILE, content_of, read_saved
from sweeper.results.read import open_results
from sweeper.rundir import RunDir
from sweeper.saved_code import Code, texts_of
from sweeper.trial_file import trial_of, trial_tables, trial_text


def export(directory: Path, number: int | None, member: int, output: Path) -> int:
    """Write trial `number` of a run directory to the directory `output`; the best if None.

    `member` counts the trainings that the trial is the mean of. Gives the trial's number.

    Raises:
        SetupError: nothing was published there, or what is kept is damaged.
        StudyError: there is no such trial or member, or its weights are not kept.
    """
    if output.exists():
        found = f"there is such a {'directory' if output.is_dir() else 'file'} already"
        raise StudyError(Problem(str(output), "", found, "name another with --to, or remove it"))
    run_dir = RunDir(directory)
    config, row = trial_of(directory, number)
    number = int(row["trial_number"])
    path = run_dir.saved(number, member)
    if not path.is_file():
        raise StudyError(_not_kept(config, run_dir, number, member))
    kept = read_saved(path)
    record = {**kept.record, **_record(config, run_dir, row, member)}
    content = content_of(kept.tensors, record, kept.record["versions"])
    staged = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        staged.mkdir(parents=True)
        (staged / MODEL_FILE).write_bytes(content)
        shutil.copyfile(run_dir.model(number, member), staged / "model.eqx")
        for name, text in _texts(config, run_dir, row, record, output).items():
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            (staged / name).write_text(text, encoding="utf-8", newline="")
        staged.replace(output)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return number


def _texts(
    config: StudyConfig,
    run_dir: RunDir,
    row: Mapping[str, Any],
    record: Mapping[str, Any],
    output: Path,
) -> dict[str, str]:
    """Every file that people can read, by its name."""
    settings = config.filled(record["params"])
    spec = DataSpec.from_dict(record["data"]["spec"])
    networks = Programs(spec).networks(settings)
    modules = texts_of(config, config.functions)
    versions = open_results(run_dir.root).study["versions"]
    return {
        **modules,
        "trial.toml": trial_text(run_dir.root, config, row, output / "trial.toml"),
        "preprocess.json": json.dumps(preprocess(record["data"]), indent=1) + "\n",
        "load.py": load_script(record, settings, networks),
        "README.md": model_card(config, row, {**record, "versions": versions}, [*modules], output),
    }


def _record(
    config: StudyConfig, run_dir: RunDir, row: Mapping[str, Any], member: int
) -> dict[str, Any]:
    """What the saved model says besides its weights."""
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
    return Problem(str(run_dir.root), "", found, f"{mend}, or train it again: sweeper refit")


def _plain(tables: Any) -> Any:
    """Values as JSON has them."""
    return json.loads(json.dumps(tables))
