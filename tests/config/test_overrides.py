"""`--set key=value` replaces a setting of the file."""

from __future__ import annotations

import pytest

from sweeper.config.overrides import override_texts, read_overrides
from sweeper.errors import Problem
from tests.config.conftest import Read, Refused


def test_an_override_has_the_effect_of_editing_the_file(read: Read) -> None:
    overridden = read("", "", "train.epochs=9", "model.activation='tanh'")
    written = read("width = 8", 'width = 8\nactivation = "tanh"').canonical()
    written["train"]["epochs"] = 9
    assert overridden.canonical() == written


@pytest.mark.parametrize("value", ["gelu", '"gelu"', " 'gelu' "])
def test_text_needs_no_quotes(value: str, read: Read) -> None:
    assert read("", "", f"model.activation={value}").model.activation == "gelu"


def test_a_value_may_hold_an_equals_sign(read: Read) -> None:
    text = 'search.model.width={ type = "int", low = 8, high = 32, base = 2 }'
    assert read("", "", text).columns["width"].values() == (8, 16, 32)


@pytest.mark.parametrize("name", ["<=50K", "a", "x=", "=="])
def test_the_name_of_a_class_may_hold_an_equals_sign(name: str, read: Read) -> None:
    key = f"data.class_weights.{name}"
    for text in (f"{key}=2", f" {key} = 2", *override_texts({key: 2.0})):
        config = read("", "", text)
        assert config.data.class_weights == {name: 2.0}
        assert config.source.overridden == (key,)
    assert read("", "", f'data.class_weights={{"{name}"=2}}').data.class_weights == {name: 2.0}


def test_the_last_of_two_overrides_wins(read: Read) -> None:
    assert read("", "", "study.seed=1", "study.seed=2").study.seed == 2


def test_an_override_reaches_into_a_search_entry(read: Read) -> None:
    assert read("", "", "search.model.depth.high=6").columns["depth"].values() == tuple(range(1, 7))


def test_an_override_creates_missing_tables(read: Read) -> None:
    assert read("", "", "execution.workers=2").execution.workers == 2


def test_a_line_break_cannot_add_a_second_setting(refused: Refused) -> None:
    (problem,) = refused("", "", "study.seed=1\nother = 2")
    assert problem.key == "study.seed"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "train.epocks=3",
            Problem("--set", "train.epocks", "no such setting", "did you mean 'train.epochs'?"),
        ),
        (
            "train.epochs=few",
            Problem("--set", "train.epochs", "'few' is not an integer", "write an integer"),
        ),
        (
            "study.name.first=1",
            Problem("--set", "study.name", "a table is not text", "write text in quotes"),
        ),
        (
            "data.split.val=0.95",
            Problem(
                "--set",
                "data.split",
                "val 0.95 and test 0.1 leave nothing to train on",
                "write parts that sum to less than 1",
            ),
        ),
        (
            "epochs",
            Problem("--set", "epochs", "not of the form key=value", "write e.g. train.epochs=5"),
        ),
        (
            "=3",
            Problem("--set", "=3", "not of the form key=value", "write e.g. train.epochs=5"),
        ),
    ],
)
def test_an_invalid_override_is_refused_as_one(
    override: str, expected: Problem, refused: Refused
) -> None:
    assert refused("", "", override) == (expected,)


def test_an_override_of_a_fixed_setting_is_accepted(read: Read) -> None:
    assert read("epochs = 4", "epochs = 0", "train.epochs=2").train.epochs == 2


@pytest.mark.parametrize("bracket", ["[", "{a="])
def test_endless_brackets_are_refused(bracket: str, refused: Refused) -> None:
    (problem,) = refused("", "", "train.epochs=3", f"study.n_trials={bracket * 5000}")
    assert (problem.where, problem.key) == ("--set", "study.n_trials")
    assert problem.found == "too many nested tables or arrays"


