"""View 5: how much each parameter matters, as published by `run`."""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.dashboard.blocks import Block, axis, categories, chart, choice, note, rows
from sweeper.dashboard.packing import rounded
from sweeper.errors import counted
from sweeper.results.columns import LEAST_TRIALS
from sweeper.results.ranking import Row

_READING = (
    "fANOVA is the share of the variance of all values that a parameter explains alone, according "
    "to a random forest; parameters are sorted by it here and below. PED-ANOVA says what "
    "distinguishes the best tenth of the trials. A rank correlation (Spearman) above 0 means that "
    "larger values of the parameter go with larger values of the objective. All three depend on "
    "the values that were tried: a sampler that narrows its search, such as TPE, says less about "
    "the rest of the space than random trials do."
)
_OLDER = (
    "An earlier version only computed PED-ANOVA: what distinguishes the best tenth of the "
    "trials, which need not be what affects the value most. Run the study again to add the "
    "other measures."
)
# With fewer trials, the best tenth is fewer than 3 trials. In 70 simulated studies of six
# parameters the most important one came first by fANOVA in 61, 77, 91, 96 and 100 % with 10, 15,
# 20, 30 and 60 random trials, by PED-ANOVA in 17, 33, 37, 44 and 70 %; with 30 trials of TPE in 70
# and 26 % (scripts/bench_importance).
FEW_TRIALS = 30
_ROW = 34
_MARGIN = 100
_MEASURES = {"fanova": ("fANOVA", "complete"), "importance": ("PED-ANOVA", "waiting")}

_NONE = (0.0, 0.0)


def importance_view(known: Sequence[Row], n_complete: int) -> list[Block]:
    """For each objective, bars of both importances, the largest first, and a table.

    `n_complete` is the number of complete trials, which explains why there may be none yet.
    """
    if not known:
        return [note(_not_computed(n_complete))]
    objectives = list(dict.fromkeys(str(row["metric"]) for row in known))
    alternatives = [
        (name, _of_objective(name, [row for row in known if row["metric"] == name]))
        for name in objectives
    ]
    is_older = all(row.get("fanova") is None for row in known)
    reading = _OLDER if is_older else _READING
    return [note(reading), *_warnings(known), choice("objective", alternatives)]


def _not_computed(n_complete: int) -> str:
    if n_complete < LEAST_TRIALS:
        return (
            f"Not computed: importances need at least {LEAST_TRIALS} complete trials, but this "
            f"study has {n_complete}. Pruned trials do not count."
        )
    return (
        "Not computed yet: `sweeper run` computes importances in the background, if parameters are "
        "searched, and publishes them as importance.parquet."
    )


def by_importance(names: Sequence[str], known: Sequence[Row]) -> list[str]:
    """Columns of parameters, sorted by importance for any objective."""
    most: dict[str, tuple[float, float]] = {}
    for row in known:
        name = f"params_{row['parameter']}"
        most[name] = max(_weight(row), most.get(name, _NONE))
    return sorted(names, key=lambda name: most.get(name, _NONE), reverse=True)


def _weight(row: Row) -> tuple[float, float]:
    """The sort key of parameters: fANOVA, then PED-ANOVA, the only one in older files."""
    return float(row.get("fanova") or 0.0), float(row["importance"] or 0.0)


def _warnings(known: Sequence[Row]) -> list[Block]:
    """Warnings if the importances, or those of some parameters, depend on few trials."""
    n_trials = max(int(row.get("n_trials") or 0) for row in known)
    if n_trials < FEW_TRIALS:
        said = (
            f"These importances are from {counted(n_trials, 'complete trial')}. Below {FEW_TRIALS} "
            "their order may be chance, especially for PED-ANOVA, whose best tenth is then fewer "
            "than 3 trials."
        )
        return [note(said, is_warning=True)]
    few = {str(row["parameter"]): _rests_on(row) for row in known if _rests_on(row) < FEW_TRIALS}
    if not few:
        return []
    named = ", ".join(f"{name} ({count})" for name, count in few.items())
    said = f"Fewer than {FEW_TRIALS} trials have these parameters, whose rank may be chance: "
    return [note(f"{said}{named}.", is_warning=True)]


def _rests_on(row: Row) -> int:
    """How many complete trials have the parameter."""
    having = row.get("n_trials_with")
    return int((row.get("n_trials") if having is None else having) or 0)


def _of_objective(objective: str, known: Sequence[Row]) -> list[Block]:
    ordered = sorted(known, key=_weight, reverse=True)
    columns = [
        [None if row.get(name) is None else round(float(row[name]), 2) for row in ordered]
        for name in (*_MEASURES, "rank_correlation")
    ]
    records = [
        [str(row["parameter"]), *values, _rests_on(row)]
        for row, *values in zip(ordered, *columns, strict=True)
    ]
    headings = ["parameter", *(title for title, _ in _MEASURES.values())]
    caption = f"importance of parameters for {objective}"
    table = rows(caption, [*headings, "rank correlation", "trials with it"], records)
    return [_chart(objective, ordered), table]


def _chart(objective: str, ordered: Sequence[Row]) -> Block:
    upwards = ordered[::-1]
    names = [str(row["parameter"]) for row in upwards]
    bars = [
        {
            "type": "bar",
            "name": title,
            "data": rounded([float(row[name] or 0.0) for row in upwards], 4),
            "tone": tone,
        }
        for name, (title, tone) in reversed(_MEASURES.items())  # the last one is drawn on top
        if any(row.get(name) is not None for row in ordered)
    ]
    option = {
        "xAxis": axis("importance", scale=False),
        "yAxis": categories("", names),
        "legend": {"data": [bar["name"] for bar in reversed(bars)]},  # from the top
        "series": bars,
    }
    first = max(_MEASURES, key=lambda name: ordered[0].get(name) is not None)
    title = _MEASURES[first][0]
    most = ", ".join(f"{row['parameter']} {row.get(first) or 0.0:.2f}" for row in ordered[:5])
    trials = max(int(row.get("n_trials") or 0) for row in ordered)
    label = f"importance of parameters for {objective}, of {trials} trials, by {title}: {most}"
    return chart(label, option, _MARGIN + _ROW * len(names))
