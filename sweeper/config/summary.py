"""Summarizes a study in a few lines or as HTML: its data, its model, its search."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any, cast

from sweeper.config.search import CategoricalSearch, FloatSearch, IntSearch, SearchEntry
from sweeper.config.study import StudyTable
from sweeper.config.table import Table
from sweeper.config.toml import toml_value
from sweeper.errors import counted, printable, shortened

_STYLE = ' style="text-align: left; padding: 2px 12px 2px 0"'


def study_text(study: StudyTable, search: Mapping[str, SearchEntry], run_dir: Path) -> str:
    """What a study does and searches, in four lines."""
    (_, objective), _ = _goals(study)
    trials = f"{counted(study.n_trials, 'trial')}, proposed by {study.sampler.name}"
    space = "; ".join(f"{key} {_values(entry)}" for key, entry in search.items())
    lines = [
        f"study {study.name}",
        f"  {objective}, {trials}",
        f"  searches {space or 'nothing'}",
        f"  in {run_dir}",
    ]
    return "\n".join(printable(shortened(line)) for line in lines)


def study_html(
    study: StudyTable,
    tables: Mapping[str, Table],
    search: Mapping[str, SearchEntry],
    same_as: Mapping[str, str],
    run_dir: Path,
) -> str:
    """What a study does and searches, as two tables in which all text is escaped.

    `tables` are its other tables by dotted key, of which the settings that are written are shown.
    """
    searched = {*search, *same_as}
    facts = [
        *_goals(study),
        *((key, _settings(key, table, searched)) for key, table in tables.items()),
        ("results", str(run_dir)),
    ]
    rows = "".join(_row(name, text) for name, text in facts if text)
    head = "".join(f"<th{_STYLE}>{name}</th>" for name in ("searched setting", "values", "if"))
    space = "".join(_row(key, _values(entry), _condition(entry)) for key, entry in search.items())
    links = "".join(_row(key, f"as {other}", "") for key, other in same_as.items())
    return (
        f"<table><caption><b>{_text(study.name)}</b></caption><tbody>{rows}</tbody></table>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{space}{links}</tbody></table>"
    )


def _goals(study: StudyTable) -> Iterator[tuple[str, str]]:
    pairs = zip(study.directions, study.objectives, strict=True)
    yield "objective", ", ".join(f"{direction} {metric}" for direction, metric in pairs)
    yield "trials", f"{study.n_trials}, proposed by {study.sampler.name}"


def _settings(key: str, table: Table, searched: Container[str]) -> str:
    """The plain settings of a table that are written and not searched, in their usual order."""
    order = [*type(table).model_fields]
    names = sorted(
        table.model_fields_set, key=lambda it: order.index(it) if it in order else len(order)
    )
    values: dict[str, Any] = {
        name: getattr(table, name) for name in names if f"{key}.{name}" not in searched
    }
    return ", ".join(
        f"{name} {_value(value)}"
        for name, value in values.items()
        if isinstance(value, str | int | float | tuple)
    )


def _values(entry: SearchEntry) -> str:
    """The values of a searched setting: `1 to 4`, `16 to 128, powers of 2`, `relu, tanh`."""
    if isinstance(entry, CategoricalSearch):
        return ", ".join(map(_value, entry.choices))
    how: list[str] = []
    if entry.log:
        how.append("log")
    if isinstance(entry, IntSearch) and entry.base is not None:
        how.append(f"powers of {entry.base}")
    step = entry.step
    if step is not None and (isinstance(entry, FloatSearch) or step != 1):
        how.append(f"step {step}")
    extra = "".join(f" or {_value(value)}" for value in entry.or_values)
    return ", ".join([f"{entry.low} to {entry.high}{extra}", *how])


def _condition(entry: SearchEntry) -> str:
    """The other settings on which it depends."""
    wanted = (entry.when or {}).items()
    return " and ".join(f"{key} is {' or '.join(map(_value, them))}" for key, them in wanted)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        value = [*cast("tuple[object, ...]", value)]
    return toml_value(value)


def _row(*cells: str) -> str:
    return f"<tr>{''.join(f'<td{_STYLE}>{_text(cell)}</td>' for cell in cells)}</tr>"


def _text(text: str) -> str:
    return escape(printable(text))
