"""Data prepared in another process, or kept from before, equals data prepared here."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sweeper.config import StudyConfig, parse
from sweeper.config.study_config import RowsFile
from sweeper.data import ahead
from sweeper.data.ahead import preparing
from sweeper.data.dataset import Dataset
from sweeper.data.prepare import prepare
from sweeper.errors import DataError
from sweeper.process import physical_bytes
from tests.programs.conftest import STUDY as DIGITS

ROWS = "a,b,y\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(60))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPER_CACHE_DIR", str(tmp_path / "cache"))


def csv_study(directory: Path, rows: str = ROWS) -> StudyConfig:
    (directory / "rows.csv").write_text(rows, encoding="utf-8")
    data = 'source="csv", path="rows.csv", target="y", split={val=0.2, test=0.1}'
    return parse(DIGITS, directory / "study.toml", [f"data={{{data}}}", "train.batch_size=8"])


# in a program that has imported neither JAX nor scikit-learn
PREPARING = """
import json, os, pickle, sys
from sweeper.data import ahead
from sweeper.errors import DataError
config = pickle.load(sys.stdin.buffer)
CHANGE
with ahead.preparing(config) as prepared:
    told = {"is_cached": prepared.is_cached}
    try:
        data = prepared()
        told |= {"digest": data.digest, "features": data.n_features}
    except DataError as error:
        told["error"] = str(error)
told["here"] = "sklearn" in sys.modules
json.dump(told, open("told.json", "w"))
"""


def prepared_elsewhere(config: StudyConfig, directory: Path, change: str = "") -> dict[str, object]:
    """The result of preparing in another program, which may `change` something first."""
    program = subprocess.run(
        [sys.executable, "-W", "error", "-c", PREPARING.replace("CHANGE", change)],
        cwd=directory,
        input=pickle.dumps(config),
        stdout=subprocess.PIPE,
        check=True,
    )
    assert not program.stdout
    return json.loads((directory / "told.json").read_text())


def test_another_process_prepares_the_same_data_until_the_file_changes(tmp_path: Path) -> None:
    config = csv_study(tmp_path)
    expected = {"digest": prepare(config).digest, "features": 2, "here": False}

    assert prepared_elsewhere(config, tmp_path) == {"is_cached": False, **expected}
    assert prepared_elsewhere(config, tmp_path) == {"is_cached": True, **expected}
    changed = csv_study(tmp_path, ROWS.replace("59,3,1", "59,3,0"))
    other = prepared_elsewhere(changed, tmp_path)
    assert not other["is_cached"] and not other["here"]
    assert other["digest"] == prepare(changed).digest != expected["digest"]


def test_errors_are_the_same_as_in_this_process(tmp_path: Path) -> None:
    config = csv_study(tmp_path, ROWS.replace("59,3,1", "59,,1"))
    with pytest.raises(DataError) as here:
        prepare(config)

    there = prepared_elsewhere(config, tmp_path)

    assert there == {"is_cached": False, "error": str(here.value), "here": False}


@pytest.mark.parametrize(
    "death",
    ["os.kill(os.getpid(), 9)", "1 / 0", pytest.param("os._exit(9)", marks=pytest.mark.slow)],
)
def test_a_child_that_dies_only_costs_time(death: str, tmp_path: Path) -> None:
    config = csv_study(tmp_path)

    there = prepared_elsewhere(config, tmp_path, f"ahead._prepare_into = lambda *_: {death}")

    assert there["here"]
    assert there["digest"] == prepare(config).digest


@pytest.mark.parametrize(
    "change",
    [
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "import multiprocessing; multiprocessing.current_process().daemon = True",
        pytest.param("import jax", marks=pytest.mark.slow),
    ],
)
def test_a_process_with_threads_or_jax_or_without_children_is_not_forked(
    change: str, tmp_path: Path
) -> None:
    config = csv_study(tmp_path)

    there = prepared_elsewhere(config, tmp_path, change)

    assert there["here"]
    assert there["digest"] == prepare(config).digest


def test_a_damaged_kept_file_is_prepared_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every flipped bit, and every cut; parts that nothing reads may stay."""
    config, chance = csv_study(tmp_path), random.Random(0)
    with preparing(config) as prepared:
        first = prepared()
    (kept,) = (tmp_path / "cache" / "data").glob("*.npz")
    content = kept.read_bytes()
    prepared_again: list[Path | None] = []

    def again(_: StudyConfig, kept: Path | None) -> Dataset:
        prepared_again.append(kept)
        return first

    monkeypatch.setattr(ahead, "_prepared_here", again)
    for _ in range(200):
        changed = bytearray(content)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        kept.write_bytes(changed if chance.random() < 0.5 else content[: chance.randrange(3000)])
        with preparing(config) as prepared:
            found = prepared()
        assert (found.digest, found.notes) == (first.digest, first.notes)
    assert len(prepared_again) > 150
    assert {*prepared_again} == {kept}


