"""Markdown in the terminal, with tables in which no word is cut off."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, TableElement
from rich.table import Table


class _WholeTable(TableElement):
    """A table whose long words are folded, those of a narrow first column last."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for shown in super().__rich_console__(console, options):
            if isinstance(shown, Table):
                for column in shown.columns:
                    column.overflow = "fold"
                shown.columns[0].no_wrap = self._first_width() <= options.max_width * 2 // 5
            yield shown

    def _first_width(self) -> int:
        rows = [] if self.body is None else self.body.rows
        return max((row.cells[0].content.cell_len for row in rows), default=0)


class WholeMarkdown(Markdown):
    """Markdown that is shown whole, however narrow the terminal is."""

    elements: ClassVar = {**Markdown.elements, "table_open": _WholeTable}
