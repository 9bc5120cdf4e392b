"""A study file becomes immutable values, with defaults filled in."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError

from sweeper.config import load, parse
from sweeper.config.search import FloatSearch, IntSearch
from sweeper.errors import StudyError
from tests.config.conftest import VALID, Read

DIGITS = Path(__file__).parents[2] / "studies" / "digits.toml"


def test_the_digits_study_loads() -> None:
    config = load(DIGITS)
    assert config.columns == {
        "depth": IntSearch(type="int", low=1, high=4),
        "width": IntSearch(type="int", low=16, high=128, base=2),
        "lr": FloatSearch(type="float", low=1e-4, high=1e-2, log=True),
        "weight_decay": FloatSearch(type="float", low=1e-6, high=1e-1, log=True),
    }
    assert config.n_structures == 16
    assert config.study.pruner.options == {"n_startup_trials": 16, "n_warmup_steps": 4}
    assert config.train.metric_names == ("train_loss", "val_loss", "val_accuracy")
    assert config.train.test_metric_names == ("test_loss", "test_accuracy")
    assert config.base_dir == DIGITS.parent


def test_comments_of_the_digits_study_list_all_choices() -> None:
    table, offered = "", dict[str, list[str]]()
    for line in DIGITS.read_text(encoding="utf-8").splitlines():
        setting, _, comment = line.partition("#")
        if line.startswith("["):
            table = line.strip("[]")
        elif " | " in comment:
            key = f"{table}.{setting.partition('=')[0].strip()}"
            options = comment.partition(";")[0].strip().split(" | ")
            offered[key] = [option.removeprefix("or ") for option in options]
    assert len(offered) == 6
    for key, options in offered.items():
        with pytest.raises(StudyError) as refused:
            load(DIGITS, [f"{key}=another"])
        _, _, there = str(refused.value).partition("write one of ")
        assert set(options) <= {option.removeprefix("or ") for option in there.split(", ")}


def test_a_study_equals_its_tables_in_json(read: Read) -> None:
    canonical = read("n_trials = 8", "n_trials = 8\nsampler.multivariate = false").canonical()
    assert canonical["study"]["sampler"] == {"name": "tpe", "multivariate": False}
    assert canonical["train"]["metrics"] == ["accuracy"]
    assert canonical["data"]["split"] == {
        "val": 0.2,
        "test": 0.1,
        "stratify": False,
        "group": None,
        "time": None,
        "as_feature": False,
        "seed": None,
        "train_on": "train",
    }
    assert "source" not in canonical


def test_layout_and_comments_do_not_change_a_study(read: Read) -> None:
    spread = read(
        "model.depth = {",
        "# by hand\nmodel.depth.low = 1\nmodel.depth.high = 3\nmodel.depth.type = 'int' #{",
    )
    assert spread.canonical() == read().canonical()


def test_a_study_survives_pickling(read: Read) -> None:
    config = read()
    sent = pickle.loads(pickle.dumps(config))
    assert sent == config
    assert sent.source == config.source


def test_a_study_is_frozen(read: Read) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        read().train.epochs = 3


def test_the_run_directory_is_named_after_the_study(read: Read) -> None:
    assert read().run_dir == Path("runs/small")
    assert read("", "", "results.dir=elsewhere").run_dir == Path("elsewhere")


def test_a_searched_setting_needs_no_value_of_its_own(read: Read) -> None:
    without = read("depth = 1\n", "")
    assert without.settings_of({"depth": 3}) == read().settings_of({"depth": 3})


def test_problems_found_later_have_a_line_too(read: Read) -> None:
    problem = read().problem("data.name", "too small", "take another")
    assert str(problem) == "study.toml:11: data.name: too small; take another"


def test_integers_are_accepted_as_floats(read: Read) -> None:
    assert read("lr = 1e-3", "lr = 1").optimizer.lr == 1.0


def test_a_study_without_search_is_one_structure() -> None:
    config = parse(VALID.partition("[search]")[0], Path("study.toml"))
    assert (config.search, config.n_structures) == ({}, 1)
