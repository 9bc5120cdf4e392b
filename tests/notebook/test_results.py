"""Results show the page of their study in a notebook."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

import sweeper
from sweeper.dashboard.page import Page
from sweeper.dashboard.report import MARK, report
from sweeper.dashboard.study import PublishedStudy
from sweeper.notebook import results as module
from sweeper.rundir import RunDir


class Elements(HTMLParser):
    """The elements of an HTML text with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_results_show_the_report_in_a_frame(run_dir: RunDir) -> None:
    html = sweeper.open_results(run_dir.root)._repr_html_()
    assert html is not None
    ((tag, found),) = Elements(html).found
    page = report(Page([PublishedStudy(run_dir)], is_report=True))
    based = page.replace("<title>", '<base href="about:srcdoc">\n<title>', 1)
    assert (tag, found["srcdoc"]) == ("iframe", based)
    assert MARK in based
    assert "allow-same-origin" not in str(found["sandbox"])


def test_many_trials_are_a_summary(run_dir: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TRIALS", 100)
    html = sweeper.open_results(run_dir.root)._repr_html_()
    assert html is not None and len(html) < 20_000
    shown = Elements(html)
    assert [tag for tag, _ in shown.found].count("tr") == 11
    assert f"sweeper dashboard {run_dir.root}" in shown.text


def test_results_without_a_status_are_text(run_dir: RunDir, tmp_path: Path) -> None:
    shutil.copy(run_dir.trials, tmp_path)
    assert sweeper.open_results(tmp_path)._repr_html_() is None
