"""Damaged, missing and foreign files next to the tables are named and rewritten."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from pyarrow import parquet

import sweeper
from sweeper.errors import SetupError
from sweeper.export import export
from sweeper.results.importance import is_importance
from sweeper.results.schema import study_metadata
from sweeper.results.status import read_status, write_status
from sweeper.rundir import RunDir
from sweeper.sweep.verify import repair, verify
from tests.command_line import STUDY, CommandLine
from tests.damaged import copy_of, damage_in
from tests.in_process import study_in, trained

NAMES = ("preparation.json", "importance.parquet", "SCHEMA.md", "study.toml", "baseline.json")
GONE, UNREADABLE = "it is missing", "it cannot be read"
CSV = (
    "data={source='csv', path='wine.csv', target='target', split={val=0.2, test=0.1}}",
    "study.n_trials=2",
)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A finished study."""
    return trained(study_in(tmp_path_factory.mktemp("ended"), STUDY)).run_dir


@pytest.fixture
def copied(ended: RunDir, tmp_path: Path) -> RunDir:
    """A copy of the study, to be damaged."""
    return copy_of(ended, tmp_path / "run")


def run_again(run_dir: RunDir) -> None:
    """Resume a finished study."""
    trained(study_in(run_dir.root.parent, STUDY))


def damaged(run_dir: RunDir, name: str) -> None:
    """Cut a file short, in the middle of a letter, a word or a page."""
    path = run_dir.root / name
    path.write_bytes(b"{\xff" + path.read_bytes()[:-9])


@pytest.mark.parametrize("repair_of", [repair, run_again])
@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_named_and_rewritten(
    name: str, repair_of: Callable[[RunDir], object], ended: RunDir, copied: RunDir
) -> None:
    damaged(copied, name)
    (damage,) = verify(copied).damage
    assert damage.file == name
    assert damage.found.startswith(UNREADABLE)
    assert f"python -m sweeper verify {copied.root} --repair" in damage.hint
    repair_of(copied)
    assert damage_in(copied) == {}
    if name in ("preparation.json", "SCHEMA.md"):
        assert (copied.root / name).read_bytes() == (ended.root / name).read_bytes()
    if name == "importance.parquet":
        columns = ["metric", "parameter", "importance"]
        one, two = (pd.read_parquet(each.importance)[columns] for each in (copied, ended))
        pd.testing.assert_frame_equal(one, two)


@pytest.mark.parametrize("repair_of", [repair, run_again])
def test_missing_files_are_named_and_rewritten(
    repair_of: Callable[[RunDir], object], copied: RunDir
) -> None:
    names = ("preparation.json", "SCHEMA.md", "study.toml", "importance.parquet")
    for name in names:
        (copied.root / name).unlink()
    assert damage_in(copied) == dict.fromkeys(names, GONE)
    repair_of(copied)
    assert damage_in(copied) == {}


def test_a_damaged_ensemble_is_named_with_the_command_that_selects_it_again(
    copied: RunDir,
) -> None:
    copied.ensemble.write_text('{"metric": "val_loss"', encoding="utf-8")
    found = verify(copied)
    assert copied.ensemble.name in found.looked_at[-1]
    again = f"select it again: python -m sweeper ensemble {copied.root}"
    assert [(one.file, one.found, one.hint) for one in found.damage] == [
        (copied.ensemble.name, UNREADABLE, again)
    ]


def test_importances_describe_their_study_and_their_columns(copied: RunDir) -> None:
    said = study_metadata(parquet.read_schema(copied.importance))
    assert said["study"] == study_metadata(parquet.read_schema(copied.trials))["study"]
    assert [*said["columns"]] == parquet.read_schema(copied.importance).names


def test_importances_may_be_missing_while_a_study_has_not_ended(copied: RunDir) -> None:
    copied.importance.unlink()
    write_status(copied, replace(read_status(copied), state="interrupted"))
    assert "importance.parquet" not in damage_in(copied)
    repair(copied)
    assert is_importance(copied.importance)


