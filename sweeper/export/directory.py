"""Exports a trial as one directory: its model in forms for different users.

`model.safetensors` is for `sweeper.load` and for trials that start from it; `model.eqx`,
`preprocess.json` and `load.py` only need Equinox and NumPy; `trial.toml` trains the model again,
from `continued_from.safetensors` if its study started from a saved model; and `README.md` explains
all of it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from hashlib import file_digest, sha256
from pathlib import Path
from shlex import quote
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.source_text import write_source
from sweeper.config.toml import hint_if_moved
from sweeper.config.trust import Code, texts_of
from sweeper.errors import LedgerError, Problem, SetupError, StudyError, number_runs
from sweeper.export.card import CARD, model_card
from sweeper.export.script import load_script, needed, preprocess
from sweeper.export.trial_file import portable, trial_of, trial_tables, trial_text
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.provenance import WHOSE, NoteError, data_of, misfits, read_note, whose
from sweeper.programs.saved_file import MODEL_FILE, SavedFile, content_of, read_saved
from sweeper.results.baseline import read_baseline
from sweeper.results.judged import with_metrics_of_value
from sweeper.results.missing_trials import hint_if_none_complete
from sweeper.results.read import open_results
from sweeper.rundir import RunDir
from sweeper.sweep.session import backup
from sweeper.sweep.session.ownership import refuse_foreign
from sweeper.sweep.session.reconcile import data_digest
from sweeper.sweep.session.user_code import refuse_edited


def export(
    directory: Path,
    number: int | None,
    member: int,
    output: Path,
    *,
    trust_code: bool = False,
) -> int:
    """Write trial `number` of a run directory to the directory `output`; the best if None.

    `member` is the index of a training that the trial averages over. Returns the trial's number.
    The study's functions run, which must be known as the user's own unless `trust_code` is given.

    Raises:
        SetupError: nothing was published, kept files are damaged, or code is not trusted.
        StudyError: the trial or member does not exist, its weights are not kept, or the source of
        its model has changed.
    """
    trial_of(directory, number)  # a wrong number is reported before the place to write to
    refuse_output(output, RunDir(directory))
    with staged_at(output) as staged:
        return write_model(RunDir(directory), number, member, staged, output, trust_code)


def refuse_output(output: Path, run_dir: RunDir) -> None:
    """Refuse to write to what exists already, or to a place that the study itself uses."""
    place = output.resolve()
    if any(place.is_relative_to(name.resolve()) for name in run_dir.names()):
        found = "the study keeps its own files here"
        raise StudyError(Problem(str(output), "", found, "choose another directory with --to"))
    if os.path.lexists(output):
        found = f"this {'directory' if output.is_dir() else 'file'} already exists"
        raise StudyError(Problem(str(output), "", found, "choose another with --to, or remove it"))


@contextmanager
def staged_at(output: Path) -> Iterator[Path]:
    """A directory of the same name that becomes `output` if nothing fails."""
    output.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    staged = place / output.name
    try:
        staged.mkdir()
        yield staged
        staged.replace(output)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def write_model(
    run_dir: RunDir,
    number: int | None,
    member: int,
    staged: Path,
    output: Path,
    trust_code: bool,
) -> int:
    """Write a trial into the directory `staged`, which will be at `output`, as `export` does."""
    config, row = trial_of(run_dir.root, number)
    if not trust_code:
        refuse_foreign(config, run_dir)
    refuse_edited(config, backup.sessions(run_dir))
    number = int(row["trial_number"])
    path = run_dir.saved(number, member)
    if not path.is_file():
        raise StudyError(_not_kept(config, run_dir, row, member))
    kept = read_saved(path, trusted=trust_code)
    data = _data(config, run_dir, kept, config.members[member].fold)
    refuse_misfit(run_dir, kept, row, member, data["digest"])
    header = {name: value for name, value in kept.record.items() if name != WHOSE}
    record = {**header, **_record(config, row, member), "data": data}
    content = content_of(kept.tensors, record, kept.record["versions"])
    (staged / MODEL_FILE).write_bytes(content)
    shutil.copyfile(run_dir.model(number, member), staged / "model.eqx")
    if run_dir.started_from.exists():
        shutil.copyfile(run_dir.started_from, staged / run_dir.started_from.name)
    with (staged / "model.eqx").open("rb") as file:
        weights = file_digest(file, sha256).hexdigest()
    for name, text in _texts(config, run_dir, row, record, output, weights).items():
        file = staged / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".py":
            write_source(file, text)
        else:
            file.write_text(text, encoding="utf-8", newline="")
    return number


def _texts(
    config: StudyConfig,
    run_dir: RunDir,
    row: Mapping[str, Any],
    record: Mapping[str, Any],
    output: Path,
    weights: str,
) -> dict[str, str]:
    """All text files by name; `weights` is the digest of `model.eqx`."""
    settings, own = config.settings_of(record["params"]), _of_trial(config, row)
    spec = DataSpec.from_dict(record["data"]["spec"])
    networks = Programs(spec).networks(settings)
    modules = {**texts_of(own, own.functions), **record["code"]["texts"]}
    versions = open_results(run_dir.root).study["versions"]
    preprocess_text = json.dumps(preprocess(record, networks), indent=1) + "\n"
    digests = {
        "model.eqx": weights,
        "preprocess.json": sha256(preprocess_text.encode()).hexdigest(),
    }
    return {
        **modules,
        "trial.toml": trial_text(
            run_dir.root, config, row, output / "trial.toml", is_portable=True
        ),
        "preprocess.json": preprocess_text,
        "load.py": load_script(record, settings, networks, digests),
        CARD: model_card(
            config,
            with_metrics_of_value(run_dir, row, config.canonical()),
            {**record, "versions": versions},
            [*modules],
            needed(networks),
            output,
            read_baseline(run_dir),
            run_dir.started_from.name if run_dir.started_from.exists() else None,
        ),
    }


def refuse_misfit(
    run_dir: RunDir, kept: SavedFile, row: Mapping[str, Any], member: int, data_digest: str
) -> None:
    """Refuse a model that is not that of the trial of `row`, or differs between its two files.

    Raises:
        SetupError: with the file, and what is wrong with it.
    """
    number = row["trial_number"]
    root = quote(str(run_dir.root))
    hint = f"restore the file, or train it again: python -m sweeper trial {root} {number}"
    weights = run_dir.model(number, member)
    found = [*misfits(kept, weights, whose(row, member, data_digest))]
    if not weights.exists():
        found.append((weights.name, "it is missing"))
    if found:
        raise SetupError(
            Problem(str(run_dir.models / name), "", what, hint) for name, what in found
        )


def _record(config: StudyConfig, row: Mapping[str, Any], member: int) -> dict[str, Any]:
    """The header of the saved model, except for weights and data."""
    numbers = {name: value for name, value in row.items() if isinstance(value, bool | int | float)}
    return {
        "study": config.study.name,
        "trial": row["trial_number"],
        "replicate": config.members[member].replicate,
        "fold": config.members[member].fold,
        "metric": config.study.metric,
        "value": row["value"],
        "row": numbers,
        "params": json.loads(row["params_json"]),
        "settings": json.loads(json.dumps(portable(trial_tables(config, row)))),
        "code": asdict(Code.of(_of_trial(config, row))),
    }


def _of_trial(config: StudyConfig, row: Mapping[str, Any]) -> StudyConfig:
    """The study with the tables of one trial, which only names functions that this trial uses."""
    settings = config.settings_of(json.loads(row["params_json"]))
    tables = ("model", "optimizer", "train")
    return config.model_copy(update={name: getattr(settings, name) for name in tables})


def _data(config: StudyConfig, run_dir: RunDir, kept: SavedFile, fold: int) -> dict[str, Any]:
    """What a kept model records about the data that it was trained on."""
    try:
        data = read_note(run_dir.preparation, data_of(kept) or _data_digest(run_dir))
    except NoteError as error:
        needs_file = getattr(config.data, "path", None) is not None
        hint = (needs_file and hint_if_moved(config.source)) or (
            f"rewrite it with: python -m sweeper verify {quote(str(run_dir.root))} --repair; "
            f"the next run of {_as_given(config.source.path)} there also does"
        )
        raise SetupError(Problem(str(run_dir.preparation), "", str(error), hint)) from error
    folds = data.pop("folds")
    # notes of earlier versions only count the rows of the first fold
    if rows := data.pop("rows_of_folds", ()):
        data["rows"] |= rows[fold]
    scaled = {name: values[fold] for name, values in folds.items() if values}
    return {**data, "fold": scaled or None}


def _data_digest(run_dir: RunDir) -> str | None:
    """The digest of the study's data; None if the ledger is missing or in use."""
    try:
        with closing(backup.read(run_dir)) as ledger:
            return data_digest(ledger.sessions())
    except LedgerError:
        return None


