"""Any valid study file passes `validate` and `plan`; a broken one is refused by its line."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator
from math import ceil
from pathlib import Path

import pytest
import sklearn
from hypothesis import given
from hypothesis.strategies import SearchStrategy

from sweeper import api
from sweeper.config import parse
from sweeper.config.json_schema import study_schema
from sweeper.errors import SweeperError
from tests.config.schema_checker import faults
from tests.generated.breakage import Breakage, Broken
from tests.generated.effort import some
from tests.generated.files import write_files
from tests.generated.frames import Study
from tests.generated.parts import games, turns
from tests.generated.studies import studies
from tests.generated.ways import BREAKAGES
from tests.generated.writing import Lines, written

SCHEMA = study_schema()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A study file to plan; the environment that planning sets is restored."""
    assert sklearn.__version__  # if it is imported already, data is prepared in this process
    directory = tmp_path_factory.mktemp("generated")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        for name in ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE"):
            patch.setenv(name, os.environ.get(name, ""))
            patch.delenv(name)
        write_files(directory)
        yield directory / "study.toml"


def plan_all(path: Path, of: SearchStrategy[Study], count: int) -> None:
    """Validate and plan this many studies."""
    planned = 0

    @some(count)
    @given(of.flatmap(written))
    def each(file: tuple[str, Lines]) -> None:
        nonlocal planned
        text, _ = file
        config = parse(text, path)
        assert list(faults(tomllib.loads(text), SCHEMA)) == []
        checked, preview = api.check(config), api.plan(config).as_dict()
        assert checked.n_trials == preview["n_trials"]
        asked = [n for bucket in preview["first_round"]["buckets"] for n in bucket["trials"]]
        first = 0 if config.trial is None else config.trial.number
        live = preview["parallel"]["trials"]
        assert 1 <= live <= checked.n_trials
        assert live == min(checked.n_trials, config.schedule.parallel or live)
        lost = preview["first_round"]["infeasible"]
        more = min(sum(number < first + live for number in lost), checked.n_trials - live)
        assert sorted(asked + lost) == list(range(first, first + live + more))
        planned += 1

    each()
    assert planned >= count


def refuse_all(path: Path, breakage: Breakage, count: int) -> None:
    """Break this many studies in one way; each is refused there, and nowhere else."""
    refused = 0

    @some(count)
    @given(breakage.files)
    def each(broken: Broken) -> None:
        nonlocal refused
        raw = tomllib.loads(broken.text)
        with pytest.raises(SweeperError) as refusal:
            api.check(parse(broken.text, path))
        problems = refusal.value.problems
        assert {(one.where, one.key) for one in problems} <= broken.places(), broken.text
        assert problems
        assert all(one.found and one.hint for one in problems)
        if broken.in_schema:
            assert list(faults(raw, SCHEMA))
        refused += 1

    each()
    assert refused >= count


@pytest.mark.parametrize(("of", "count"), [(studies, 2), (turns, 1), (games, 1)])
def test_valid_studies_are_planned(
    of: Callable[[], SearchStrategy[Study]], count: int, here: Path
) -> None:
    plan_all(here, of(), count)


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name)
def test_a_broken_study_is_refused_at_its_line(here: Path, breakage: Breakage) -> None:
    refuse_all(here, breakage, 1)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("of", "count"), [(studies, 2000), (turns, 500), (games, 500)])
def test_three_thousand_valid_studies_are_planned(
    of: Callable[[], SearchStrategy[Study]], count: int, here: Path
) -> None:
    plan_all(here, of(), count)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name)
def test_two_thousand_broken_studies_are_refused_at_their_line(
    here: Path, breakage: Breakage
) -> None:
    refuse_all(here, breakage, ceil(2000 / len(BREAKAGES)))