def test_rows_of_a_file_that_changes_in_the_meantime_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = csv_study(tmp_path)
    expected = prepare(config).digest

    def changing(config: StudyConfig) -> Dataset:
        csv_study(tmp_path, ROWS.replace("59,3,1", "59,3,0"))
        return prepare(config)

    with monkeypatch.context() as late, preparing(config) as prepared:
        late.setattr("sweeper.data.prepare.prepare", changing)
        assert prepared().digest != expected
    csv_study(tmp_path)
    with preparing(config) as again:
        assert not again.is_cached
        assert again().digest == expected


@pytest.mark.parametrize("call", ["mkdir", "replace", "open"])
def test_a_cache_error_does_not_affect_the_study(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, of_path = csv_study(tmp_path), getattr(Path, call)

    def refusing(path: Path, *args: Any, **named: Any) -> Any:
        if path.is_relative_to(tmp_path / "cache"):
            raise PermissionError(13, "Permission denied")
        return of_path(path, *args, **named)

    expected = prepare(config).digest
    monkeypatch.setattr(Path, call, refusing)
    for _ in range(2):
        with preparing(config) as prepared:
            assert prepared().digest == expected


def test_the_least_recently_used_data_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "cache" / "data"
    kept.mkdir(parents=True)
    yesterday = time.time() - 24 * 3600
    long_ago, lately, begun, other = (f"sweeper-{digit * 32}" for digit in "0123")
    theirs = {"mine.npz", "mine.71", f"{'4' * 32}.npz", f"{long_ago}.csv"}
    for name, age_s in {
        f"{long_ago}.npz": 90,
        f"{lately}.npz": 60,
        f"{begun}-a_1.part": 90,
        f"{other}-b_2.part": -90,
        **dict.fromkeys(theirs, 1e6),
    }.items():
        (kept / name).write_bytes(bytes(50_000))
        os.utime(kept / name, (yesterday - age_s, yesterday - age_s))
    monkeypatch.setattr(ahead, "_MAX_BYTES", 100_000)

    with preparing(csv_study(tmp_path)) as prepared:
        prepared()

    there = {path.name for path in kept.iterdir()} - theirs
    (new,) = there - {f"{lately}.npz", f"{other}-b_2.part"}
    assert new.endswith(".npz") and new != f"{long_ago}.npz"
    monkeypatch.setattr(ahead, "_MAX_BYTES", 10)
    with preparing(csv_study(tmp_path, ROWS + "1,1,1\n")) as prepared:
        prepared()
    (only,) = {path.name for path in kept.glob("*.npz")} - theirs
    assert only != new  # one copy is kept, however large
    assert theirs <= {path.name for path in kept.iterdir()}


PARQUET = 'data={source="parquet", path="*.parquet", target="y", split={val=0.2, test=0.1}}'


def test_every_file_of_a_pattern_counts(tmp_path: Path) -> None:
    frame = pd.read_csv(StringIO(ROWS))
    config = parse(DIGITS, tmp_path / "study.toml", [PARQUET, "train.batch_size=8"])
    frame[:40].to_parquet(tmp_path / "a.parquet")
    frame[40:].to_parquet(tmp_path / "b.parquet")
    with preparing(config) as prepared:
        first = prepared()

    with preparing(config) as again:
        assert again.is_cached
    frame[40:].assign(b=1).to_parquet(tmp_path / "b.parquet")
    with preparing(config) as other:
        assert not other.is_cached
        assert other().digest != first.digest


@pytest.mark.parametrize(
    "setting",
    [
        'data.impute="mean"',
        'data.categorical="ordinal"',
        'data.categorical_columns=["b"]',
        'data.class_weights="balanced"',
        'data.split.group="b"',
        'data.split.time="a"',
        'data.split={val=0.2, test=0.1, time="a", as_feature=true}',
        'data.scale="quantile"',
        'model.numbers="ple"',
        'search.model.numbers={type="categorical", choices=["linear", "ple"]}',
    ],
)
def test_other_settings_are_prepared_again(setting: str, tmp_path: Path) -> None:
    plain = csv_study(tmp_path)
    with preparing(plain) as prepared:
        prepared()
    data = 'data={source="csv", path="rows.csv", target="y", split={val=0.2, test=0.1}}'
    given = [data, "train.batch_size=8", setting]
    if setting.startswith("data.split={"):
        given = [f"{data[:-1].partition(', split')[0]}, {setting[5:]}}}", *given[1:2]]
    config = parse(DIGITS, tmp_path / "study.toml", given)

    with preparing(config) as prepared:
        assert not prepared.is_cached


def test_bins_that_only_the_file_has_are_prepared_again(tmp_path: Path) -> None:
    csv_study(tmp_path)
    data = 'data={source="csv", path="rows.csv", target="y", split={val=0.2, test=0.1}}'
    searched = 'search.model.n_bins={type="categorical", choices=[2, 3]}'
    given = [data, "train.batch_size=8", "model.numbers=ple", searched]
    for own in (4, 5):
        config = parse(DIGITS, tmp_path / "study.toml", [*given, f"model.n_bins={own}"])
        with preparing(config) as prepared:
            assert {*prepared().bins} == {"quantile 2", "quantile 3", f"quantile {own}"}


def test_notes_name_the_file_of_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prices = "a,b,y\n" + "".join(f"${i % 4}0,{i % 7},{i % 2}\n" for i in range(60))
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
        with preparing(csv_study(tmp_path / name, prices)) as prepared:
            assert f'pd.read_csv("{name}/rows.csv", ' in " ".join(prepared().notes)


def test_notes_about_rows_in_memory_are_those_of_the_study(tmp_path: Path) -> None:
    pd.read_csv(StringIO(ROWS)).to_parquet(tmp_path / "rows.parquet")
    config = parse(DIGITS, tmp_path / "study.toml", [PARQUET, "train.batch_size=8"])
    for notes in ((), ("the index 'customer' is not read",), ()):
        of_rows = config.with_rows(RowsFile(tmp_path / "rows.parquet", notes))
        with preparing(of_rows) as prepared:
            assert prepared().notes == prepare(of_rows).notes
            assert prepared().notes[:-1] == notes


NOISY = """
import os
import numpy as np

def load():
    print("hello")
    os.write(1, b"from below")
    open("calls.txt", "a").write("called ")
    return np.arange(60.0), SECOND
"""


@pytest.mark.slow
def test_rows_of_a_function_are_not_cached_and_its_output_is_discarded(
    tmp_path: Path,
) -> None:
    data = 'data={source="python", function="noisy:load", split={val=0.2, test=0.1}}'
    config = parse(DIGITS, tmp_path / "study.toml", [data, "train.batch_size=8"])
    module = tmp_path / "noisy.py"
    module.write_text(NOISY.replace("SECOND", "np.arange(60) % 2"), encoding="utf-8")

    for _ in range(2):
        told = prepared_elsewhere(config, tmp_path)
        assert not told["is_cached"] and not told["here"]
        assert told["features"] == 1
    assert (tmp_path / "calls.txt").read_text() == "called " * 2 * 2, "twice each"

    module.write_text(NOISY.replace("SECOND", "1 / 0"), encoding="utf-8")
    told = prepared_elsewhere(config, tmp_path)
    assert "division by zero" in str(told["error"])


def test_data_larger_than_its_share_is_refused(tmp_path: Path) -> None:
    config = csv_study(tmp_path)
    with preparing(config) as prepared:
        data = prepared()
    memory = physical_bytes()
    assert memory is not None
    # exactly as much as they take, then a little less
    for fraction, fits in ((data.nbytes / memory * 1.01, True), (data.nbytes / memory / 2, False)):
        execution = config.execution.model_copy(update={"memory_fraction": fraction})
        small = config.model_copy(update={"execution": execution})
        with preparing(small) as prepared:
            assert prepared.is_cached  # the place where it runs does not matter
            if fits:
                assert prepared().digest == data.digest
                continue
            with pytest.raises(DataError) as refused:
                prepared()
        assert refused.value.exit_code == 3
        assert str(refused.value) == (
            f"--set: data: the data takes {data.nbytes / 1024:.3g} KiB, but the share of this "
            f"machine's memory is {int(memory * fraction)} B; drop columns or rows, or write a "
            "larger execution.memory_fraction"
        )
