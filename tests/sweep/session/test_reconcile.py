"""What may change between two starts of a study, and what follows from a change."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.errors import StudyError
from sweeper.process import LIBRARIES, installed_versions
from sweeper.scheduler.signature import short_hash
from sweeper.sweep.session.reconcile import (
    Change,
    InitialWeights,
    check_resume,
    describe_changes,
    environment_changes,
    format_setting,
    reconcile,
    refusals,
)
from tests.command_line import STUDY
from tests.documents import GUIDES, section
from tests.small_studies import PARTS

NOW = installed_versions(LIBRARIES)
REFUSED = [
    "study.name='beer'",
    "study.metric='train_loss'",
    "study.direction='maximize'",
    "study.value='best'",
    "study.seed=1",
    "study.sampler.name='random'",
    "study.sampler.n_startup_trials=5",
    "study.pruner={name='median'}",
    "data.name='iris'",
    "data.scale='none'",
    "data.target_scale='none'",
    "data.split.val=0.3",
    "data.split.group='alcohol'",
    "data.split.time='alcohol'",
    "data.impute='mean'",
    "data.impute={constant=0}",
    "data.categorical='ordinal'",
    "data.categorical_columns=['alcohol']",
    "data.class_weights='balanced'",
    "data.class_weights={class_0=2}",
    "model.depth=2",
    "model.dropout=0.1",
    "optimizer.weight_decay=0.1",
    "optimizer.clip_value=0.1",
    "optimizer.schedule={name='cosine'}",
    "train.batch_size=16",
    "train.metrics=['accuracy']",
    "train.label_smoothing=0.1",
    "train.ema=0.9",
    "train.early_stop={patience=2}",
    "search.optimizer.lr.high=0.2",
    "search.model.width={type='int',low=4,high=8}",
    "execution.precision='float64'",
    "execution.matmul_precision='highest'",
    "study.constraints=[{metric='val_loss',max=1.0}]",
    "study.enqueue=[{lr=1e-3}]",
]
BOUNDARY = [
    "study.n_trials=13",
    "schedule.parallel=5",
    "schedule.round_epochs=2",
    "execution.strategy='auto'",
    "execution.lane_loop='vmap'",
    "execution.memory_limit='1 GiB'",
    "results.save_optimizer=true",
]
FREE = [
    "study.timeout='1h'",
    "study.stop={patience=3}",
    "study.n_trials=11",
    "execution.threads=2",
    "execution.workers=1",
    "execution.memory_fraction=0.5",
    "execution.retries=3",
    "execution.grace='5s'",
    "results.dir='elsewhere'",
    "results.keep_models=1",
]


def changed(assignment: str) -> tuple[list[Change], list[Change]]:
    """The refusals and boundaries of a study with one changed setting."""
    # the sampler's options depend on its name
    study = STUDY.replace(", n_startup_trials = 4", "") if "random" in assignment else STUDY
    path = Path("study.toml")
    before, now = parse(study, path), parse(study, path, [assignment])
    found = reconcile(before.canonical(), now.canonical())
    return list(found.refused), list(found.boundary)


@pytest.mark.parametrize("assignment", REFUSED)
def test_changes_that_affect_trials_are_refused(assignment: str) -> None:
    refused, boundary = changed(assignment)
    key = assignment.partition("=")[0]
    assert refused and all(change.key.startswith(key) for change in refused)
    assert boundary == []


@pytest.mark.parametrize(
    ("study", "table", "key"),
    [
        (STUDY, "search", "search"),
        (PARTS, "train.losses", "train.losses"),
        (PARTS, "train.phases", None),
    ],
)
def test_changes_of_an_order_that_rows_depend_on_are_refused(
    study: str, table: str, key: str | None
) -> None:
    config = parse(study, Path("study.toml"))
    began, now = config.canonical(), config.canonical()
    *path, last = table.split(".")
    inner = reduce(lambda tables, name: tables[name], path, now)
    inner[last] = dict(reversed(inner[last].items()))

    refused = [change.key for change in reconcile(began, now).refused]

    assert refused == ([] if key is None else [key])


def test_the_guide_says_what_each_change_leads_to() -> None:
    table = section("Changing the study file", GUIDES["recovery"])
    refused, marked, _, free = [
        row.partition(" | ")[0] for row in table.splitlines() if row.startswith("| ")
    ][1:]
    assert all(f"`{name}`" in marked for name in [*map(_last, BOUNDARY), "--plan"])
    assert all(f"`{name}`" in free for name in map(_last, FREE))
    assert "your own code except that of samplers and pruners" in refused
    assert "the code of your own sampler or pruner" in marked


def _last(assignment: str) -> str:
    key = assignment.partition("=")[0]
    return key if key == "results.dir" else key.rpartition(".")[2]


@pytest.mark.parametrize("assignment", BOUNDARY)
def test_changes_of_sampling_and_planning_mark_later_rows(assignment: str) -> None:
    refused, boundary = changed(assignment)
    assert [change.key for change in boundary] == [assignment.partition("=")[0]]
    assert refused == []


@pytest.mark.parametrize("assignment", FREE)
def test_places_and_kept_files_can_change(assignment: str) -> None:
    assert changed(assignment) == ([], [])


def test_a_refusal_names_both_values_and_a_solution() -> None:
    config = parse(STUDY, Path("study.toml"))
    told = [str(problem) for problem in refusals(config, (Change("study.seed", 3, 0),))]
    assert told == [
        "study.toml:3: study.seed: was 3 when the study in runs/wine began, now 0; "
        "restore it in the file or with --set, change study.name (or results.dir if it is set), "
        "or start over with --fresh (in Python fresh=True), which moves the old directory aside"
    ]


@pytest.mark.parametrize(
    ("key", "sampler", "can_learn"),
    [
        ("search.optimizer.lr.high", "tpe", True),
        ("study.sampler.name", "tpe", True),
        ("study.pruner.name", "tpe", True),
        ("train.metrics", "tpe", True),
        ("search.optimizer.lr.high", "random", False),
        ("study.seed", "tpe", False),
    ],
)
def test_a_study_of_other_ranges_can_learn_from_this_one(
    key: str, sampler: str, can_learn: bool
) -> None:
    config = parse(STUDY, Path("study.toml"), [f"study.sampler={{name='{sampler}'}}"])
    (problem,) = refusals(config, (Change(key, 3, 0),))
    learn = " and learn from these trials with --learn-from runs/wine (in Python learn_from=), or"
    assert (learn in problem.hint) is can_learn


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not set"),
        ("relu", '"relu"'),
        (True, "true"),
        ({"type": "int", "low": 1, "step": None, "or": []}, '{ type = "int", low = 1 }'),
    ],
)
def test_values_are_shown_as_in_a_study_file(value: object, text: str) -> None:
    assert format_setting(value) == text


def test_recorded_libraries_and_flags_that_differ_are_reported() -> None:
    began = {"jax": "0.10.1", "numpy": "2.3", "XLA_FLAGS": "", "torch": "2.10", "gone": "1"}
    now = {"jax": "0.10.2", "numpy": "2.3", "XLA_FLAGS": "--a", "torch": "", "device": "cpu"}
    assert environment_changes(began, now) == (
        Change("jax", "0.10.1", "0.10.2"),
        Change("XLA_FLAGS", "absent", "--a"),
        Change("torch", "2.10", "absent"),
    )
    assert environment_changes({}, now) == ()
    # of ARM processors, earlier versions only recorded that the system says nothing of them
    assert environment_changes({"device": f"cpu ({short_hash('')})"}, now) == ()


def test_rows_are_marked_with_every_change_so_far() -> None:
    jax = {"key": "jax", "before": "0.10.1", "now": "0.10.2"}
    larger = {"key": "study.n_trials", "before": 4, "now": 8}
    sessions = [{"boundaries": changes} for changes in ([], [jax], [jax, larger], [larger])]
    assert describe_changes(sessions[:1]) is None
    assert describe_changes(sessions) == (
        "jax: 0.10.1 -> 0.10.2 (session 2); study.n_trials: 4 -> 8 (session 3)"
    )


@pytest.mark.parametrize(
    ("recorded", "found"),
    [
        ({}, "the data has changed since the study in runs/wine began"),
        (NOW, "the data has changed since the study in runs/wine began"),
        (
            {**NOW, "pandas": "2.1.4"},
            f"the data is read differently with pandas=={NOW['pandas']} than with pandas==2.1.4, "
            "or has changed",
        ),
    ],
    ids=["not recorded", "the same", "another pandas"],
)
def test_other_versions_are_named_if_the_data_differs(recorded: dict[str, str], found: str) -> None:
    config = parse(STUDY, Path("study.toml"))
    began = {
        "study": config.canonical(),
        "code": {},
        "data_digest": "a",
        "continued_from": None,
        "environment": recorded,
    }
    with pytest.raises(StudyError) as refusal:
        check_resume(config, [began], "b", None)
    (problem,) = refusal.value.problems
    assert problem.found == found
    assert ("install pandas==2.1.4, " in problem.hint) == ("2.1.4" in found)
    assert check_resume(config, [began], "a", None) == ()


@pytest.mark.parametrize(
    ("recorded", "is_refused"),
    [
        (None, False),  # by an earlier version
        ({"digests": {"model.function": "b"}, "environment": {"jax": "0.1"}}, True),
        ({"digests": {"model.function": "b"}, "environment": {"jax": "0.0"}}, False),
        ({"digests": {"model.function": "a"}, "environment": {"jax": "0.1"}}, False),
        ({"digests": {}, "environment": {"jax": "0.1"}}, False),
    ],
)
def test_other_initial_weights_are_refused_if_they_can_be_compared(
    recorded: dict[str, dict[str, str]] | None, is_refused: bool
) -> None:
    config = parse(STUDY, Path("study.toml"))
    began = {"study": config.canonical(), "code": {}, "data_digest": "a", "continued_from": None}
    began |= {} if recorded is None else {"fixed_start": recorded}
    now = InitialWeights({"model.function": "a"}, {"jax": "0.1"})
    if not is_refused:
        assert check_resume(config, [began], "a", None, weights=now) == ()
        return
    with pytest.raises(StudyError, match="returns other initial weights"):
        check_resume(config, [began], "a", None, weights=now)
