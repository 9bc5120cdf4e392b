"""What the functions of Python take, and what they refuse before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sweeper
from sweeper.errors import StudyError, SweeperError
from sweeper.results.events import BucketStarted, Event, RoundClosed, StudyOpened
from tests.in_process import study_in
from tests.small_studies import DIGITS


@pytest.mark.parametrize("argument", ["plan_file", "continue_from"])
def test_a_file_may_be_given_as_text(argument: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {argument: str(tmp_path / "nowhere")}
    with pytest.raises(SweeperError, match=r"/nowhere: "):
        sweeper.run(study_in(tmp_path, DIGITS), **given)
    with pytest.raises(StudyError, match=f"{argument}: int given as a path; pass the path of a"):
        sweeper.run(study_in(tmp_path, DIGITS), **{argument: 3})  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [3, None, [Path("run"), 3], {"run": 1}.items()])
def test_an_earlier_study_that_is_not_a_path_is_refused(given: Any, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"learn_from: .* given as an earlier study; pass its run"):
        sweeper.run(study_in(tmp_path, DIGITS), learn_from=given)


@pytest.mark.parametrize("kind", [StudyOpened, BucketStarted, RoundClosed])
def test_an_error_of_an_observer_is_not_one_of_the_disk(kind: type[Event], tmp_path: Path) -> None:
    def observe(event: Event) -> None:
        if isinstance(event, kind):
            raise ConnectionError("the server refused the message")

    study = study_in(tmp_path, DIGITS, "study.n_trials=2", "train.epochs=1")
    with pytest.raises(ConnectionError, match="the server refused the message") as raised:
        sweeper.run(study, observer=observe)
    assert raised.value.__notes__ == ["raised by the observer of this run"]
    assert sweeper.run(study).state == "finished"
