"""Blocks as HTML in which all text is escaped; charts and the table of trials are placeholders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sweeper.dashboard.blocks import Block, Option
from sweeper.dashboard.trials import CONVERTED
from sweeper.results import formatting

Charts = dict[str, Option]
"""The options of the charts of a view, by the name of their placeholder."""


_CODE = re.compile("`([^`]+)`")
# a field that shows the numbers of the selected trials, and can be edited
_PICKER = (
    '<label class="tools">trials, at most six '
    '<input id="picked" size="18" inputmode="numeric" aria-describedby="missing"></label>'
    '<p id="missing" class="note" role="status"></p>'
)
_SHARE = re.compile(r"\d+ %")
_TABULATOR = {
    "index": "_row",
    "height": 380,
    "layout": "fitDataFill",
    "placeholder": "no trial passes the filters",
    "clipboard": "copy",
    "clipboardCopyRowRange": "active",
    # all digits; formatting rows, too, would make Tabulator mistake the copies for the rows
    "clipboardCopyConfig": {"formatCells": False},
    "downloadRowRange": "active",
    "columnDefaults": {
        "headerFilter": "input",
        "headerFilterPlaceholder": "filter",
        "sorterParams": {"alignEmptyValues": "bottom"},
        "maxWidth": 360,
        "minWidth": 72,
    },
}


def view_html(name: str, blocks: Sequence[Block]) -> tuple[str, Charts]:
    """The content of a section of the page, and its charts."""
    charts: Charts = {}
    return _all(blocks, name, charts), charts


def _all(blocks: Sequence[Block], key: str, charts: Charts) -> str:
    return "".join(_html(block, f"{key}-{place}", charts) for place, block in enumerate(blocks))


def _html(block: Block, key: str, charts: Charts) -> str:
    match block["kind"]:
        case "note":
            kind = "note warning" if block["warning"] else "note"
            text = _CODE.sub(r"<code>\1</code>", escape(block["text"]))
            return f'<p class="{kind}">{text}</p>'
        case "facts":
            items = (f"<dt>{escape(n)}</dt><dd>{escape(value)}</dd>" for n, value in block["items"])
            return f"<dl>{''.join(items)}</dl>"
        case "grid":
            return f'<div class="grid {block["size"]}">{_all(block["blocks"], key, charts)}</div>'
        case "shares":
            return _shares(block)
        case "rows":
            return _rows(block)
        case "choice":
            return _choice(block, key, charts)
        case "chart":
            charts[key] = {"option": block["option"], **block["place"]}
            return f'<div class="scroll" data-chart="{key}"></div>{_zoom(block["option"], key)}'
        case "table":
            charts["table"] = _table_options(block)
            return _table(block["columns"])
        case "picker":
            return _PICKER
        case other:
            raise ValueError(f"unknown kind of block: {other}")


def _shares(block: Block) -> str:
    """A bar of parts, drawn as SVG, since the page's policy forbids inline styles."""
    whole = sum(count for _, count, _ in block["shares"]) or 1
    bars: list[str] = []
    keys: list[str] = []
    at = 0.0
    for name, count, tone in block["shares"]:
        width = 100 * count / whole
        bars.append(f'<rect class="{tone}" x="{at:.3f}" width="{width:.3f}" height="1"/>')
        swatch = f'<rect class="{tone}" width="11" height="11"/>'
        swatch = f'<svg class="swatch" aria-hidden="true">{swatch}</svg>'
        keys.append(f"<li>{swatch}{count} {escape(name)}</li>")
        at += width
    drawn = (
        f'<svg class="shares" viewBox="0 0 100 1" preserveAspectRatio="none">{"".join(bars)}</svg>'
    )
    named = escape(block["label"])
    listed = f'<ul class="keys" aria-label="{named}">{"".join(keys)}</ul>'
    return f'<div aria-hidden="true">{drawn}</div>{listed}'


def _rows(block: Block) -> str:
    caption = escape(block["caption"])
    kinds = [_kind(column) for column in zip(*block["rows"], strict=True)]
    kinds = kinds or [""] * len(block["headings"])
    heads = "".join(
        f'<th scope="col"{kind}>{escape(heading)}</th>'
        for heading, kind in zip(block["headings"], kinds, strict=True)
    )
    rows = "".join(f"<tr>{''.join(map(_cell, row, kinds))}</tr>" for row in block["rows"])
    table = (
        f"<table><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>"
    )
    region = f'class="scroll" tabindex="0" role="region" aria-label="{caption}"'
    return f"<div {region}>{table}</table></div>"


