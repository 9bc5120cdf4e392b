"""A run directory with its ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweeper.ledger import Ledger
from sweeper.rundir import RunDir


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    """An empty run directory."""
    made = RunDir(tmp_path / "run")
    made.make()
    return made


@pytest.fixture
def open_ledger(tmp_path: Path) -> Iterator[Callable[[str], Ledger]]:
    """Opens ledgers by name; they are closed at the end."""
    opened: list[Ledger] = []

    def open_one(name: str) -> Ledger:
        path = tmp_path / name
        if not path.exists():
            Ledger.create(path).close()
        opened.append(Ledger.open(path))
        return opened[-1]

    yield open_one
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(open_ledger: Callable[[str], Ledger]) -> Ledger:
    """An empty ledger."""
    return open_ledger("ledger.db")
