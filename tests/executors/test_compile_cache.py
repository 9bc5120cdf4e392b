"""A damaged entry of the compile cache is compiled again, without changing rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import sweeper
from sweeper import user_dirs
from sweeper.executors.compile_cache import (
    CheckedCache,
    cache_directory,
    lines_on_processor,
    use_cache,
)
from sweeper.executors.jax_setup import configure_jax, jax_restored
from sweeper.executors.private_apis import current_cache
from sweeper.rundir import RunDir
from tests.digest import deterministic_digest
from tests.in_process import study_in
from tests.small_studies import DIGITS

KEY, VALUE = "jit_f-0123", bytes(range(256)) * 8


@pytest.fixture(autouse=True)
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    user_dirs._own_directory.cache_clear()
    root = tmp_path / "cache"
    monkeypatch.setenv("SWEEPER_CACHE_DIR", str(root))
    before = jax.config.values["jax_enable_compilation_cache"]
    jax.config.update("jax_enable_compilation_cache", True)  # a calibration may have closed it
    use_cache(None)
    yield root
    jax.config.update("jax_enable_compilation_cache", before)
    use_cache(None)
    user_dirs._own_directory.cache_clear()


def entry_in(directory: Path) -> Path:
    return directory / f"{KEY}-checked-cache"


def test_an_entry_is_returned_unchanged(tmp_path: Path) -> None:
    cache = CheckedCache(tmp_path)
    assert cache.get(KEY) is None
    cache.put(KEY, VALUE)
    assert CheckedCache(tmp_path).get(KEY) == VALUE


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_damaged_entry_is_missing_even_if_it_cannot_be_removed(
    is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_kept:
        monkeypatch.setattr(Path, "unlink", refusing)
    cache, chance = CheckedCache(tmp_path), random.Random(0)
    cache.put(KEY, VALUE)
    written = entry_in(tmp_path).read_bytes()
    for _ in range(300):
        changed = bytearray(written)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        content = bytes(changed) if chance.random() < 0.5 else written[: chance.randrange(2000)]
        entry_in(tmp_path).write_bytes(content)
        assert cache.get(KEY) is None
        assert entry_in(tmp_path).exists() is is_kept


def refusing(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_an_entry_under_another_name_is_not_used(tmp_path: Path) -> None:
    cache = CheckedCache(tmp_path)
    cache.put("jit_g-4567", VALUE)
    (tmp_path / "jit_g-4567-checked-cache").rename(entry_in(tmp_path))
    assert cache.get(KEY) is None


@pytest.mark.parametrize("kind", ["directory", "link", "link to nothing"])
def test_other_files_in_place_of_an_entry_are_never_followed(kind: str, tmp_path: Path) -> None:
    outside, directory = tmp_path / "outside", tmp_path / "cache"
    directory.mkdir()
    if kind == "directory":
        entry_in(directory).mkdir()
    else:
        entry_in(directory).symlink_to(outside)
    if kind == "link":
        outside.write_bytes(b"mine")
    cache = CheckedCache(directory)
    assert cache.get(KEY) is None
    cache.put(KEY, VALUE)
    assert cache.get(KEY) == (None if kind == "directory" else VALUE)
    assert outside.exists() is (kind == "link")
    assert kind != "link" or outside.read_bytes() == b"mine"


def test_jax_uses_this_cache_and_its_own_again_afterwards() -> None:
    with jax_restored():
        configure_jax("float32")
        jax.jit(lambda x: x * 3 + 1)(jnp.ones(7)).block_until_ready()
        directory = cache_directory()
        assert directory is not None
        cache = current_cache()
        assert isinstance(cache, CheckedCache)
        entries = [
            path.name.removesuffix("-checked-cache") for path in directory.glob("*-checked-cache")
        ]
        assert entries
        assert all(cache.get(key) for key in entries)
    assert not isinstance(current_cache(), CheckedCache)


def test_a_damaged_cache_that_cannot_be_written_changes_no_row(
    tmp_path: Path, own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = ("study.n_trials=2", "train.epochs=2", "search={}", "execution.threads=1")
    first, second = (study_in(tmp_path / name, DIGITS, *small) for name in ("first", "second"))
    assert sweeper.run(first).state == "finished"
    entries = [*own_root.rglob("*-cache")]
    assert entries
    for entry in entries:
        content = bytearray(entry.read_bytes())
        content[len(content) // 2] ^= 16
        entry.write_bytes(content)
    unlink = Path.unlink

    def read_only(path: Path, missing_ok: bool = False) -> None:
        if path.is_relative_to(own_root):
            refusing()
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", read_only)
    assert sweeper.run(second).state == "finished"
    digests = {deterministic_digest(RunDir(study.run_dir)) for study in (first, second)}
    assert len(digests) == 1
    states = sweeper.open_results(second.run_dir).trials()["state"]
    assert [*states] == ["COMPLETE", "COMPLETE"]


GRAVITON = """\
processor	: 0
BogoMIPS	: 2100.00
Features	: fp asimd sve
CPU implementer	: 0x41
CPU architecture: 8
CPU part	: 0xd40

processor	: 1
BogoMIPS	: 2100.00
Features	: fp asimd sve
CPU implementer	: 0x41
CPU architecture: 8
CPU part	: 0xd40
"""
XEON = """\
processor	: 0
cpu family	: 6
model		: 143
model name	: Intel(R) Xeon(R)
cpu MHz		: 2000.000
flags		: fpu avx512f
"""


@pytest.mark.parametrize(
    ("old", "new"), [("sve", "sve sve2"), ("0x41", "0xc0"), ("0xd40", "0xd4f")]
)
def test_processors_of_arm_are_told_apart(old: str, new: str) -> None:
    said = lines_on_processor(GRAVITON)
    assert said == "CPU implementer\t: 0x41\nCPU part\t: 0xd40\nFeatures\t: fp asimd sve"
    assert lines_on_processor(GRAVITON.replace(old, new)) != said


def test_processors_of_x86_are_described_as_in_earlier_records() -> None:
    assert lines_on_processor(XEON) == "flags\t\t: fpu avx512f\nmodel name\t: Intel(R) Xeon(R)"