def _kind(column: Sequence[Any]) -> str:
    """The class that aligns the cells of a column, and its head, to the right for numbers."""
    cells = [value for value in column if value not in (None, "-")]
    are_numbers = all(isinstance(it, int | float) or _SHARE.fullmatch(str(it)) for it in cells)
    return ' class="number"' if are_numbers else ""


def _cell(value: Any, kind: str) -> str:
    if isinstance(value, dict):
        if "trials" in value:
            return f"<td>{''.join(map(trial_button, value['trials']))}</td>"
        summary, text = escape(value["summary"]), escape(value["text"].strip())
        if summary == text:
            return f"<td>{summary}</td>"
        return f"<td><details><summary>{summary}</summary><pre>{text}</pre></details></td>"
    return f"<td{kind}>{escape(formatting.number(value))}</td>"


def _zoom(option: Option, key: str) -> str:
    """How to zoom the chart of this key, if that is possible, and a button that undoes it."""
    if "dataZoom" not in option:
        return ""
    button = f'<button type="button" data-reset="{key}">Reset zoom</button>'
    return f'<p class="tools note">{button} Ctrl + wheel, or the bar below the chart, zooms.</p>'


def trial_button(number: int) -> str:
    """A button that selects a trial."""
    return (
        f'<button type="button" data-trial="{number}" aria-label="trial {number}">{number}</button>'
    )


def _choice(block: Block, key: str, charts: Charts) -> str:
    """Alternatives of which the page shows one; a single one without a choice."""
    names = [name for name, _ in block["alternatives"]]
    contents = [
        _all(inner, f"{key}-{place}", charts)
        for place, (_, inner) in enumerate(block["alternatives"])
    ]
    parts = [
        f'<div class="alternative"{" hidden" if place else ""}>{content}</div>'
        for place, content in enumerate(contents)
    ]
    if len(names) == 1:
        return parts[0]
    options = "".join(f"<option>{escape(name)}</option>" for name in names)
    select = f'<select class="choice" id="choice-{key}">{options}</select>'
    label = f'<label class="tools">{escape(block["label"])} {select}</label>'
    return f"<div>{label}{''.join(parts)}</div>"


def _table_options(block: Block) -> dict[str, Any]:
    """What a script needs to draw the table of trials."""
    columns = block["columns"]
    return {
        "options": _TABULATOR | {"initialSort": [{"column": "value", "dir": block["order"]}]},
        "columns": [_definition(column) for column in columns],
        "meanings": {column["name"]: column["meaning"] for column in columns},
        "units": {c["name"]: c["unit"] for c in columns if c["unit"] in CONVERTED},
        "began_at": block["began_at"],
        "tips": [
            [column["name"], column["title"], column["unit"] or ""]
            for column in columns
            if column["is_in_charts"]
        ],
    }


def _table(columns: Sequence[Mapping[str, Any]]) -> str:
    """The controls around the table of trials, which a script draws."""
    boxes = "".join(
        f'<label><input type="checkbox" checked data-column="{escape(column["name"])}"> '
        f"{escape(column['title'])}</label>"
        for column in columns
    )
    return (
        '<p class="note">Filters: &gt; 0.9, &lt;= 3, 0.9..1, = relu, != relu, null, or part of '
        "what is shown. Copy and CSV keep all digits of the rows and columns shown. A "
        "click, or arrow keys and Enter, selects a trial for the charts; on the head of a column a "
        "click, Enter or Space sorts by it.</p>"
        '<div class="tools"><span id="count" role="status"></span>'
        '<button type="button" id="clear">Clear filters</button>'
        '<button type="button" id="copy">Copy</button><button type="button" id="csv">CSV</button>'
        '<label><input type="checkbox" id="hides" checked> hide constant columns</label></div>'
        f"<details><summary>Choose columns</summary>"
        f'<div class="columns">{boxes}</div></details><div id="table"></div>'
    )


def _definition(column: Mapping[str, Any]) -> dict[str, Any]:
    """A column in the form that Tabulator expects."""
    title, unit, is_text = column["title"], column["unit"], column["is_text"]
    # the page has the names of classes in place of their ids
    exported = "class_name" if column["name"] == "class_id" else column["name"]
    return {
        "field": column["name"],
        "title": f"{title} ({unit})" if unit else title,
        "titleDownload": exported,
        "titleClipboard": exported,
        "sorter": "string" if is_text else "number",
        "hozAlign": "left" if is_text else "right",
        "headerFilterParams": {"elementAttributes": {"aria-label": f"filter by {title}"}},
    }
