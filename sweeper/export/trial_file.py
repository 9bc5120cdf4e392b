"""A study file that repeats one trial: the study's own, with the trial's values filled in."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from sweeper.config import Settings, StudyConfig
from sweeper.config.alternating import AlternatingTable
from sweeper.config.load import study_of
from sweeper.config.settings import TrainTable, arguments_of, is_optional
from sweeper.config.study import N_PARAMETERS
from sweeper.config.tables import DISCRIMINATORS
from sweeper.config.toml import toml_text
from sweeper.data.files import WILDCARDS
from sweeper.errors import Problem, SetupError, StudyError, printable
from sweeper.results import formatting
from sweeper.results.missing_trials import none_complete
from sweeper.results.read import Results, open_results, trained_trial
from sweeper.results.status import find_status
from sweeper.rundir import RunDir
from sweeper.scheduler.forecast import traced_structure
from sweeper.scheduler.lattice import sizes_in
from sweeper.trial import Reason, TrialState

# settings of how trials are proposed, placed and cut into rounds, which do not matter for one given
# trial
_OF_SEVERAL = {
    "study": ("sampler", "pruner", "enqueue", "timeout", "stop"),
    "execution": ("costs", "strategy", "lane_loop", "max_failures"),
}
# as for names of studies, with space for "-trial-" and a number
_LONGEST_NAME = 80
_FUNCTION = re.compile(r"([A-Za-z_]\w*)(\.\w+)*:[A-Za-z_]\w*")


def trial_file(run_dir: Path, number: int | None, written_to: Path) -> str:
    """The text of a study file that repeats trial `number` bit for bit; the best if None.

    It will be at `written_to`, which determines the paths of files that the study names.

    Raises:
        SetupError: nothing was published in `run_dir`.
        StudyError: the trial does not exist, or its model could not be found from there.
    """
    config, row = trial_of(run_dir, number)
    base = config.source.path.parent
    if written_to.parent.resolve() != base:
        _refuse_lost_modules(config, base, written_to)
    return trial_text(run_dir, config, row, written_to)


def trial_text(
    run_dir: Path,
    config: StudyConfig,
    row: Mapping[str, Any],
    written_to: Path,
    *,
    is_portable: bool = False,
) -> str:
    """The same for a known trial, if the modules of the study will be next to the file.

    A text that `is_portable` does not say where the study is on this machine.
    """
    tables, saved = trial_tables(config, row), RunDir(run_dir).started_from
    name, start = str(written_to), ""
    if saved.exists():
        start = f" --continue-from {quote(str(saved))}"
    path = tables["data"].get("path")
    if path is not None:
        path = _found_from(path, config.source.path, written_to)
    status = find_status(RunDir(run_dir))
    learned = None if status is None else formatting.learned(status)
    if is_portable:
        tables = portable(tables)
        name = f"{written_to.parent.name}/{written_to.name}"
        copied = quote(f"{written_to.parent.name}/{saved.name}")  # by the export
        start = f" --continue-from {copied}" if saved.exists() else ""
        learned = learned and "trials of earlier studies"
        if path is not None:
            within = _within(config.source.path.parent, path, written_to.parent)
            path = within or tables["data"]["path"]
    if path is not None:
        tables["data"]["path"] = path
    command = f"python -m sweeper run {quote(name)}{start}"
    return _heading(config, row, command, learned) + toml_text(tables)


def portable(tables: Mapping[str, Any]) -> dict[str, Any]:
    """`tables` of a trial without what only applies to this machine: its paths and its cluster."""
    data, results, execution = (dict(tables[name]) for name in ("data", "results", "execution"))
    results.pop("dir", None)
    execution.pop("engine", None)
    if "path" in data and Path(data["path"]).is_absolute():
        data["path"] = _last_of(data["path"])
    return {**tables, "data": data, "results": results, "execution": execution}


def trial_of(run_dir: Path, number: int | None) -> tuple[StudyConfig, Mapping[str, Any]]:
    """The study of `run_dir`, and the row of one of its trials, or of the best if None.

    Raises:
        SetupError: nothing was published in `run_dir`.
        StudyError: the trial does not exist, or another tool has trained it.
    """
    results = open_results(run_dir)
    file = Path(results.study["study_file"])
    config = study_of(results.study["settings"], file, results.run_dir)
    row = _row(results, number)
    if unknown := json.loads(row["params_json"]).keys() - config.columns.keys():
        found = (
            f"trial {row['trial_number']} has {', '.join(sorted(unknown))}, which is not searched"
        )
        hint = f"rewrite it with: python -m sweeper verify {quote(str(run_dir))} --repair"
        raise SetupError(Problem(str(results.run_dir.trials), "", found, hint))
    return config, row


def _row(results: Results, number: int | None) -> Mapping[str, Any]:
    if number is None:
        best = results.best(1)
        if not len(best):
            raise none_complete(results.run_dir, "no trial is complete, so none is the best")
        number = int(best["trial_number"].iloc[0])
    return trained_trial(results, number)


def trial_tables(config: StudyConfig, row: Mapping[str, Any]) -> dict[str, Any]:
    """All tables of the study file of one trial, in order."""
    canonical = tables_on_same_rows(config)
    settings = config.settings_of(json.loads(row["params_json"]))
    for name in ("model", "optimizer", "train"):
        canonical[name] = getattr(settings, name).model_dump(mode="json")
    if _phases_have_rates(settings.train):
        _leave_out_rates(canonical["optimizer"])
    for name, keys in _OF_SEVERAL.items():
        for key in keys:
            canonical[name].pop(key, None)
    number = row["trial_number"]
    canonical["study"]["name"] = f"{config.study.name[:_LONGEST_NAME]}-trial-{number}"
    canonical["study"]["n_trials"] = 1
    results = canonical["results"]
    results["dir"] = f"{config.run_dir}-trial-{number}"
    results["keep_models"] = max(1, results["keep_models"])
    results.pop("ensemble", None)
    del canonical["search"]
    canonical.pop("traced_arguments", None)  # they are among the parts of the class
    canonical["trial"] = _trial(config, row, settings)
    return {name: _in_order(name, table) for name, table in canonical.items()}


def tables_on_same_rows(config: StudyConfig) -> dict[str, Any]:
    """The tables of another study on the same rows, under the same rules."""
    # the first edition is not recorded, but a file without one is under the newest
    tables = {"edition": config.edition, **config.canonical()}
    if config.train.target == "numbers":
        # written out, it ends a warning that the study itself may have had
        tables["data"]["target_scale"] = config.with_target_scale().data.target_scale
    if config.rows is None:
        return tables
    return {**tables, "data": {**tables["data"], "path": str(config.rows.file)}}


def _phases_have_rates(train: TrainTable) -> bool:
    """Whether no step uses the learning rate of its optimizer."""
    is_phased = isinstance(train, AlternatingTable)
    return is_phased and all(phase.lr is not None for phase in train.by_phase.values())


def _leave_out_rates(optimizer: dict[str, Any]) -> None:
    """Leave out placeholders for learning rates, of one optimizer or of each part's."""
    optimizer.pop("lr", None)
    for own in optimizer.values():
        if isinstance(own, dict):
            own.pop("lr", None)


