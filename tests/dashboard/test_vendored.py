"""Vendored files equal those in their packages."""

from __future__ import annotations

import hashlib
from pathlib import Path

import sweeper.dashboard

VENDORED = Path(sweeper.dashboard.__file__).parent / "static" / "vendored"


def test_each_file_has_its_checksum_and_its_licence() -> None:
    lines = [
        line.split("  ")
        for line in (VENDORED / "VENDORED").read_text("utf-8").splitlines()
        if not line.startswith("#")
    ]
    found = {path.name for path in VENDORED.iterdir()} - {"VENDORED"}
    assert {line[0] for line in lines} == found
    for name, _, _, licence, _, digest in lines:
        assert hashlib.sha256((VENDORED / name).read_bytes()).hexdigest() == digest, name
        assert licence in ("Apache-2.0", "BSD-3-Clause", "MIT")
    packages = {line[1] for line in lines}
    licensed = {line[1] for line in lines if "LICENSE" in line[0]}
    assert packages == licensed


def test_no_script_of_the_page_closes_its_element() -> None:
    for path in (VENDORED.parent / "page.js", *VENDORED.glob("*.js")):
        assert "</script" not in path.read_text("utf-8").lower()
