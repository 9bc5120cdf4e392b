"""Data prepared in another process, or kept from before, are those prepared here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from sweeper.config import StudyConfig, parse
from sweeper.data import ahead
from sweeper.data.ahead import preparing
from sweeper.data.blank import blank
from sweeper.data.memory import physical_bytes
from sweeper.data.preparation import prepare
from sweeper.errors import DataError
from tests.programs.conftest import STUDY as DIGITS

ROWS = "a,b,y\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(60))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPER_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not imported scikit-learn yet."""
    monkeypatch.delitem(sys.modules, "sklearn")


def csv_study(directory: Path, rows: str = ROWS) -> StudyConfig:
    (directory / "rows.csv").write_text(rows, encoding="utf-8")
    data = 'source="csv", path="rows.csv", target="y", split={val=0.2, test=0.1}'
    return parse(DIGITS, directory / "study.toml", [f"data={{{data}}}", "train.batch_size=8"])


def test_another_process_prepares_the_same_data(elsewhere: None, tmp_path: Path) -> None:
    config = csv_study(tmp_path)

    with preparing(config) as prepared:
        assert not prepared.is_kept
        data = prepared()

    assert data.digest == prepare(config).digest


def test_prepared_data_are_kept_until_the_file_changes(elsewhere: None, tmp_path: Path) -> None:
    config = csv_study(tmp_path)
    with preparing(config) as prepared:
        first = prepared()

    with preparing(config) as again:
        assert again.is_kept
        assert again().digest == first.digest
    changed = csv_study(tmp_path, ROWS.replace("59,3,1", "59,3,0"))
    with preparing(changed) as other:
        assert not other.is_kept
        assert other().digest != first.digest


def test_what_is_wrong_is_told_as_it_would_be_here(elsewhere: None, tmp_path: Path) -> None:
    config = csv_study(tmp_path, ROWS.replace("59,3,1", "59,,1"))
    with pytest.raises(DataError) as here:
        prepare(config)

    with pytest.raises(DataError) as there, preparing(config) as prepared:
        prepared()

    assert str(there.value) == str(here.value)


def test_a_child_that_dies_costs_time_and_nothing_else(
    elsewhere: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dead(*_: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(9)"], stdout=-1)

    config = csv_study(tmp_path)
    monkeypatch.setattr(ahead, "_start", dead)

    with preparing(config) as prepared:
        assert prepared().digest == prepare(config).digest


def test_a_damaged_kept_file_is_prepared_again(tmp_path: Path) -> None:
    config = csv_study(tmp_path)
    with preparing(config) as prepared:
        first = prepared()
    (kept,) = (tmp_path / "cache" / "data").glob("*.npz")
    kept.write_bytes(kept.read_bytes()[:100])

    with preparing(config) as again:
        assert again().digest == first.digest


@pytest.mark.parametrize("name", ["digits", "iris", "wine", "breast_cancer"])
def test_blank_data_have_the_sizes_of_the_real(
    name: str, study: Callable[..., StudyConfig]
) -> None:
    config = study(f"data.name={name}", "train.batch_size=16")
    expected = blank(config)

    assert expected is not None
    assert prepare(config).has_sizes_of(expected)


@pytest.fixture
def study() -> Callable[..., StudyConfig]:
    return lambda *overrides: parse(DIGITS, Path("study.toml"), list(overrides))


PARQUET = 'data={source="parquet", path="*.parquet", target="y", split={val=0.2, test=0.1}}'


def test_every_file_of_a_pattern_is_looked_at(tmp_path: Path) -> None:
    frame = pd.read_csv(StringIO(ROWS))
    config = parse(DIGITS, tmp_path / "study.toml", [PARQUET, "train.batch_size=8"])
    frame[:40].to_parquet(tmp_path / "a.parquet")
    frame[40:].to_parquet(tmp_path / "b.parquet")
    with preparing(config) as prepared:
        first = prepared()

    with preparing(config) as again:
        assert again.is_kept
    frame[40:].assign(b=1).to_parquet(tmp_path / "b.parquet")
    with preparing(config) as other:
        assert not other.is_kept
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
    ],
)
def test_under_other_settings_nothing_is_kept(setting: str, tmp_path: Path) -> None:
    plain = csv_study(tmp_path)
    with preparing(plain) as prepared:
        prepared()
    data = 'data={source="csv", path="rows.csv", target="y", split={val=0.2, test=0.1}}'
    given = [data, "train.batch_size=8", setting]
    if setting.startswith("data.split={"):
        given = [f"{data[:-1].partition(', split')[0]}, {setting[5:]}}}", *given[1:2]]
    config = parse(DIGITS, tmp_path / "study.toml", given)

    with preparing(config) as prepared:
        assert not prepared.is_kept


NOISY = """
import os
import numpy as np

def load():
    print("hello")
    os.write(1, b"from below")
    open("calls.txt", "a").write("called ")
    return np.arange(60.0), SECOND
"""


def test_rows_of_a_function_are_never_kept_and_what_it_prints_is_no_answer(
    elsewhere: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    monkeypatch.chdir(tmp_path)
    data = 'data={source="python", function="noisy:load", split={val=0.2, test=0.1}}'
    config = parse(DIGITS, tmp_path / "study.toml", [data, "train.batch_size=8"])
    module = tmp_path / "noisy.py"
    module.write_text(NOISY.replace("SECOND", "np.arange(60) % 2"), encoding="utf-8")

    for _ in range(2):
        with preparing(config) as prepared:
            assert not prepared.is_kept
            assert prepared().n_features == 1
    assert (tmp_path / "calls.txt").read_text() == "called called "

    module.write_text(NOISY.replace("SECOND", "1 / 0"), encoding="utf-8")
    with pytest.raises(DataError, match="division by zero"), preparing(config) as prepared:
        prepared()
    assert capfd.readouterr().out == ""


def test_data_that_are_larger_than_the_share_are_refused(tmp_path: Path) -> None:
    config = csv_study(tmp_path)
    with preparing(config) as prepared:
        data = prepared()
    memory = physical_bytes()
    assert memory is not None
    # just as much as they take, then a little less
    for fraction, fits in ((data.nbytes / memory * 1.01, True), (data.nbytes / memory / 2, False)):
        execution = config.execution.model_copy(update={"memory_fraction": fraction})
        small = config.model_copy(update={"execution": execution})
        with preparing(small) as prepared:
            assert prepared.is_kept  # where it runs is no part of what it is
            if fits:
                assert prepared().digest == data.digest
                continue
            with pytest.raises(DataError) as refused:
                prepared()
        assert refused.value.exit_code == 3
        assert str(refused.value) == (
            f"--set: data: the data take {data.nbytes / 1024:.3g} KiB, and the share of this "
            f"machine's memory is {int(memory * fraction)} B; drop columns or rows, or write a "
            "larger execution.memory_fraction"
        )


@pytest.mark.parametrize(
    "setting",
    [
        'data.split={group="target"}',
        'data.split={time="target"}',
        'data.categorical_columns=["target"]',
        'data.class_weights="balanced"',
    ],
)
def test_sizes_that_the_rows_decide_on_are_not_known_before(
    setting: str, study: Callable[..., StudyConfig]
) -> None:
    assert blank(study("data.split={val=0.2, test=0.1}")) is not None
    assert blank(study("data.split={val=0.2, test=0.1}", setting)) is None
