"""What every test stands on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.command_line import CommandLine

# how long an example takes is the machine's matter
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where all tests keep compiled programs, instead of in the user's own cache."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWEEPER_CACHE_DIR", str(cache))
        yield cache


@pytest.fixture
def command(tmp_path: Path, compile_cache: Path) -> CommandLine:
    """The program, started in an empty directory."""
    return CommandLine(tmp_path, compile_cache)
