"""The files of the page, as included in the package."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from string import Template

_HERE = Path(__file__).parent / "static"
MEDIA = {".css": "text/css", ".js": "text/javascript"}
_LIGHT = re.compile(r":root \{(.*?)\}", re.DOTALL)
_COLOUR = re.compile(r"--([\w-]+): ([^;]*);")


STATIC = {
    path.name: path
    for path in (
        _HERE / "vendored" / "echarts.min.js",
        _HERE / "vendored" / "tabulator.min.js",
        _HERE / "vendored" / "tabulator_simple.min.css",
        _HERE / "page.css",
        _HERE / "page.js",
    )
}
"""The files that the page loads, by name."""


def page_html(studies: Sequence[str], views: Sequence[tuple[str, str]]) -> str:
    """The page itself, which loads the others; one section per view, given by name and title.

    A script fills the sections, and shows one of the `studies` at a time.
    """
    sections = (
        f'<section id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{escape(title)}</h2><div class="body"></div></section>'
        for name, title in views
    )
    page = Template((_HERE / "index.html").read_text(encoding="utf-8"))
    return page.substitute(
        hidden="" if len(studies) > 1 else " hidden",
        studies="".join(f"<option>{escape(name)}</option>" for name in studies),
        links="".join(f'<a href="#{name}">{escape(title)}</a>' for name, title in views),
        sections="\n".join(sections),
    )


@cache
def tones() -> Mapping[str, str]:
    """The colours of the page in its light theme, by tone."""
    style = STATIC["page.css"].read_text(encoding="utf-8")
    light = _LIGHT.search(style)
    assert light is not None, "page.css begins with the light theme"
    return dict(_COLOUR.findall(light[1]))
