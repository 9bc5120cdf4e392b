"""Other files in a run directory are left alone, or named if they are in the way."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import sweeper
from sweeper.config import parse
from sweeper.dashboard.study import PublishedStudy
from sweeper.errors import DamagedLedgerError, SetupError, StudyError
from sweeper.rundir import RunDir
from sweeper.sweep.session.directory import check_directory
from sweeper.sweep.verify import repair, restore_ledger, verify
from tests.crashes import Study
from tests.in_process import study_in
from tests.small_studies import DIGITS

DIRECTORY = "it is a directory, but the study needs a file there"
OTHERWISE = "but the study needs a directory there"
FILES = (
    "ledger.lock",
    "ledger.db",
    "ledger.backup.db",
    "study.toml",
    "status.json",
    "stop",
    "trials.parquet",
    "buckets.parquet",
    "SCHEMA.md",
    "trackers.json",
    "ledger.damaged.db",
    "metrics/part-000000-000000.parquet",
    "models/trial-000009.eqx",
)


@pytest.mark.parametrize("name", FILES)
def test_a_directory_in_the_place_of_a_file_is_named(
    name: str, ended: Study, copied: Callable[[Study], Study]
) -> None:
    study = copied(ended)
    path = study.run_dir.root / name
    path.unlink(missing_ok=True)
    path.mkdir()
    assert_named(study, name, DIRECTORY)
    path.rmdir()
    if not name.startswith("ledger"):
        repair(study.run_dir)
        assert verify(study.run_dir).damage == ()


@pytest.mark.parametrize(
    "name",
    [".staging", "metrics", "checkpoints", "models", "logs", "requests", "refit", "confirm"],
)
def test_other_files_in_the_place_of_a_directory_are_named(
    name: str, ended: Study, copied: Callable[[Study], Study]
) -> None:
    study = copied(ended)
    path = study.run_dir.root / name
    shutil.rmtree(path, ignore_errors=True)
    path.touch()
    assert_named(study, name, f"it is a file, {OTHERWISE}")


def test_a_pseudo_file_system_is_refused_before_the_start(tmp_path: Path) -> None:
    study = study_in(tmp_path, DIGITS, "results.dir=/proc/study")
    with pytest.raises(SetupError, match="cannot write to /proc/study"):
        check_directory(study, RunDir(study.run_dir))


def test_a_directory_whose_name_is_not_utf_8_is_refused(
    tmp_path: Path, ended: Study, copied: Callable[[Study], Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "Parquet files cannot be read in it, because its name is not UTF-8"
    found = f"{said}; rename the directory"
    renamed = copied(ended).run_dir.root.rename(tmp_path / "caf\udce9")
    for act in (sweeper.open_results, PublishedStudy, verify, repair):
        with pytest.raises(SetupError, match=found):
            act(RunDir(renamed) if act is not sweeper.open_results else renamed)
    study = study_in(tmp_path, DIGITS)
    monkeypatch.chdir(renamed)
    with pytest.raises(SetupError, match=f"{found}, or set results.dir to another"):
        check_directory(study, RunDir(Path("run")))


def test_a_new_study_is_not_run_in_a_directory_that_is_called_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")
    study = parse(DIGITS, tmp_path / "study.toml", ["results.dir=~/runs/a"])
    with pytest.raises(StudyError) as refused:
        check_directory(study, RunDir(study.run_dir))
    assert str(refused.value) == (
        "--set: results.dir: '~/runs/a' would be in a directory that is called ~; write "
        "/home/ada/runs/a, or $HOME for ~ on a command line: only a shell expands ~"
    )
    study.run_dir.mkdir(parents=True)
    (study.run_dir / "ledger.db").touch()  # of a study that began under an earlier version
    check_directory(study, RunDir(study.run_dir))
    with pytest.raises(StudyError, match="called ~"):
        check_directory(study, RunDir(study.run_dir), fresh=True)


def assert_named(study: Study, name: str, found: str) -> None:
    """Every command refuses it and changes nothing."""
    before = sorted(study.run_dir.root.rglob("*"))
    (damage,) = verify(study.run_dir).damage
    assert str(damage) == f"{name}: {found}; remove or rename it, then verify again"
    for act in (study.run, lambda: repair(study.run_dir), lambda: restore_ledger(study.run_dir)):
        with pytest.raises(SetupError) as refused:
            act()
        told = f"{study.run_dir.root / name}: {found}; remove or rename it, then try again"
        assert str(refused.value) == told
    assert sorted(study.run_dir.root.rglob("*")) == before


def test_other_files_are_not_touched(
    ended: Study, halfway: Study, copied: Callable[[Study], Study]
) -> None:
    """Jupyter creates such a directory when a file is opened."""
    study = copied(halfway)
    places = ("metrics", "models", "checkpoints", "logs", ".staging", ".")
    for name in places:
        (study.run_dir.root / name / ".ipynb_checkpoints").mkdir()
    names = (
        *("models/notes.md", "models/trial-notes.eqx", "models/trial-000001.md"),
        *("checkpoints/notes.md", "checkpoints/mine.safetensors", ".staging/notes.md", "notes.md"),
    )
    notes = [study.run_dir.root / name for name in names]
    for path in notes:
        path.write_text("mine", encoding="utf-8")
    study.run()
    assert verify(study.run_dir).damage == ()
    repair(study.run_dir)
    assert verify(study.run_dir).damage == ()
    for path in notes:
        assert path.read_text(encoding="utf-8") == "mine"
        path.unlink()
    for name in places:
        (study.run_dir.root / name / ".ipynb_checkpoints").rmdir()
    assert study.left() == ended.left()


@pytest.mark.parametrize("name", ["notes.md", "part.parquet", "old"])
def test_files_that_readers_take_for_metrics_are_named(
    name: str, ended: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(ended).run_dir
    path = run_dir.metrics / name
    path.mkdir() if name == "old" else path.write_text("mine", encoding="utf-8")
    for _ in range(2):
        (damage,) = verify(run_dir).damage
        assert damage.file == f"metrics/{name}"
        assert damage.hint == "remove or rename it"
        repair(run_dir)
    assert path.exists()


@pytest.mark.parametrize(
    "gone", ["ledger.db *.backup.db", pytest.param("ledger.*", marks=pytest.mark.slow)]
)
def test_without_ledger_and_copy_fresh_moves_the_rest_aside(
    gone: str, ended: Study, halfway: Study, copied: Callable[[Study], Study], tmp_path: Path
) -> None:
    for one in (ended, halfway):
        study = copied(one)
        for path in [path for name in gone.split() for path in study.run_dir.root.glob(name)]:
            path.unlink()
        (damage,) = verify(study.run_dir).damage
        hint = "restore a copy of it, or start over with --fresh (in Python fresh=True)"
        assert str(damage) == f"ledger.db: it is missing; {hint}"
        with pytest.raises(DamagedLedgerError, match=re.escape(f"it is missing; {hint}")):
            study.run()
        assert sweeper.run(study.config, fresh=True).state == "finished"
        assert study.left() == ended.left()
        (aside,) = study.directory.glob("run.*")
        assert (aside / "SCHEMA.md").exists()
        shutil.rmtree(study.directory)


def test_fresh_keeps_a_link_and_moves_its_target(
    ended: Study, copied: Callable[[Study], Study], tmp_path: Path
) -> None:
    study = copied(ended)
    elsewhere = tmp_path / "other disk" / "study"
    elsewhere.parent.mkdir()
    study.run_dir.root.rename(elsewhere)
    study.run_dir.root.symlink_to(elsewhere)
    assert sweeper.run(study.config, fresh=True).state == "finished"
    assert study.run_dir.root.readlink() == elsewhere
    new, old = sorted(elsewhere.parent.iterdir())
    assert (new, old.name.split(".")[0]) == (elsewhere, "study")
    assert all((place / "trials.parquet").exists() for place in (new, old))


def test_fresh_only_moves_studies_aside(ended: Study, copied: Callable[[Study], Study]) -> None:
    study = copied(ended)
    shutil.rmtree(study.run_dir.root)
    study.run_dir.root.mkdir()
    (study.run_dir.root / "SCHEMA.md").write_text("of something else", encoding="utf-8")
    with pytest.raises(StudyError, match=r"contains 'SCHEMA\.md' but no ledger"):
        sweeper.run(study.config, fresh=True)
    (study.run_dir.root / "SCHEMA.md").unlink()
    study.run_dir.stop.touch()  # of a request to stop a study that had never begun
    assert sweeper.run(study.config, fresh=True).state == "finished"
    assert study.left() == ended.left()
    assert [path.name for path in study.directory.glob("run*")] == ["run"]
    assert not study.run_dir.stop.exists()