def _as_given(file: Path) -> str:
    """The path of a study file, relative to the current directory if that is shorter."""
    here = Path.cwd()
    return quote(str(file.relative_to(here) if file.is_relative_to(here) else file))


def _not_kept(config: StudyConfig, run_dir: RunDir, row: Mapping[str, Any], member: int) -> Problem:
    number = row["trial_number"]
    if not 0 <= member < len(config.members):
        found = f"trial {number} has {len(config.members)} members, but no member {member}"
        return Problem("", "--member", found, f"write 0 to {len(config.members) - 1}")
    saved = [path for path in run_dir.own_models() if path.suffix == ".safetensors"]
    kept = {int(path.stem.split("-")[1]) for path in saved}
    few = number_runs(kept)
    found = f"the weights of trial {number} are not kept"
    if row["state"] != "COMPLETE":
        why = row["reason"] or "failed"
        found += f": it ended early ({why}), and only those of complete trials are"
        hint = f"use one of {few}" if kept else hint_if_none_complete(run_dir)
        return Problem(str(run_dir.root), "", found, hint)
    hint = f"use one of {few}" if kept else "set results.keep_models"
    again = f"sweeper trial {quote(str(run_dir.root))} {number} -o trial.toml"
    hint = (
        f"{hint}, or train it again: {again}, and run that; or use refit to train it on more rows"
    )
    return Problem(str(run_dir.root), "", found, hint)
