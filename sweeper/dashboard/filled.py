"""Charts with their rows, colours and chosen curves filled in, as static/page.js does it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from sweeper.dashboard.blocks import Block, Option
from sweeper.dashboard.files import tones
from sweeper.dashboard.packing import Packed
from sweeper.dashboard.study import PublishedStudy
from sweeper.dashboard.views.learning import curve_record

MOST_SELECTED = 6
"""As many trials have a colour of their own."""
Tables = Mapping[str, Mapping[str, Sequence[Any]]]
"""The columns of the tables that series name, in display units."""


def tables_of(study: PublishedStudy) -> Tables:
    """The tables of the page of a study, with all their rows."""
    found: dict[str, dict[str, Sequence[Any]]] = {"trials": {}, "buckets": {}, "spans": {}}
    if study.trials is not None and (n := len(study.trials)):
        found["trials"] = _unpacked(study.trials.packed(np.arange(n)), n)
    if (buckets := study.buckets) is not None and (n := len(buckets)):
        found["buckets"] = _unpacked(buckets.packed(np.arange(n)), n)
        if buckets.recorded is not None:
            drawn = buckets.recorded.drawn
            found["spans"] = _unpacked(buckets.packed_spans(drawn), len(drawn))
    return found


def fill_chart(
    chart: Block, study: PublishedStudy, tables: Tables, selected: Sequence[int]
) -> Option:
    """The option of a chart in which each series has its `data`, and its `color` for a tone.

    Trials in `selected` get a ring, and their curves in a chart of curves.
    """
    option, curves = chart["option"], chart["place"].get("curves")
    series = [_with_data(own, tables, selected) for own in option["series"]]
    if curves is not None:
        series += [
            line
            for place, number in enumerate(selected)
            for line in _curves(study, number, curves, tones()[f"line{place % MOST_SELECTED}"])
        ]
    return {**option, "series": series}


def _unpacked(columns: Mapping[str, Packed], n: int) -> dict[str, Sequence[Any]]:
    return {name: _column(packed, n) for name, packed in columns.items()}


def _column(packed: Packed, n: int) -> Sequence[Any]:
    if not isinstance(packed, dict):
        return packed
    return [packed["all"]] * n if "all" in packed else [packed["of"][at] for at in packed["at"]]


def _with_data(own: Option, tables: Tables, selected: Sequence[int]) -> Option:
    data = _rows(own, tables[own["table"]], selected) if "columns" in own else own["data"]
    tinted = {"color": tones()[own["tone"]]} if "tone" in own else {}
    if own.get("only") == "selected":
        tinted["name"] = _named(selected)
    return {**own, **tinted, "data": data}


def _named(trials: Sequence[int]) -> str:
    return f"trial{'s' if len(trials) > 1 else ''} {', '.join(map(str, trials))}"


def _rows(own: Option, table: Mapping[str, Sequence[Any]], selected: Sequence[int]) -> list[Any]:
    """The rows of a series: missing values are at an edge; without one, only lines have them."""
    if not table:
        return []
    only: Collection[int] | None = own.get("only")
    only = None if only is None else set(selected if only == "selected" else only)
    keep = [True] * len(next(iter(table.values())))
    if "where" in own:
        name, wanted = own["where"]
        keep = [value == wanted for value in table[name]]
    if only is not None:
        keep = [
            is_kept and it in only for is_kept, it in zip(keep, table["trial_number"], strict=True)
        ]
    edges = own.get("edges") or [None] * len(own["columns"])
    columns = [
        table.get(name, [None] * len(keep)) if edge is None else _at_edge(table[name], edge)
        for name, edge in zip(own["columns"], edges, strict=True)
    ]
    rows = [list(row) for is_kept, *row in zip(keep, *columns, strict=True) if is_kept]
    if own["type"] == "parallel":
        return rows
    above = own.get("above")
    return [
        row
        for row in rows
        if None not in row and (above is None or all(value > above for value in row))
    ]


def _at_edge(column: Sequence[Any], edge: float) -> list[Any]:
    return [edge if value is None else value for value in column]


def _curves(study: PublishedStudy, number: int, curves: Sequence[Any], color: str) -> list[Option]:
    """The curves of a trial that a chart shows, as lines; one epoch is a point."""
    records: list[Any] = curve_record(study.curves, number)
    return [
        {
            "type": "line",
            "name": f"trial {number}",
            "data": [list(point) for point in zip(epochs, values, strict=True)],
            "color": color,
            "symbol": "circle" if len(epochs) == 1 else "none",
            "lineStyle": {"width": 2.2},
            "z": 5,
        }
        for metric, phase, epochs, values in records
        if [metric, phase] == list(curves)
    ]
