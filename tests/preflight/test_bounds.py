"""Constraints on the number of parameters that all models meet, or none, are reported."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from sweeper import api
from sweeper.config import StudyConfig, parse
from sweeper.preflight.bounds import idle_bounds, sizes
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import DataSpec
from sweeper.results.events import Warned
from tests.small_studies import DIGITS, bent

PROGRAMS = Programs(DataSpec(64, 10, 100, (0.0,), (1.0,), has_test=False, dtype="float32", seed=0))
LIMIT = "study.constraints=[{{metric='n_parameters',{}}}]"


def study(*changes: str) -> StudyConfig:
    return parse(bent(DIGITS, *changes), Path("study.toml"))


@pytest.mark.parametrize(
    "depths", [range(4), range(1, 3), range(2, 3), range(0, 5, 2)], ids=["0", "1", "2", "step"]
)
def test_the_ends_of_the_search_have_the_least_and_the_most_parameters(depths: range) -> None:
    config = study(
        f"search.model.depth={{type='int',low={depths.start},high={depths.stop - 1},"
        f"step={depths.step}}}",
        "search.model.width={type='int',low=1,high=9}",
    )
    counts = [
        PROGRAMS.n_parameters(config.settings_of({"depth": depth, "width": width}))
        for depth, width in product(depths, range(1, 10))
    ]
    assert sizes(config, PROGRAMS) == (min(counts), max(counts))


@pytest.mark.parametrize(
    ("bound", "found"),
    [
        ("max=10000000", "changes nothing: models have 610 to 4,522 parameters"),
        ("min=610", "changes nothing: models have 610 to 4,522 parameters"),
        ("max=10", "no trial can meet max = 10, since no model has less than 610 parameters"),
        ("min=9999", "no trial can meet min = 9999, since no model has more than 4,522 parameters"),
        ("max=610", None),
        ("min=4522", None),
    ],
)
def test_a_bound_that_all_or_no_models_meet_is_reported(bound: str, found: str | None) -> None:
    warnings = idle_bounds(study(LIMIT.format(bound)), PROGRAMS)
    assert [one.partition("study.constraints.0")[2].lstrip(": ") for one in warnings] == [
        *filter(None, [found])
    ]


def test_validate_plan_and_run_report_it(tmp_path: Path) -> None:
    changes = (LIMIT.format("max=10"), "search={}", f"results.dir='{tmp_path / 'run'}'")
    config = study(*changes)
    events: list[object] = []
    api.run(config, observer=events.append)
    of_run = [event.message for event in events if isinstance(event, Warned)]
    for warnings in (api.check(config).warnings, api.plan(config).as_dict()["notes"], of_run):
        assert any("no trial can meet max = 10" in warning for warning in warnings)
