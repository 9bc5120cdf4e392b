"""Data prepared in another process, or kept from before, are those prepared here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.config import StudyConfig
from sweeper.data import ahead
from sweeper.data.ahead import preparing
from sweeper.data.blank import blank
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
    from sweeper.config import parse

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
    from sweeper.config import parse

    return lambda *overrides: parse(DIGITS, Path("study.toml"), list(overrides))