def _trial(config: StudyConfig, row: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The table `[trial]`; a trial that failed gets all of its epochs."""
    epochs = settings.train.epochs if row["state"] == "FAIL" else row["epochs_done"]
    floats = arguments_of("model", settings.model, traced=True, optional=settings.optional)
    return {
        "number": row["trial_number"],
        "epochs": epochs,
        "class": {
            # bit for bit, a lane of several structures is one of a class with only its structure
            "strategy": "exact" if row["strategy"] == "switch" else row["strategy"],
            "lane_loop": row["lane_loop"],
            "capacity": row["capacity"],
            "width": row["padded_width"],
            "run_widths": [int(run) for run in (row.get("run_widths") or "").split(",") if run],
            "depth": row["padded_depth"],
            "sizes": {name: [w, d] for name, w, d in sizes_in(row.get("padded_parts") or "")},
            "xla_threads": row.get("xla_threads"),
            "epochs": config.max_epochs,
            # without the floats of a user-defined model if this trial has another kind
            "parts": sorted(key for key in settings.optional if is_optional(key) or key in floats),
            "traced": dict(traced_structure(config, row["lane_loop"])),
        },
    }


def _in_order(name: str, table: Any) -> Any:
    """A table whose first setting is the one that determines which other settings it has.

    For a model with several parts, each part has a table with this setting.
    """
    first = DISCRIMINATORS.get(name)
    if first is None:
        return table
    if first in table:
        return {first: table[first], **table}
    return {part: _in_order(name, own) for part, own in table.items()}


def _found_from(path: str, study_file: Path, written_to: Path) -> str:
    """The path of the study's data relative to the new file."""
    if written_to.parent.resolve() == study_file.parent:
        return path
    if Path(path).is_absolute():
        return path
    relative = study_file.parent / path
    is_found = relative.is_file() or any(study_file.parent.glob(path))  # may be a pattern
    return str(relative if is_found else Path(path).absolute())


def _last_of(path: str) -> str:
    """The last name in an absolute path; of a pattern, from the directory that it is in."""
    parts = Path(path).parts
    of_pattern = (index for index, part in enumerate(parts) if set(part) & WILDCARDS)
    end = next(of_pattern, len(parts))
    return Path(*parts[max(1, end - 1) :]).as_posix()


def _within(study: Path, data: str, place: Path) -> str | None:
    """The path from `place` to the data, if both are in the study's directory; else None."""
    base, rows, place = (Path(path).resolve() for path in (study, data, place))
    if not (rows.is_relative_to(base) and place.is_relative_to(base)):
        return None
    return Path(os.path.relpath(rows, place)).as_posix()


def _refuse_lost_modules(config: StudyConfig, base: Path, written_to: Path) -> None:
    """Refuse a place from which Python modules of the study file would not be found."""
    for key, text in _texts(config.canonical(), ""):
        named = _FUNCTION.fullmatch(text)
        if named and _is_module(base, named[1]) and not _is_module(written_to.parent, named[1]):
            found = f"{text} is looked up next to the study file, in {base}"
            hint = f"write the file there: -o {base / written_to.name}"
            raise StudyError(Problem(str(written_to), key, found, hint))


def _is_module(directory: Path, name: str) -> bool:
    return (directory / f"{name}.py").is_file() or (directory / name).is_dir()


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Every string in the settings with its dotted key, and every key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield key, name
            yield from _texts(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, key)


def _expectation(config: StudyConfig, row: Mapping[str, Any], ended: str) -> str:
    """The expected result if the trial is trained again: all of its epochs, without a pruner."""
    value, keeps = row["value"], config.keeps
    if value is None and row["reason"] in (Reason.DIVERGED, Reason.ERROR):
        return f"Expect: {ended} again, without a value, on the same machine and versions."
    if value is None:
        return f"It had no value, since it was {ended}; this may not happen again."
    objective = config.study.objectives[0]
    if row["state"] == TrialState.PRUNED and keeps is not None and objective != N_PARAMETERS:
        # its value is that of its last epoch; a complete trial has that of the epoch it keeps
        if len(config.members) > 1 or keeps.metric != objective:
            return (
                f"Expect: another value than {value}, that of its last epoch: a trial that is not "
                f"pruned has that of the epoch with the best {keeps.metric}."
            )
        value = row["best_value"]
    return f"Expect: a value of {value}, bit for bit on the same machine and versions."


def _heading(config: StudyConfig, row: Mapping[str, Any], command: str, learned: str | None) -> str:
    """The comments at the start of the file; `command` runs it.

    `learned` says which earlier trials the study learnt from, if any.
    """
    ended = row["state"] if row["reason"] is None else f"{row['state']}, {row['reason']}"
    train_s = row["train_s"] or 0.0
    learnt = [f"Its sampler had learnt from {learned}."] if learned else []
    lines = (
        f"Trial {row['trial_number']} of the study {config.study.name}, to repeat it.",
        f"Run: {command}",
        f"It was {ended} after {row['epochs_done']} epochs and {train_s:.1f} s of training.",
        *learnt,
        _expectation(config, row, ended),
    )
    return "".join(f"# {printable(line)}\n" for line in lines)
