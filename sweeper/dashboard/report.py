"""The page of some studies as one self-contained file."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Mapping

import numpy as np

from sweeper.dashboard.files import STATIC
from sweeper.dashboard.packing import as_json
from sweeper.dashboard.page import Page
from sweeper.dashboard.study import PublishedStudy
from sweeper.dashboard.views.learning import KEPT_CURVES, KEPT_EPOCHS, curve_record

_STYLE = re.compile(r'<link rel="stylesheet" href="static/([\w.]+)">')
_SCRIPT = re.compile(r'<script src="static/([\w.]+)"></script>')


MARK = '<script type="application/octet-stream" id="report">'
"""What every report contains, and hardly any other file."""


def report(page: Page) -> str:
    """The page with its data, styles and scripts included.

    The data, each study's payload and curves, is packed as base64, so that no user text can end
    the element that contains it.
    """
    studies = [page.payload(index) for index in range(len(page.studies))]
    record = {"studies": studies, "curves": [_curves(study) for study in page.studies]}
    data = base64.b64encode(gzip.compress(as_json(record).encode(), 6, mtime=0)).decode()
    held = f"{MARK}{data}</script>\n"
    scripts = {name: _text(name) for name in STATIC if name.endswith(".js")}
    html = _STYLE.sub(lambda found: f"<style>{_text(found[1])}</style>", page.html())
    html = _SCRIPT.sub(lambda found: f"<script>{scripts[found[1]]}</script>", html)
    html = html.replace("<script>", f"{held}<script>", 1)
    return html.replace("<title>", f"{_policy(scripts)}\n<title>", 1)


def _text(name: str) -> str:
    return STATIC[name].read_text(encoding="utf-8")


def _curves(study: PublishedStudy) -> dict[int, list[list[object]]]:
    """The curves of the best trials, then of the last ones."""
    trials = study.trials
    if trials is None:
        return {}
    numbers = trials.numbers("trial_number").astype(int)
    best = numbers[trials.best(KEPT_CURVES)].tolist()
    chosen = dict.fromkeys([*best, *np.sort(numbers)[::-1].tolist()])
    return {n: curve_record(study.curves, n, KEPT_EPOCHS) for n in list(chosen)[:KEPT_CURVES]}


def _policy(scripts: Mapping[str, str]) -> str:
    """A policy under which nothing may be loaded, and only the page's own scripts run."""
    digests = (hashlib.sha256(text.encode()).digest() for text in scripts.values())
    own = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    policy = f"default-src 'none'; script-src {own}; style-src 'unsafe-inline'; img-src data:"
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
