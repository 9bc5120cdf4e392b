"""Exports an ensemble as one directory: its models, each as a trial is exported, and their mean.

`ensemble.json` lists them for `sweeper.load`, `load.py` only needs Equinox and NumPy, and
`README.md` explains both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from sweeper.errors import Problem, SetupError, StudyError
from sweeper.export.card import CARD, USE, in_cell
from sweeper.export.directory import refuse_output, staged_at, write_model
from sweeper.export.ensemble import how_to_select, not_measured
from sweeper.export.members import ENSEMBLE_FILE, MEMBERS
from sweeper.programs.saved_file import read_saved
from sweeper.results.ensemble import EnsembleMember, EnsembleRecord, read_ensemble, verdicts
from sweeper.results.formatting import number
from sweeper.results.listing import read_trials
from sweeper.results.missing_trials import no_trials
from sweeper.rundir import RunDir


def export_ensemble(directory: Path, output: Path, *, trust_code: bool = False) -> EnsembleRecord:
    """Write the ensemble that was selected in a run directory to the directory `output`.

    Raises:
        SetupError: the run directory is missing, kept files are damaged, or code is not trusted.
        StudyError: none was selected, or the weights of a trial in it are not kept.
    """
    run_dir = RunDir(directory)
    if not directory.is_dir():
        raise SetupError(no_trials(run_dir))
    record = read_ensemble(run_dir)
    if record is None:
        raise StudyError(not_measured(run_dir))
    refuse_output(output, run_dir)
    with staged_at(output) as staged:
        counts = write_members(run_dir, record.members, staged, output, trust_code)
        texts = {
            "load.py": _SCRIPT.replace("COUNTS = {}", f"COUNTS = {json.dumps(counts)}"),
            CARD: _card(record, output, read_trials(run_dir).study),
        }
        for name, text in texts.items():
            (staged / name).write_text(text, encoding="utf-8", newline="")
    return record


def write_members(
    run_dir: RunDir,
    members: Iterable[EnsembleMember],
    staged: Path,
    output: Path,
    trust_code: bool = False,
) -> dict[str, int]:
    """Write models into the directory `staged`, which will be at `output`, as one to load.

    Returns how often each counts, by its name.
    """
    written = []
    for one in members:
        name = run_dir.model(one.trial, one.member).stem
        if not run_dir.saved(one.trial, one.member).is_file():
            found = f"the weights of trial {one.trial} are not kept, but the ensemble averages them"
            raise StudyError(Problem(str(run_dir.root), "", found, how_to_select(run_dir)))
        place = staged / MEMBERS / name
        place.mkdir(parents=True)
        write_model(run_dir, one.trial, one.member, place, output / MEMBERS / name, trust_code)
        saved = read_saved(place, trusted=trust_code)
        written.append({"name": name, "count": one.count, "digest": saved.digest})
    text = json.dumps({"members": written}, indent=1) + "\n"
    (staged / ENSEMBLE_FILE).write_text(text, encoding="utf-8", newline="")
    return {one["name"]: one["count"] for one in written}


def _card(record: EnsembleRecord, output: Path, study: Mapping[str, Any]) -> str:
    """The text of `README.md`."""
    gains = {"validation": record.validation, "test": record.test}
    measured = [
        f"| {part} | {gain.rows} | {number(gain.single)} | {number(gain.ensemble)} | "
        f"{number(gain.trees)} |"
        for part, gain in gains.items()
        if gain is not None
    ]
    falls = sorted(record.importance.items(), key=lambda one: -one[1])
    columns = [f"| {in_cell(name)} | {number(by)} |" for name, by in falls]
    transform = study["settings"]["data"].get("target_transform", "none")
    return _CARD.format(
        candidates=record.candidates,
        metric=record.metric_name,
        averaged="" if transform == "none" else _TRANSFORMED.format(transform=transform),
        summary=". ".join(f"{one[0].upper()}{one[1:]}" for one in verdicts(record)),
        measured="\n".join(measured),
        shuffled=_SHUFFLED.format(columns="\n".join(columns)) if columns else "",
        members="\n".join(f"| {trial} | {count} |" for trial, count in record.weights.items()),
        use=USE,
        directory=MEMBERS,
        name=output.name,
        quoted=quote(f"{output.name}/"),
    )


_TRANSFORMED = """\
The models predict `{transform}` of the target. Their predictions are averaged first,
and the mean is transformed back to the unit of the data.

"""
_SHUFFLED = """\
| column shuffled | worse on test rows by |
| --- | --- |
{columns}

"""
_CARD = """\
# An ensemble of trials

The mean of the predictions of several trials of one study, for classes of their
probabilities. They were selected from {candidates} models by {metric} on
validation rows.

{averaged}{summary}.

| rows | count | {metric} of the best trial | of the ensemble | of trees |
| --- | --- | --- | --- | --- |
{measured}

On validation rows, both are those that were selected on the other half of them.
Trees are scikit-learn's HistGradientBoosting with its defaults, fitted to the same
rows.

{shuffled}| trial | weight |
| --- | --- |
{members}

{use}

`{directory}/` has each of them, with its own README.

With sweeper:

    sweeper.load("{name}/").predict(rows)

    python -m sweeper predict {quoted} new.csv -o out.csv

Without sweeper, with only equinox and numpy (and for models of Flax or Haiku with
that library), in this directory:

    import load
    load.predict(rows)
"""
_SCRIPT = '''\
"""The mean of several models: only needs equinox, numpy, and what these models are written in.

    import load
    load.predict(rows)  # a dict or a DataFrame of columns, or an array in their order
"""

import importlib.util
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
COUNTS = {}  # how often each model counts


def _load(name):
    file = HERE / "members" / name / "load.py"
    spec = importlib.util.spec_from_file_location(f"load_{name}".replace("-", "_"), file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODELS = {name: _load(name) for name in COUNTS}
FIRST = next(iter(MODELS.values()))
DATA = FIRST.DATA


def _mean(of_model):
    """The mean of what a function returns for each model."""
    total = 0
    for name, model in MODELS.items():
        with warnings.catch_warnings():
            if model is not FIRST:  # which has warned of the same rows
                warnings.simplefilter("ignore")
            total = total + COUNTS[name] * of_model(model)
    return total / sum(COUNTS.values())


def probabilities(rows):
    """The probability of each class, shaped (rows, classes)."""

    def of_model(model):
        outputs = np.asarray(model.outputs(rows), np.float64)
        if DATA["one_logit"]:  # the log-odds of the second class
            outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=1)
        odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    return _mean(of_model)


def predict(rows):
    """The class of each row, as in the data, or numbers in the units of the data."""
    if DATA["class_names"]:
        return FIRST.labels_of(DATA["classes"])[probabilities(rows).argmax(axis=1)]
    return FIRST.predictions(_mean(lambda model: model.outputs(rows)))
'''
