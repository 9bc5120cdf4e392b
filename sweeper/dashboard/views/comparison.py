"""View 11: comparison of several studies."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeper.dashboard.blocks import Block, axis, chart, choice, line, note, rows, upright
from sweeper.dashboard.packing import rounded
from sweeper.dashboard.study import PublishedStudy
from sweeper.dashboard.views.history import BY, best_so_far, better_half
from sweeper.errors import listed
from sweeper.results import formatting

_NAMED = ("source", "path", "name", "function")  # shown together as `data`
_FEATURES = ("scale", "impute", "categorical", "categorical_columns", "drop")
_SPLIT = ("seed", "folds")  # settings of [study] that change how rows are split
_TONES = 6  # number of distinguishable line colours; more lines repeat them with another dash
_DASHES = ("solid", "dashed", "dotted")


def comparison_view(studies: Sequence[PublishedStudy], left_out: Sequence[str] = ()) -> list[Block]:
    """One row per study, and the best so far of studies that share an objective.

    Settings of the data, replicates and folds, and the loss if studies are judged by it, are shown
    if they differ: then most values cannot be compared. A study that cannot be read any more is
    reported, and so is why others are `left_out`.
    """
    missing = [note(f"A study is not shown: {why}", is_warning=True) for why in left_out]
    if len(studies) == 1:
        hint = "" if left_out else " Give several run directories to compare them."
        return [*missing, note(f"One study is shown.{hint}")]
    names = unique_names(studies)
    records = [_record(name, study) for name, study in zip(names, studies, strict=True)]
    is_by_loss = any(_is_loss(metric) for study in studies for metric in _metrics(study))
    sources = [{**_source(study), **_members(study, is_by_loss)} for study in studies]
    keys = dict.fromkeys(key for source in sources for key in source)
    differing = [key for key in keys if len({source.get(key, "") for source in sources}) > 1]
    for record, source in zip(records, sources, strict=True):
        record[1:1] = [source.get(key, "") for key in differing]
    headings = [
        "study",
        *differing,
        "state",
        "trials",
        "objective",
        "best",
        "trial",
        "parameters",
        "compile (s)",
        "train (s)",
    ]
    warnings = _differences(differing) if differing else _other_rows(studies)
    for name, study in zip(names, studies, strict=True):
        if study.problem is not None:
            said = f"{name} cannot be read, and is shown as it was before: {study.problem}"
            warnings.append(note(said, is_warning=True))
    return [*missing, *warnings, rows("studies", headings, records), *_charts(names, studies)]


def unique_names(studies: Sequence[PublishedStudy]) -> list[str]:
    """The names of studies, with the run directory if two have the same name."""
    names = [study.status.study for study in studies]
    return [
        f"{name} ({study.run_dir.root})" if names.count(name) > 1 else name
        for name, study in zip(names, studies, strict=True)
    ]


def _source(study: PublishedStudy) -> dict[str, str]:
    """The settings of a study's data, by the words of the study file; empty if not published."""
    data = _data(_settings(study))
    named = [str(data.pop(key)) for key in _NAMED if data.get(key)]
    others = {f"data.{key}": _text(value) for key, value in data.items()}
    return {"data": " ".join(named)} | others


def _members(study: PublishedStudy, is_by_loss: bool) -> dict[str, str]:
    """How many trainings a value of a study averages, and its loss if studies are judged by it."""
    settings = _settings(study)
    own = settings.get("study", {})
    found = {"study.replicates": own.get("replicates", 1), "study.folds": own.get("folds")}
    loss = {"train.loss": settings.get("train", {}).get("loss")} if is_by_loss else {}
    return {key: _text(value) for key, value in {**found, **loss}.items()}


def _metrics(study: PublishedStudy) -> tuple[str, ...]:
    return () if study.trials is None else study.trials.metrics


def _is_loss(metric: str) -> bool:
    return metric.partition("_")[2].startswith("loss")


def _data(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a study's data but its seed, with defaults that its version did not have."""
    from sweeper.config.tables import kind_of  # which takes long to import

    recorded = settings.get("data", {})
    kind, _ = kind_of("data", {"data": recorded}, lambda key: False)
    defaults = kind.model_construct().model_dump(mode="json") if kind else {}
    split = {**defaults.get("split", {}), **recorded.get("split", {})}
    split.pop("seed", None)
    return {**defaults, **recorded, "split": split}


def _settings(study: PublishedStudy) -> Mapping[str, Any]:
    return {} if study.trials is None else study.trials.said.get("settings", {})


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_text(own)}" for key, own in value.items() if own is not None)
    return value if isinstance(value, str) else json.dumps(value).strip("[]").replace('"', "")


