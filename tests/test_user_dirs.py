"""The cache is private, uses only its own names, and is not used if it cannot be."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

from sweeper import user_dirs
from sweeper.user_dirs import cache_root, own_directory


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    user_dirs._own_directory.cache_clear()
    monkeypatch.setenv("SWEEPER_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    user_dirs._own_directory.cache_clear()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_directories_are_private(root: Path) -> None:
    (root / "data").mkdir(parents=True, mode=0o755)
    (root / "data").chmod(0o777)
    (root / "theirs").mkdir(mode=0o755)
    for name in ("data", "xla-1"):
        assert own_directory(name) == root / name
        assert mode(root / name) == 0o700
    assert mode(root / "theirs") == 0o755


def test_the_root_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWEEPER_CACHE_DIR", "here")
    assert cache_root() == tmp_path / "here"


def told(caplog: pytest.LogCaptureFixture) -> str:
    """The only warning about a cache that cannot be used, however often it is requested."""
    with caplog.at_level(logging.WARNING, "sweeper"):
        assert [own_directory("data") for _ in range(3)] == [None] * 3
    (record,) = caplog.records
    return record.getMessage()


@pytest.mark.parametrize("name", ["", "data"])
def test_a_file_in_its_place_does_not_stop_the_study(
    name: str, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = root / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("mine", encoding="utf-8")
    assert "running without a cache" in told(caplog)
    assert path.read_text(encoding="utf-8") == "mine"


def test_a_link_inside_is_not_followed(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (root / "data").symlink_to(outside)
    assert "it is a link" in told(caplog)
    assert mode(outside) == 0o755


@pytest.mark.parametrize("owner", ["theirs", "root's"])
def test_a_directory_of_another_user_is_not_trusted(
    owner: str, root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everyone who can write there could make a program run; only root can write root's files."""
    found = os.stat_result(
        (stat.S_IFDIR | 0o755, 0, 0, 2, 0 if owner == "root's" else 54321, *[0] * 5)
    )
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    monkeypatch.setattr(Path, "lstat", lambda _: found)
    monkeypatch.setattr(Path, "chmod", refused)
    if owner == "root's":
        assert own_directory("data") == root / "data"
    else:
        assert "it belongs to another user" in told(caplog)


def refused(*_: object, **__: object) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("call", ["mkdir", "lstat", "chmod"])
def test_a_refusing_disk_does_not_stop_the_study(
    call: str, root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "data").mkdir(parents=True)
    (root / "data").chmod(0o777)
    monkeypatch.setattr(Path, call, refused)
    assert "running without a cache" in told(caplog)


def test_no_cache_is_used_without_a_home_directory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("SWEEPER_CACHE_DIR")
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda _: Path("~/.cache/sweeper"))
    assert cache_root() is None
    assert "this user has no home directory" in told(caplog)
