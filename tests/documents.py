"""README, guides and CONTRIBUTING as tests read them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


README = _text(ROOT / "README.md")
GUIDES = {path.stem: _text(path) for path in sorted((ROOT / "sweeper" / "guide").glob("*.md"))}
CONTRIBUTING = _text(ROOT / ".github" / "CONTRIBUTING.md")
# each by its path below the root
DOCUMENTS = {
    "README.md": README,
    **{f"sweeper/guide/{name}.md": text for name, text in GUIDES.items()},
    ".github/CONTRIBUTING.md": CONTRIBUTING,
}
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(heading: str, text: str) -> str:
    """What stands below a heading of the second level."""
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def headings(text: str) -> list[str]:
    """The headings of the second level."""
    return re.findall(r"^## (.+)$", without_code(text), flags=re.MULTILINE)


def blocks(text: str) -> list[tuple[str, str]]:
    """Each code block with its language."""
    return _FENCE.findall(text)


def code(language: str, text: str) -> list[str]:
    """The code blocks of a language."""
    return [block for its, block in blocks(text) if its == language]


def without_code(text: str) -> str:
    """The text around code blocks."""
    return _FENCE.sub("", text)


def anchor(heading: str) -> str:
    """What a link to a heading says after #."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
