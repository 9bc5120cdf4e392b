"""A study resumes under the edition of rules under which it began."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.config.load import study_of
from sweeper.config.study import EDITION
from sweeper.config.study_config import StudyConfig
from sweeper.errors import StudyError
from sweeper.sweep.session.session import with_recorded_rules
from tests.processes import ROOT

STUDY = (ROOT / "studies" / "digits.toml").read_text(encoding="utf-8")
STUDY = "".join(line for line in STUDY.splitlines(True) if not line.startswith("parallel"))


def study(directory: Path, text: str = STUDY) -> StudyConfig:
    return parse(text, directory / "s.toml", [f"results.dir={directory}/run"])


def test_a_new_study_has_the_newest_edition(tmp_path: Path) -> None:
    assert with_recorded_rules(study(tmp_path)).edition == EDITION


def test_a_study_resumes_as_it_began(tmp_path: Path) -> None:
    began = study(tmp_path).with_edition(2).with_parallel(5).canonical()
    now = study(tmp_path).as_begun(began)
    assert (now.edition, now.parallel) == (2, 5)
    named = study(tmp_path, f"edition = 3\n{STUDY}").as_begun(began)
    assert (named.edition, named.parallel) == (3, 5)
    written = study(tmp_path, STUDY.replace("[schedule]", "[schedule]\nparallel = 7"))
    assert written.as_begun(began).parallel == 7


def test_the_recorded_settings_contain_the_edition(tmp_path: Path) -> None:
    old = study(tmp_path).with_edition(1)
    assert "edition" not in old.canonical()
    assert study_of(old.canonical(), tmp_path / "s.toml").edition == 1
    new = study(tmp_path)
    assert study_of(new.canonical(), tmp_path / "s.toml").edition == EDITION


def test_an_edition_named_in_a_file_is_used(tmp_path: Path) -> None:
    assert study(tmp_path, f"edition = 1\n{STUDY}").with_edition(2).edition == 1


@pytest.mark.parametrize("edition", ["0", "99", "true", "'2'"])
def test_unknown_editions_are_refused(tmp_path: Path, edition: str) -> None:
    with pytest.raises(StudyError, match=r"s\.toml:1: edition: .* is not a known edition"):
        study(tmp_path, f"edition = {edition}\n{STUDY}")


@pytest.mark.parametrize("version", ["version-1", "version-2"])
def test_a_study_resumes_by_the_rules_in_its_ledger(tmp_path: Path, version: str) -> None:
    shutil.copytree(ROOT / "tests" / "golden" / version, tmp_path / "run")
    resumed = with_recorded_rules(study(tmp_path))
    assert (resumed.edition, resumed.parallel) == (1, 4)
    assert with_recorded_rules(study(tmp_path), fresh=True).edition == EDITION
