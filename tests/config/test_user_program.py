"""`[train]` of a user-defined program: its keys, and what is refused."""

from __future__ import annotations

import pytest

from sweeper.config.lint import file_warnings
from sweeper.errors import StudyError
from sweeper.study import options
from tests.config.conftest import Read, Refused

LOSS = 'loss = "cross_entropy"\nmetrics = ["accuracy"]'
OWN = 'program = "own:Program"\ntask = "classes"\nmetrics = ["spread"]\nweight = 0.5\nsteps = 3'


def test_its_keys_are_structural_or_traced(read: Read) -> None:
    config = read(LOSS, OWN, "search.train.weight={type='float',low=0.1,high=1.0}")
    settings = config.settings_of({"weight": 0.25})
    assert settings.traced()["train.weight"] == 0.25
    assert settings.structure()["train.steps"] == 3
    assert "train.weight" not in settings.structure()
    assert not config.structural["train.weight"]
    assert config.functions == {"own:Program": "train.program"}
    assert config.train.metric_names == ("train_loss", "val_loss", "val_spread")
    assert config.train.target == "classes"


@pytest.mark.parametrize("name", ["label_smoothing", "huber_delta", "clip", "lr"])
def test_a_searched_float_is_traced_also_with_the_name_of_a_setting(name: str, read: Read) -> None:
    own = OWN.replace("weight", name)
    config = read(LOSS, own, f"search.train.{name}={{type='float',low=0.1,high=1,name='own'}}")
    drawn = [config.settings_of({"own": value}) for value in (0.25, 0.75)]
    assert [settings.traced()[f"train.{name}"] for settings in drawn] == [0.25, 0.75]
    assert drawn[0].structure() == drawn[1].structure()


@pytest.mark.parametrize("table", ["optimizer", "train"])
def test_floats_that_are_the_same_as_each_other_are_traced(table: str, read: Read) -> None:
    config = read(
        LOSS,
        OWN,
        "optimizer={name='own:optimizer'}",
        f"search={{{table}={{beta={{type='float',low=0.1,high=0.9}},"
        f"gamma={{same_as='{table}.beta'}}}}}}",
    )
    assert config.structural == {f"{table}.beta": False}
    traced = config.settings_of({"beta": 0.25}).traced()
    assert (traced[f"{table}.beta"], traced[f"{table}.gamma"]) == (0.25, 0.25)


def test_searched_integers_are_structural(read: Read) -> None:
    config = read(LOSS, OWN, "search.train.steps={type='int',low=1,high=3}")
    assert config.structural["train.steps"]


@pytest.mark.parametrize(
    ("new", "overrides", "key", "found"),
    [
        (OWN.replace('task = "classes"\n', ""), (), "train.task", "missing"),
        (OWN.replace("spread", "two words"), (), "train.metrics", "cannot be a column name"),
        (OWN.replace("spread", "loss"), (), "train.metrics", "'loss' is always reported"),
        (OWN, ("study.metric=val_accuracy",), "study.metric", "'val_accuracy' is not reported"),
        (OWN, ("model.dropout=0.5",), "model.dropout", "calls the model without dropout"),
        (
            OWN,
            ("search.model.dropout={type='float',low=0.0,high=0.5}",),
            "search.model.dropout",
            "calls the model without dropout",
        ),
        (OWN.replace("own:Program", "own"), (), "train.program", "no program"),
        (OWN + "\nlist = [1, 2]", (), "train.list", ""),
        (OWN, ("model={a={depth=1,width=4}}", "search={}"), "model", "several parts, but the pro"),
    ],
)
def test_what_does_not_fit_is_refused(
    new: str, overrides: tuple[str, ...], key: str, found: str, refused: Refused
) -> None:
    problems = refused(LOSS, new, *overrides)
    assert [problem.key for problem in problems] == [key]
    assert found in problems[0].found
    assert problems[0].hint


def test_a_missing_setting_is_refused_with_the_names_that_it_takes(refused: Refused) -> None:
    (problem,) = refused(LOSS, OWN.replace('task = "classes"\n', ""))
    assert (problem.key, problem.hint) == ("train.task", "write one of classes, numbers")


def test_a_function_may_have_an_argument_called_dropout(read: Read) -> None:
    drawn = "search.model.dropout={type='float',low=0.0,high=0.5}"
    model = "model={kind='python',function='own:build'}"
    config = read(LOSS, OWN, model, f"search={{{drawn.removeprefix('search.')}}}")
    assert [*config.search] == ["model.dropout"]


STOP = "train.early_stop={metric='val_spread',patience=2}"


def test_stopping_by_a_metric_of_the_program_of_unknown_direction_is_refused(read: Read) -> None:
    with pytest.raises(StudyError) as refused:
        options.check(read(LOSS, OWN, STOP), python=False)
    (problem,) = refused.value.problems
    assert problem.key == "train.early_stop.metric"
    assert problem.found == "it is not known which values of 'val_spread' are better"
    assert problem.hint == "stop by study.metric, whose direction is written, or by val_loss"


def test_a_study_of_an_earlier_edition_still_stops_by_a_metric_of_its_program(read: Read) -> None:
    earlier = read(LOSS, OWN, STOP).with_edition(5)
    options.check(earlier, python=False)
    assert earlier.stops is not None
    assert earlier.stops.maximize


@pytest.mark.parametrize(
    ("metric", "overrides"),
    [("val_loss", ()), ("train_loss", ()), ("val_spread", ("study.metric=val_spread",))],
)
def test_trials_stop_by_a_loss_or_by_the_metric_of_the_study(
    metric: str, overrides: tuple[str, ...], read: Read
) -> None:
    stop = f"train.early_stop={{metric='{metric}',patience=2}}"
    config = read(LOSS, OWN, stop, *overrides)
    options.check(config, python=False)
    assert config.stops is not None
    assert not config.stops.maximize


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_no_direction_is_unusual_for_a_metric_of_the_program(direction: str, read: Read) -> None:
    config = read(LOSS, OWN, "study.metric=val_spread", f"study.direction={direction}")
    assert file_warnings(config) == ()
