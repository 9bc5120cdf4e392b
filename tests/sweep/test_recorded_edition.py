"""A study resumes under the edition of rules under which it began."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.config.load import study_of
from sweeper.config.study import EDITION
from sweeper.config.study_config import StudyConfig
from sweeper.errors import StudyError
from sweeper.rundir import RunDir
from sweeper.sweep.session.session import with_recorded_rules
from tests.live_status import STATUS
from tests.processes import ROOT

STUDY = (ROOT / "studies" / "digits.toml").read_text(encoding="utf-8")


def study(directory: Path, text: str = STUDY) -> StudyConfig:
    return parse(text, directory / "s.toml", [f"results.dir={directory}/run"])


def begin(directory: Path, status: str | None) -> RunDir:
    run_dir = RunDir(directory / "run")
    run_dir.root.mkdir()
    run_dir.ledger.touch()
    if status is not None:
        run_dir.status.write_text(status, encoding="utf-8")
    return run_dir


def status(edition: int | None) -> str:
    """A status as a version writes it, without `edition` if the version did not have it."""
    written = asdict(STATUS) | {"edition": edition}
    return json.dumps({k: v for k, v in written.items() if k != "edition" or v is not None})


def test_a_new_study_has_the_newest_edition(tmp_path: Path) -> None:
    assert with_recorded_rules(study(tmp_path)).edition == EDITION


@pytest.mark.parametrize(("recorded", "edition"), [(None, 1), (1, 1), (EDITION, EDITION)])
def test_a_study_resumes_under_its_edition(
    tmp_path: Path, recorded: int | None, edition: int
) -> None:
    begin(tmp_path, status(recorded))
    assert with_recorded_rules(study(tmp_path)).edition == edition
    assert with_recorded_rules(study(tmp_path), fresh=True).edition == EDITION


def test_the_recorded_settings_contain_the_edition(tmp_path: Path) -> None:
    old = study(tmp_path).under(1)
    assert "edition" not in old.canonical()
    assert study_of(old.canonical(), tmp_path / "s.toml").edition == 1
    new = study(tmp_path)
    assert study_of(new.canonical(), tmp_path / "s.toml").edition == EDITION


def test_an_edition_named_in_a_file_is_used(tmp_path: Path) -> None:
    assert study(tmp_path, f"edition = 1\n{STUDY}").under(2).edition == 1


@pytest.mark.parametrize("edition", ["0", "99", "true", "'2'"])
def test_unknown_editions_are_refused(tmp_path: Path, edition: str) -> None:
    with pytest.raises(StudyError, match=r"s\.toml:1: edition: .* is not a known edition"):
        study(tmp_path, f"edition = {edition}\n{STUDY}")


@pytest.mark.parametrize("version", ["version-1", "version-2"])
def test_without_a_status_the_edition_comes_from_the_ledger(tmp_path: Path, version: str) -> None:
    shutil.copytree(ROOT / "tests" / "golden" / version, tmp_path / "run")
    assert with_recorded_rules(study(tmp_path)).edition == 1
