"""A report is the page with everything that it needs inside."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweeper.dashboard.curves import Cells, Curves
from sweeper.dashboard.page import VIEWS, Page
from sweeper.dashboard.report import report
from sweeper.dashboard.study import PublishedStudy
from sweeper.dashboard.views.learning import KEPT, curve_record, kept_note
from sweeper.rundir import RunDir
from tests.command_line import CommandLine


def held(html: str) -> dict[str, Any]:
    """The data of a report."""
    found = re.search(r'id="report">([A-Za-z0-9+/=]*)</script>', html)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def test_a_report_loads_nothing(study: PublishedStudy) -> None:
    html = report(Page([study], is_report=True))
    outside = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", html, flags=re.DOTALL)
    assert set(re.findall(r'(?:src|href)="([^"]*)"', outside)) == {
        "data:,",
        "#main",
        *(f"#{view.name}" for view in VIEWS),
        "#comparison",
    }


def test_only_the_scripts_of_the_page_may_run(study: PublishedStudy) -> None:
    html = report(Page([study], is_report=True))
    policy = re.search(r'Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    assert len(scripts) == 3
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")


def test_a_report_contains_what_the_page_would_request(study: PublishedStudy) -> None:
    record = held(report(Page([study], is_report=True)))
    assert record["studies"][0]["tables"]["trials"]["n"] == 120
    assert len(record["curves"][0]) == 120
    assert record["curves"][0]["3"] == Page([study]).curves(0, 3)
    curves = next(view for view in record["studies"][0]["views"] if view["name"] == "curves")
    assert "This report contains" not in curves["html"]


def test_a_report_says_which_curves_it_leaves_out() -> None:
    epochs = np.arange(61)
    cells = Cells.of(epochs, np.zeros_like(epochs), np.zeros(61))
    longer = Curves(measured={("loss", None): cells})
    assert kept_note(Curves(), 200) == []
    assert [block["text"] for block in kept_note(Curves(), 201)] == [KEPT]
    assert [block["text"] for block in kept_note(longer, 1)] == [KEPT]


def test_the_command_writes_a_report(run_dir: RunDir, command: CommandLine) -> None:
    done = command("report", str(run_dir.root), "-o", "page.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "written to page.html; open it in any browser\n"
    html = (command.directory / "page.html").read_text("utf-8")
    assert held(html)["studies"][0]["name"] == "large"
    again = command("report", str(run_dir.root), "-o", "page.html")
    assert (again.returncode, again.stderr) == (0, "")


def test_a_report_leaves_out_a_study_with_a_link_and_says_so(
    run_dir: RunDir, tmp_path: Path, command: CommandLine
) -> None:
    for name in ("a", "b"):
        shutil.copytree(run_dir.root, tmp_path / "runs" / name)
    (tmp_path / "outside.json").write_text('{"secret": 1}')
    linked = tmp_path / "runs" / "a" / "ensemble.json"
    linked.symlink_to(tmp_path / "outside.json")
    done = command("report", str(tmp_path / "runs"), "-o", "page.html")
    refusal = f"{linked}: it is a link, and sweeper follows no link inside a run directory; "
    assert (done.returncode, refusal in done.stderr) == (0, True)
    (shown,) = held((command.directory / "page.html").read_text("utf-8"))["studies"]
    assert "follows no link" in shown["views"][-1]["html"]
    alone = command("report", str(tmp_path / "runs" / "a"), "-o", "page.html")
    assert (alone.returncode, refusal in alone.stderr) == (3, True)


def test_a_report_does_not_replace_another_file(run_dir: RunDir, command: CommandLine) -> None:
    (command.directory / "page.html").write_text("<p>mine</p>", encoding="utf-8")
    refused = command("report", str(run_dir.root), "-o", "page.html")
    assert refused.returncode == 2
    assert "page.html: this file already exists, and this command did not" in refused.stderr
    assert (command.directory / "page.html").read_text("utf-8") == "<p>mine</p>"


def test_a_directory_without_a_study_is_refused(command: CommandLine) -> None:
    Path(command.directory, "empty").mkdir()
    refused = command("report", "empty")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "no study has been run here" in refused.stderr


@pytest.mark.parametrize("n", [1, 2, 59, 60, 61, 119, 120, 121, 1000])
def test_a_report_keeps_at_most_so_many_epochs_of_a_curve(n: int) -> None:
    epochs = np.arange(n)
    cells = Cells.of(epochs, np.zeros(n, np.int64), epochs.astype(np.float64))
    ((_, _, kept, values),) = curve_record(Curves({("m", None): cells}), 0, 60)
    assert (kept[0], kept[-1], len(set(kept))) == (1, n, min(n, 60))
    assert values == [epoch - 1 for epoch in kept]