@pytest.mark.parametrize("depth", [2, 100, 300, 400, 450, 480, 5000])
def test_deeply_nested_arrays_are_refused_everywhere(depth: int, refused: Refused) -> None:
    nested = "[" * depth + "]" * depth
    for problems in (
        refused("width = 8", f"width = {nested}"),
        refused("", "", f"model.width={nested}"),
        refused("", "", f"search.model.depth.low={nested}"),
    ):
        assert len(problems) == 1


@pytest.mark.parametrize(
    ("given", "quoted"),
    [
        ("study.sampler={name=random}", 'study.sampler={name="random"}'),
        ("train.metrics=[accuracy]", 'train.metrics=["accuracy"]'),
        (
            "search.model.layer_norm={type=categorical,choices=[true,false]}",
            'search.model.layer_norm={type="categorical",choices=[true,false]}',
        ),
        (
            "search.optimizer.lr={type=float,low=1e-4,high=1e-2,log=true}",
            'search.optimizer.lr={type="float",low=1e-4,high=1e-2,log=true}',
        ),
    ],
)
def test_text_that_lost_its_quotes_is_shown_with_them(
    given: str, quoted: str, refused: Refused, read: Read
) -> None:
    (problem,) = refused("", "", given)
    key, _, value = given.partition("=")
    both = "with text in double quotes, and the whole in single ones"
    hint = f"write --set '{quoted}', {both}"
    assert problem == Problem("--set", key, f"{value} is not TOML", hint)
    assert read("", "", quoted).canonical()


@pytest.mark.parametrize(
    ("given", "quoted", "found"),
    [
        ("study.name=2024", 'study.name="2024"', "2024 is not text"),
        ("study.name = 1e3", 'study.name="1e3"', "1000.0 is not text"),
        ("study.name=2026-11-30", 'study.name="2026-11-30"', "2026-11-30 is not text"),
        ("results.dir=2024", 'results.dir="2024"', "2024 is not text"),
        ("study.metric=true", 'study.metric="true"', "true is not a name"),
    ],
)
def test_text_that_the_shell_made_a_number_is_shown_with_both_kinds_of_quotes(
    given: str, quoted: str, found: str, refused: Refused
) -> None:
    (problem,) = refused("", "", given)
    both = "with text in double quotes, and the whole in single ones"
    hint = f"write --set '{quoted}', {both}"
    assert problem == Problem("--set", quoted.partition("=")[0], found, hint)


def test_each_name_is_refused_with_the_letters_that_it_may_have(refused: Refused) -> None:
    for given, letters in (
        ("study.name=-a", "write letters, digits, '_' and '-' only, and not '-' first"),
        ("search.model.depth.name=a-b", "write letters, digits and '_' only"),
        ("results.dir=a\x01", "leave out control characters"),
    ):
        (problem,) = refused("", "", given)
        assert problem.hint == letters


def test_an_array_without_its_end_is_refused_as_one(refused: Refused) -> None:
    (problem,) = refused("", "", 'study.metric=["val_loss"')
    assert problem.found == '["val_loss" is not TOML'
    assert problem.hint.startswith('write e.g. --set \'study.metric=["a", "b"]\'')


@pytest.mark.parametrize(
    "given",
    ["data.split.group=[pat]", "data.weight={w}", "execution.engine.address=[::1]:8786"],
)
def test_text_may_begin_with_a_bracket(given: str) -> None:
    key, _, value = given.partition("=")
    assert read_overrides([given]) == [(key, value)]


def test_a_path_may_begin_with_a_bracket(read: Read) -> None:
    assert str(read("", "", "results.dir=[a]").run_dir) == "[a]"


def test_parts_and_losses_change_only_in_the_settings_that_an_override_names() -> None:
    overrides = {
        "model": {"generator": {"width": 24}},
        "train.losses": {"data": {"against": "b"}},
        "train.phases": {"fit": {"loss": "data"}},
        "optimizer": {"generator": {"name": "adam", "lr": 0.01}},
    }
    assert override_texts(overrides) == [
        "model.generator.width=24",
        'train.losses.data.against="b"',
        'train.phases.fit.loss="data"',
        'optimizer.generator={ name = "adam", lr = 0.01 }',
    ]
