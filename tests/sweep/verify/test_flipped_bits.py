"""A flipped bit or a file cut short is found, or does not change anything that is read."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweeper.errors import LedgerError
from sweeper.ledger import Ledger
from sweeper.programs.checkpoint import CheckpointError, LaneFile, write_lanes
from sweeper.results.compare import TableDifference, differences
from sweeper.sweep.resume import restore
from sweeper.sweep.verify import repair, verify
from tests.crashes import Study
from tests.ledger.test_ledger import write_rounds

FLIPS, FEW = 1000, 20
TABLES = ("meta", "session", "round", "closing", "trial", "ending", "bucket")
HOW_MANY = [FEW, pytest.param(FLIPS, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]


def flipped(path: Path, count: int) -> Iterator[None]:
    """`path` with one flipped bit, `count` times a different one; then restored."""
    content, chance = path.read_bytes(), random.Random(path.name)
    for _ in range(count):
        place = chance.randrange(len(content))
        changed = bytearray(content)
        changed[place] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        yield
    path.write_bytes(content)


def cut(path: Path, count: int | None) -> Iterator[None]:
    """`path` cut short, `count` times at different places or at each byte; then restored."""
    content = path.read_bytes()
    step = 1 if count is None else max(1, len(content) // count)
    for size in range(0, len(content), step):
        path.write_bytes(content[:size])
        yield
    path.write_bytes(content)


def rows(path: Path) -> list[list[tuple[Any, ...]]]:
    """The whole contents of a ledger."""
    with closing(sqlite3.connect(path)) as db:
        return [db.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES]


def found(study: Study) -> set[str]:
    """The files that verify reports as damaged."""
    return {damage.file for damage in verify(study.run_dir).damage}


@pytest.mark.parametrize("flips", HOW_MANY)
def test_of_a_checkpoint(
    flips: int, ended: Study, halfway: Study, copied: Callable[[Study], Study]
) -> None:
    """Training and verify refuse each; its trials train again."""
    study = copied(halfway)
    repair(study.run_dir)
    (path,) = study.run_dir.checkpoints.iterdir()
    with closing(Ledger.open(study.run_dir.ledger)) as ledger:
        digest = restore(ledger, study.config).state.checkpoint_digests[path.name]
    every = None if flips == FLIPS else flips
    for harmed in (flipped(path, flips), cut(path, every)):
        for _ in harmed:
            with pytest.raises(CheckpointError):
                LaneFile(path, digest)
    for harmed in (flipped(path, flips // 20), cut(path, flips // 20)):
        for _ in harmed:
            assert found(study) == {f"checkpoints/{path.name}"}
    next(flipped(path, 1))
    study.run()
    assert study.left() == ended.left()


@pytest.mark.parametrize("lengths", [FEW, pytest.param(None, marks=pytest.mark.slow)])
def test_of_a_checkpoint_of_4_kb_at_every_length(lengths: int | None, tmp_path: Path) -> None:
    path = tmp_path / "lanes.safetensors"
    digest = write_lanes(path, {(0, 0): {"weight": np.arange(988, dtype=np.float32)}})
    assert path.stat().st_size == 4096
    for _ in cut(path, lengths):
        with pytest.raises(CheckpointError, match="its content is damaged"):
            LaneFile(path, digest)
    assert LaneFile(path, digest).other_versions == ""


@pytest.mark.parametrize("flips", HOW_MANY)
def test_of_a_ledger(flips: int, ended: Study, copied: Callable[[Study], Study]) -> None:
    """Each is refused without changing the ledger, or everything is read unchanged."""
    path = copied(ended).run_dir.ledger
    before = rows(path)
    refused = 0
    for harmed in (flipped(path, flips), cut(path, flips)):
        for _ in harmed:
            there = path.read_bytes()
            try:
                Ledger.open(path).close()
            except LedgerError:
                refused += 1
                assert path.read_bytes() == there
                continue
            assert rows(path) == before
    assert refused > flips


@pytest.mark.parametrize("flips", HOW_MANY)
def test_of_the_log_of_a_ledger(flips: int, tmp_path: Path) -> None:
    """The part that SQLite rejects was never committed: the ledger has some rounds less."""
    path, kept = tmp_path / "ledger.db", tmp_path / "kept"
    Ledger.create(path).close()
    kept.mkdir()
    with closing(Ledger.open(path)) as ledger:
        ledger.add_session({"run_id": "a"})
        write_rounds(ledger, 8)
        for file in (path, Path(f"{path}-wal")):
            shutil.copy(file, kept)
    committed = rows(path)
    log = kept / "ledger.db-wal"
    lost = 0
    for harmed in (flipped(log, flips), cut(log, flips)):
        for _ in harmed:
            for file in kept.iterdir():
                shutil.copy(file, tmp_path)
            Ledger.open(path).close()
            told = rows(path)
            lost += told != committed
            for table, whole in zip(told, committed, strict=True):
                assert table == whole[: len(table)]
    assert lost > flips


@pytest.mark.parametrize("name", ["trials.parquet", "buckets.parquet", "metrics"])
@pytest.mark.parametrize("flips", HOW_MANY)
def test_of_a_table(flips: int, name: str, ended: Study, copied: Callable[[Study], Study]) -> None:
    """Each is found, or no row has changed; damaged files are rewritten."""
    study = copied(ended)
    path, told = study.run_dir.root / name, study.run_dir.root.with_name("told")
    shutil.copytree(path, told) if path.is_dir() else shutil.copy(path, told)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    for file in files:
        for harmed in (flipped(file, flips), cut(file, flips)):
            for _ in harmed:
                assert differences(path, told) is not TableDifference.BEHIND
    files[-1].write_bytes(files[-1].read_bytes()[:-1])
    assert found(study) == {name}
    repair(study.run_dir)
    assert found(study) == set()
    assert study.left() == ended.left()


@pytest.mark.parametrize("flips", HOW_MANY)
def test_of_a_model(flips: int, ended: Study, copied: Callable[[Study], Study]) -> None:
    study = copied(ended)
    for model in sorted(study.run_dir.models.iterdir()):
        for _ in flipped(model, flips // 20):
            # if the flip in a saved model is harmless, its arrays are unchanged
            assert found(study) <= {f"models/{model.name}", f"models/{model.stem}.eqx"}