def _differences(keys: Sequence[str]) -> list[Block]:
    """What differing settings mean for a comparison of values."""
    features = [key for key in keys if key.removeprefix("data.") in _FEATURES]
    if others := [key for key in keys if key not in features]:
        found = f"These studies differ in {listed(others)}, so their values are not comparable."
        return [note(found, is_warning=True)]
    return [note(f"These studies differ in {listed(features)}: their features are not the same.")]


def _other_rows(studies: Sequence[PublishedStudy]) -> list[Block]:
    """What to say if studies have the same settings of the data, but perhaps not the same data.

    Digests of prepared data can be compared if no other setting changes how it is prepared.
    """
    settings = [_settings(study) for study in studies]
    digests = [study.baseline.digest if study.baseline else None for study in studies]
    by_preparation: defaultdict[str, set[str]] = defaultdict(set)
    for one, digest in zip(settings, digests, strict=True):
        if digest is not None:
            by_preparation[json.dumps(_preparation(one), sort_keys=True)].add(digest)
    if any(len(found) > 1 for found in by_preparation.values()):
        found = "Some of these studies have the same settings of the data, but other data, so their"
        return [note(f"{found} values are not comparable.", is_warning=True)]
    if None not in digests and len(by_preparation) == 1:
        return []
    files = [_study_file(study) for study in studies]
    path = settings[0].get("data", {}).get("path")
    if path is None or Path(path).is_absolute() or len({file.parent for file in files if file}) < 2:
        return []
    found = f"These studies may have read different files: data.path is '{path}' in all, but their "
    return [note(f"{found}study files are in different directories.", is_warning=True)]


def _preparation(settings: Mapping[str, Any]) -> list[Any]:
    """The settings that change how data is prepared."""
    study, model, search = (settings.get(name, {}) for name in ("study", "model", "search"))
    return [
        settings.get("edition"),
        _data(settings),
        settings.get("data", {}).get("split", {}).get("seed"),
        settings.get("train", {}).get("loss"),
        settings.get("execution", {}).get("precision"),
        *map(study.get, _SPLIT),
        # bins are part of the data
        [(model.get(name), search.get(f"model.{name}")) for name in ("numbers", "bins", "n_bins")],
    ]


def _study_file(study: PublishedStudy) -> Path | None:
    file = None if study.trials is None else study.trials.said.get("study_file")
    return None if file is None else Path(file)


def _record(name: str, study: PublishedStudy) -> list[Any]:
    status = study.status
    best = status.best
    return [
        name,
        status.state,
        f"{formatting.finished_trials(status.counts)} of {status.n_trials}",
        ", ".join(formatting.names(status.metric)),
        None if best is None else rounded([best["value"]])[0],
        None if best is None else best["trial_number"],
        "" if best is None else formatting.settings(best["params"]),
        *rounded([status.compile_s, status.train_s], 4),
    ]


def _charts(names: Sequence[str], studies: Sequence[PublishedStudy]) -> list[Block]:
    """The best so far, for each objective that studies have as their first."""
    groups: dict[str, list[tuple[str, PublishedStudy]]] = {}
    for name, study in zip(names, studies, strict=True):
        if study.trials is not None and len(study.trials):
            groups.setdefault(study.trials.metrics[0], []).append((name, study))
    alternatives = [
        (
            f"{metric} by {by}{', the better half' if is_near else ''}",
            [_chart(metric, by, members, is_near)],
        )
        for metric, members in groups.items()
        for is_near in (False, True)
        for by in BY
    ]
    return [choice("best so far of", alternatives)] if alternatives else []


def _better_half(members: Sequence[tuple[str, PublishedStudy]]) -> dict[str, Any]:
    """The bounds of an axis that shows the better half of the trials of each study."""
    halves = [better_half(study.trials, 0) for _, study in members if study.trials]
    bounds = [half for half in halves if half]
    if not bounds:
        return {}
    return {"min": min(half["min"] for half in bounds), "max": max(half["max"] for half in bounds)}


def _chart(
    metric: str, by: str, members: Sequence[tuple[str, PublishedStudy]], is_near: bool = False
) -> Block:
    column, unit = BY[by]
    series = [
        line(
            name,
            best_so_far(study.trials, 0, column) if study.trials else [],
            f"line{place % _TONES}",
            step="end",
            lineStyle={"type": _DASHES[place // _TONES % len(_DASHES)], "width": 2},
        )
        for place, (name, study) in enumerate(members)
    ]
    option = {
        "xAxis": axis(by, unit, scale=False),
        "yAxis": upright(axis(f"best {metric}", **(_better_half(members) if is_near else {}))),
        "legend": {} if len(members) <= _TONES else {"type": "scroll"},
        "series": series,
    }
    return chart(f"best {metric} so far by {by}, of {len(members)} studies", option)