def test_the_study_file_is_rewritten_from_the_ledger(copied: RunDir) -> None:
    before = sweeper.load_study(copied.study_file, [f"results.dir={copied.root}"]).canonical()
    copied.study_file.unlink()
    repair(copied)
    text = copied.study_file.read_text(encoding="utf-8")
    assert text.startswith("# Written again from the ledger: ")
    again = sweeper.load_study(copied.study_file, [f"results.dir={copied.root}"])
    assert again.canonical() == before


@pytest.mark.parametrize("repair_of", [repair, run_again])
def test_a_preparation_of_another_study_is_found(
    repair_of: Callable[[RunDir], object], ended: RunDir, copied: RunDir, tmp_path: Path
) -> None:
    other = trained(study_in(tmp_path / "other", STUDY, "study.seed=4", "study.n_trials=1"))
    shutil.copy(other.run_dir.preparation, copied.preparation)
    assert damage_in(copied) == {"preparation.json": "it is for other data than the study's"}
    with pytest.raises(
        SetupError, match="it is for other data than the study's; rewrite it with: "
    ):
        export(copied.root, None, 0, tmp_path / "best")
    repair_of(copied)
    assert copied.preparation.read_bytes() == ended.preparation.read_bytes()
    export(copied.root, None, 0, tmp_path / "best")


def test_a_changed_number_in_prepared_data_is_found(copied: RunDir) -> None:
    note = json.loads(copied.preparation.read_bytes())
    note["spec"]["train_rows"] += 1
    copied.preparation.write_text(json.dumps(note), encoding="utf-8")
    assert damage_in(copied) == {"preparation.json": "it was changed"}
    copied.preparation.write_text("[]", encoding="utf-8")
    assert damage_in(copied) == {"preparation.json": "it cannot be read (it is not a JSON object)"}


def test_json_says_what_was_restored_and_what_was_not_rewritten(
    copied: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    def done(*options: str) -> tuple[str | None, list[str]]:
        damaged(copied, "baseline.json")
        sweeper.command("verify", str(copied.root), "--json", *options)
        found = json.loads(capsys.readouterr().out)
        assert found["damage"] == []
        return found["restored"], found["not_rewritten"]

    removed = "baseline.json was removed: the next run writes it again"
    assert done("--repair") == (None, [removed])
    for options in (["--restore-ledger"], ["--restore-ledger", "--repair"]):
        shutil.copy(copied.schema, copied.baseline)  # anything, to be damaged again
        copied.ledger.write_bytes(b"")
        restored, left = done(*options)
        assert restored is not None
        assert restored.startswith("ledger.db was restored from ledger.backup.db")
        assert "; requests that were granted later" in restored
        assert "baseline.json" not in restored
        assert left == [removed]


def test_commands_name_damage_and_obstacles(
    command: CommandLine,
) -> None:
    table = pd.DataFrame({"a": range(60), "b": [row % 7 for row in range(60)]})
    table["target"] = ["yes" if row % 3 else "no" for row in range(60)]
    table.to_csv(command.directory / "wine.csv", index=False)
    command.write()
    sets = [part for one in CSV for part in ("--set", one)]
    assert command("run", "study.toml", *sets).returncode == 0
    run_dir = command.run_dir
    run_dir.preparation.write_text("{\n", encoding="utf-8")
    done = command("export", "runs/wine")
    told = " ".join(done.stderr.split())
    assert done.returncode == 3
    assert "rewrite it with: python -m sweeper verify runs/wine --repair; the next" in told
    assert "run of study.toml there" in told

    (command.directory / "wine.csv").rename(command.directory / "away.csv")
    done = command("verify", "runs/wine", "--repair")
    told = " ".join(done.stdout.split())
    assert done.returncode == 1
    assert told.startswith("preparation.json was not rewritten: study.toml")
    assert "no file 'wine.csv' in" in told

    (command.directory / "away.csv").rename(command.directory / "wine.csv")
    run_dir.trials.unlink()  # the ledger contains the study file, too
    done = command("verify", "runs/wine", "--repair")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "no damage found")
    study_file = str(command.directory / "study.toml")
    assert sweeper.open_results(run_dir.root).study["study_file"] == study_file
