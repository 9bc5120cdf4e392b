"""Offline runs of W&B have the numbers of the Parquet files."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweeper.cli.main import command
from sweeper.errors import SetupError
from sweeper.rundir import RunDir
from tests.integrations import published

pytestmark = pytest.mark.integration
_HEAD, _FRAGMENT, _BLOCK = 7, 7, 32768  # bytes
_WHOLE, _LAST = 1, 4


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """W&B sends nothing, and writes to a temporary directory."""
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("DIR", "CACHE_DIR", "DATA_DIR", "CONFIG_DIR"):
        monkeypatch.setenv(f"WANDB_{name}", str(tmp_path))
    wandb.teardown()  # it reads the environment once
    yield
    wandb.teardown()


def records(content: bytes) -> Iterator[bytes]:
    """The records of a file of W&B: a head, then blocks of fragments as in the log of LevelDB."""
    assert content[:4] == b":W&B"
    at, begun = _HEAD, b""
    while at + _FRAGMENT <= len(content):
        if (left := _BLOCK - at % _BLOCK) < _FRAGMENT:
            at += left
            continue
        _, size, kind = struct.unpack_from("<IHB", content, at)
        begun += content[at + _FRAGMENT : at + _FRAGMENT + size]
        at += _FRAGMENT + size
        if kind in (_WHOLE, _LAST):
            yield begun
            begun = b""


class Run:
    """What one run wrote: history by step, summary and configuration."""

    def __init__(self, path: Path) -> None:
        from wandb.proto.wandb_internal_pb2 import Record

        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.id = self.group = ""
        self.files: set[str] = set()
        for data in records(path.read_bytes()):
            self._add(Record.FromString(data))

    def _add(self, record: Any) -> None:
        match record.WhichOneof("record_type"):
            case "run":
                self.id, self.group = record.run.run_id, record.run.run_group
                self.config |= items(record.run.config.update)
            case "config":
                self.config |= items(record.config.update)
            case "history":
                self.history.append(items(record.history.item))
            case "summary":
                self.summary |= items(record.summary.update)
            case "artifact":
                self.files |= {entry.path for entry in record.artifact.manifest.contents}


def items(given: Any) -> dict[str, Any]:
    """Items of a record, without those of W&B itself."""
    found = {(it.key or ".".join(it.nested_key)): json.loads(it.value_json) for it in given}
    return {name: it for name, it in found.items() if not name.startswith("_") or name == "_step"}


def log(run_dir: RunDir, *options: str) -> None:
    command("log", str(run_dir.root), "--to", "wandb", *options)


def runs(directory: Path) -> dict[str, list[Run]]:
    """The runs by their ids; a run that was logged again has several files."""
    import wandb

    wandb.teardown()  # its service writes the last records when it ends
    found: dict[str, list[Run]] = {}
    for path in sorted(directory.glob("wandb/offline-run-*/*.wandb")):
        run = Run(path)
        found.setdefault(run.id, []).append(run)
    return found


def test_runs_have_the_numbers_of_the_tables(run_dir: RunDir, tmp_path: Path) -> None:
    run_dir.trackers.unlink(missing_ok=True)
    log(run_dir, "--top", "3")
    key = json.loads(run_dir.trackers.read_text())["key"]
    rows, found = published.rows(run_dir), runs(tmp_path)
    chosen = published.best(run_dir, 3)
    assert {*found} == {key, *(f"{key}-{number}" for number in chosen)}
    for number in chosen:
        (run,) = found[f"{key}-{number}"]
        assert run.group == f"wine-{key}"
        assert run.config == json.loads(rows[number]["params_json"])
        for metric, curve in published.curves(run_dir, number).items():
            assert [(it["_step"], it[metric]) for it in run.history if metric in it] == curve
        outcome = published.outcome(rows[number])
        assert {name: run.summary[name] for name in outcome} == outcome
    (study,) = found[key]
    values = [it["val_loss"] for it in study.history if "val_loss" in it]
    assert values == published.history(run_dir)
    assert study.summary["best.value"] == rows[chosen[0]]["value"]
    assert study.config["settings"]["study"]["n_trials"] == 8
    assert {*study.config["search_space"]} == {"lr", "epochs", "activation"}


def test_logging_again_adds_only_what_is_new(run_dir: RunDir, tmp_path: Path) -> None:
    run_dir.trackers.unlink(missing_ok=True)
    log(run_dir, "--top", "1")
    log(run_dir, "--top", "2")
    log(run_dir, "--top", "2")
    key = json.loads(run_dir.trackers.read_text())["key"]
    found = runs(tmp_path)
    trials = {name: len(them) for name, them in found.items() if name != key}
    assert trials == {f"{key}-{number}": 1 for number in published.best(run_dir, 2)}
    steps = [it["_step"] for run in found[key] for it in run.history]
    assert len(steps) == len({*steps}) == 8


def test_a_mode_that_logs_nothing_is_refused(
    run_dir: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    monkeypatch.setenv("WANDB_MODE", "disabled")
    wandb.teardown()
    with pytest.raises(SetupError, match="WANDB_MODE is disabled"):
        log(run_dir)


def test_an_address_that_is_none_is_refused(run_dir: RunDir) -> None:
    with pytest.raises(SetupError, match=r"base_url .* valid URL.*check --uri"):
        log(run_dir, "--uri", "nonsense")
