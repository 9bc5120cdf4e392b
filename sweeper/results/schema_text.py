"""`SCHEMA.md`: what is in the published tables, written beside them for people."""

from __future__ import annotations

from pathlib import Path

from sweeper.config import StudyConfig
from sweeper.results.replace import swapped
from sweeper.results.schema import columns_of_tables
from sweeper.rundir import RunDir
from sweeper.small_files import holds, read_small

_FIRST = "# The tables of the study "
_HEAD = (
    _FIRST
    + """\
{study}

Seconds end in `_s`, bytes in `_bytes`, times (UTC) in `_at`. null, never NaN. What is marked d is
the same however often a study was interrupted, and with any number of threads or workers.
"""
)


def write_schema_text(run_dir: RunDir, config: StudyConfig) -> None:
    """Write what the columns of this study mean, unless that is there already."""
    content = _text(config).encode()
    if not holds(run_dir.schema, content):
        swapped(run_dir.schema, run_dir.staging, content)


def is_schema_text(path: Path) -> bool:
    """Whether the file at `path` can be read, and is such a text."""
    try:
        return read_small(path).startswith(_FIRST)
    except (OSError, ValueError):
        return False


def _text(config: StudyConfig) -> str:
    parts = [_HEAD.format(study=config.study.name)]
    for name, columns in columns_of_tables(config).items():
        lines = [f"\n## {name}\n", "| column | type | null | | meaning |", "| --- |" + " --- |" * 4]
        for one in columns:
            null, mark = ("yes" if one["null"] else "no"), ("d" if one["deterministic"] else "")
            meaning = str(one["meaning"]).replace("|", "\\|")
            lines.append(f"| {one['name']} | {one['type']} | {null} | {mark} | {meaning} |")
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)
