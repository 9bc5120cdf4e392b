"""The parts of a view: facts, notes, small tables, charts and choices, all plain data.

A chart is an ECharts option in which a series may name columns instead of containing data: the page
fills them in from its tables, for the rows that are shown. `tone` names a colour of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

Block = dict[str, Any]
Option = dict[str, Any]

HEIGHT = 340
_NAME_GAP = 26
_UPRIGHT_GAP = 46
_NARROW = 350  # pixels, width of a chart on a phone
_KEY, _LETTER, _LEGEND_ROW = 36, 6.6, 22  # pixels of the parts of a legend


def table(columns: Sequence[Mapping[str, Any]], order: str, began_at: float) -> Block:
    """The table of trials, sorted by `order`: the best first by the first objective.

    Times count from `began_at`, in seconds since 1970.
    """
    return {"kind": "table", "columns": list(columns), "order": order, "began_at": began_at}


def facts(items: Sequence[tuple[str, str]]) -> Block:
    """Names and values, one per line."""
    return {"kind": "facts", "items": [list(item) for item in items]}


def note(text: str, is_warning: bool = False) -> Block:
    """A sentence, maybe marked as a warning."""
    return {"kind": "note", "text": text, "warning": is_warning}


def rows(caption: str, headings: Sequence[str], records: Sequence[Sequence[Any]]) -> Block:
    """A small table; a cell is text, a number, `trials_cell` or `details_cell`."""
    return {
        "kind": "rows",
        "caption": caption,
        "headings": list(headings),
        "rows": [list(record) for record in records],
    }


def trials_cell(numbers: Sequence[int]) -> dict[str, Any]:
    """A cell with trial numbers, each of which can be selected."""
    return {"trials": list(numbers)}


def details_cell(summary: str, text: str) -> dict[str, Any]:
    """A cell that shows one line, and the full text when opened."""
    return {"summary": summary, "text": text}


def chart(
    label: str,
    option: Option,
    height: int = HEIGHT,
    *,
    width: int = 0,
    more_keys: Sequence[str] = (),
    **more: Any,
) -> Block:
    """A chart; `label` describes it for people who cannot see it, `width` is its minimum.

    `more_keys` are names that its legend may have in addition to those of the series.
    """
    series = option["series"]
    has_room = {"left": 64, "right": 24, "top": 34 if "legend" in option else 14, "bottom": 46}
    if "dataZoom" in option:
        has_room["bottom"] = 74
    has_room = option.get("grid", has_room)
    if "legend" in option and "type" not in option["legend"]:
        keys = [*(own["name"] for own in series), *more_keys]
        has_room = _below_legend(keys, has_room)
    lines = all(own["type"] in ("line", "bar") or own.get("renderer") == "band" for own in series)
    # content that is too high would be cut off within the chart
    tooltip = {"trigger": "axis" if lines else "item", "confine": True, "appendTo": "body"}
    whole = {"animation": False, "tooltip": tooltip, **option, "grid": has_room}
    place = {"label": label, "height": height, "width": width, **more}
    return {"kind": "chart", "place": place, "option": whole}


def _below_legend(keys: Sequence[str], room: Option) -> Option:
    """The axis with room for a legend that needs several rows, and where the chart begins."""
    widths = [_KEY + _LETTER * len(key) for key in keys]
    rows, left = 1, _NARROW
    for width in widths:
        rows, left = (rows, left - width) if width <= left else (rows + 1, _NARROW - width)
    return {**room, "below": int(sum(widths)), "lower": room["top"] + _LEGEND_ROW * (rows - 1)}


def choice(label: str, alternatives: Sequence[tuple[str, Sequence[Block]]]) -> Block:
    """Blocks of which one alternative is shown; a single one needs no choice."""
    return {
        "kind": "choice",
        "label": label,
        "alternatives": [[name, list(blocks)] for name, blocks in alternatives],
    }


def grid(blocks: Sequence[Block], size: Literal["narrow", "wide"] = "narrow") -> Block:
    """Blocks side by side, as many as fit."""
    return {"kind": "grid", "blocks": list(blocks), "size": size}


def axis(name: str, unit: str | None = None, *, log: bool = False, **more: Any) -> Option:
    """An axis of numbers, labelled with its unit."""
    label = f"{name} ({unit})" if unit else name
    scale: Option = {"type": "log"} if log else {"type": "value", "scale": True}
    return {"name": label, "nameLocation": "middle", "nameGap": _NAME_GAP, **scale, **more}


def upright(given: Option) -> Option:
    """The same axis, placed vertically, where labels need more space."""
    return {**given, "nameGap": _UPRIGHT_GAP}


def categories(name: str, values: Sequence[Any], **more: Any) -> Option:
    """An axis of strings."""
    texts = [str(value) for value in values]
    place = {"nameLocation": "middle", "nameGap": _NAME_GAP}
    return {"name": name, **place, "type": "category", "data": texts, **more}


def points(
    name: str, columns: Sequence[str], tone: str, *, table: str = "trials", **more: Any
) -> Option:
    """A scatter of two columns of a table of the page."""
    return {
        "type": "scatter",
        "name": name,
        "table": table,
        "columns": list(columns),
        "tone": tone,
        "large": True,
        "largeThreshold": 2000,
        **more,
    }


def size_of_points(n: int) -> int:
    """The size, in pixels, at which to draw each of `n` points."""
    return 6 if n <= 1000 else 4 if n <= 6000 else 3


def ring(columns: Sequence[str]) -> Option:
    """A ring around each selected trial."""
    return {
        "type": "scatter",
        "name": "selected",
        "table": "trials",
        "columns": list(columns),
        "only": "selected",
        "symbolSize": 15,
        "tone": "selected",
        "z": 9,
        "silent": True,
    }


ZOOM = ({"type": "slider", "height": 14, "bottom": 12, "showDataShadow": False}, {"type": "inside"})


def line(name: str, data: Sequence[Any], tone: str, **more: Any) -> Option:
    """A line through points that are part of the option."""
    return {
        "type": "line",
        "name": name,
        "data": list(data),
        "tone": tone,
        "symbol": "none",
        **more,
    }
