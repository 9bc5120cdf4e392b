"""View 11: comparison of several studies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweeper.dashboard.blocks import Block, axis, chart, choice, line, note, rows, upright
from sweeper.dashboard.packing import rounded
from sweeper.dashboard.study import PublishedStudy
from sweeper.dashboard.views.history import BY, best_so_far, better_half
from sweeper.errors import listed
from sweeper.results import formatting

_SOURCE = ("data", "target", "weight")
_TONES = 6  # number of distinguishable line colours; more lines repeat them with another dash
_DASHES = ("solid", "dashed", "dotted")


def comparison_view(studies: Sequence[PublishedStudy], left_out: Sequence[str] = ()) -> list[Block]:
    """One row per study, and the best so far of studies that share an objective.

    Data, targets and weights of rows are shown if they differ: then values cannot be compared. A
    study that cannot be read any more is reported, and so is why others are `left_out`.
    """
    missing = [note(f"A study is not shown: {why}", is_warning=True) for why in left_out]
    if len(studies) == 1:
        hint = "" if left_out else " Give several run directories to compare them."
        return [*missing, note(f"One study is shown.{hint}")]
    names = unique_names(studies)
    records = [_record(name, study) for name, study in zip(names, studies, strict=True)]
    sources = [_source(study) for study in studies]
    differing = [key for key in _SOURCE if len({source[key] for source in sources}) > 1]
    for record, source in zip(records, sources, strict=True):
        record[1:1] = [source[key] for key in differing]
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
    warning = f"These studies differ in {listed(differing)}, so their values are not comparable."
    warnings = [note(warning, is_warning=True)] if differing else []
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
    """Where the rows of a study are from, what it predicts, and the column of the weights of rows.

    Empty texts if these are not published.
    """
    said = {} if study.trials is None else study.trials.said
    data = said.get("settings", {}).get("data", {})
    where = next((data[key] for key in ("path", "name", "function") if data.get(key)), "")
    others = (data.get(key) or "" for key in _SOURCE[1:])
    texts = f"{data.get('source', '')} {where}".strip(), *others
    return dict(
        zip(
            _SOURCE, [one if isinstance(one, str) else ", ".join(one) for one in texts], strict=True
        )
    )


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
