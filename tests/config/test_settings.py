"""Compiled and traced settings are divided the same way for every trial of a study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.config import StudyConfig, parse
from sweeper.config.reading import settings_within
from sweeper.trial import Scalar
from tests.config.conftest import VALID, Read

ENTRIES = {
    "model.depth": '{ type = "int", low = 0, high = 2 }',
    "model.width": '{ type = "int", low = 4, high = 8, base = 2 }',
    "model.activation": '{ type = "categorical", choices = ["relu", "tanh"] }',
    "model.layer_norm": '{ type = "categorical", choices = [false, true] }',
    "model.dropout": '{ type = "float", low = 0.0, high = 0.5 }',
    "optimizer.lr": '{ type = "float", low = 1e-4, high = 1e-2, log = true }',
    "optimizer.weight_decay": '{ type = "categorical", choices = [0, 1e-4] }',
    "optimizer.b1": '{ type = "float", low = 0.8, high = 0.9, step = 0.05, name = "beta" }',
    "train.epochs": '{ type = "int", low = 1, high = 4 }',
    "train.batch_size": '{ type = "int", low = 8, high = 16, step = 8 }',
}


def study_of(keys: set[str]) -> StudyConfig:
    entries = "\n".join(f"{key} = {ENTRIES[key]}" for key in sorted(keys))
    head = VALID.partition("[search]")[0]
    return parse(f"{head}[search]\n{entries}\n", Path("study.toml"))


STUDIES = st.sets(st.sampled_from(sorted(ENTRIES))).map(study_of)


def draws(config: StudyConfig) -> st.SearchStrategy[dict[str, Scalar]]:
    """Parameters that a sampler could propose."""

    def values(column: str) -> st.SearchStrategy[Scalar]:
        entry = config.columns[column]
        finite = entry.values()
        if finite is not None:
            return st.sampled_from(finite)
        assert entry.type == "float"
        return st.floats(entry.low, entry.high)

    return st.fixed_dictionaries({column: values(column) for column in config.columns})


def structural_part(config: StudyConfig, params: Mapping[str, Scalar]) -> dict[str, Scalar]:
    splits = config.structural
    return {
        key: params[column]
        for key, column in zip(config.search, config.columns, strict=True)
        if splits[key]
    }


@given(data=st.data(), config=STUDIES)
def test_trials_share_a_structure_if_they_share_structural_parameters(
    data: st.DataObject, config: StudyConfig
) -> None:
    one, other = data.draw(draws(config)), data.draw(draws(config))
    same_params = structural_part(config, one) == structural_part(config, other)
    same_structure = config.settings_of(one).structure() == config.settings_of(other).structure()
    assert same_params == same_structure


@given(data=st.data(), config=STUDIES)
def test_traced_settings_are_the_same_for_every_trial_of_a_study(
    data: st.DataObject, config: StudyConfig
) -> None:
    settings = config.settings_of(data.draw(draws(config)))
    traced = settings.traced()
    assert list(traced) == list(config.settings_of({}).traced())
    assert all(type(value) is float for value in traced.values())


@given(data=st.data(), config=STUDIES)
def test_a_trial_has_the_settings_of_the_file_with_its_parameters(
    data: st.DataObject, config: StudyConfig
) -> None:
    params = data.draw(draws(config))
    overrides = [
        f"{key}={str(params[column]).lower()}"
        for column, key in zip(config.columns, config.search, strict=True)
    ]
    written = parse(VALID.partition("[search]")[0], Path("study.toml"), overrides)
    settings = config.settings_of(params)
    assert (settings.model, settings.optimizer, settings.train) == (
        written.model,
        written.optimizer,
        written.train,
    )


@given(config=STUDIES)
def test_structures_are_counted_by_their_differences(config: StudyConfig) -> None:
    counts = [config.search[key].count() for key, splits in config.structural.items() if splits]
    product = 1
    for count in counts:
        assert count is not None
        product *= count
    assert config.n_structures == product


@pytest.mark.parametrize("optimizer", ['name = "adamw"', 'name = "sgd"\nnesterov = true'])
def test_every_setting_is_structural_or_traced(optimizer: str, read: Read) -> None:
    settings = read('name = "adamw"', optimizer).settings_of({})
    sides = settings.structure().keys() | settings.traced().keys()
    written = {
        setting
        for table in ("model", "optimizer", "train")
        for setting in settings_within(type(getattr(settings, table)), table)
    }
    left_out = {f"optimizer.schedule.{name}" for name in ("warmup", "flat", "start", "end")}
    left_out |= {"train.huber_delta", "train.early_stop.patience", "train.early_stop.min_delta"}
    of_numbers = ("numbers", "n_bins", "bins", "n_frequencies", "embedding_size")
    left_out |= {f"model.{name}" for name in of_numbers}  # while they have their defaults
    left_out |= {"model.frequency_scale"}  # no program gets it
    left_out |= {key for key in written if key.startswith("optimizer.decay.")}  # in a single text
    assert sides == written - {"train.epochs"} - left_out
    assert settings.structure().keys() & settings.traced().keys() == set()


@pytest.mark.parametrize(
    ("fixed", "searched", "expected"),
    [("0.0", False, False), ("0.2", False, True), ("0.0", True, True)],
)
def test_dropout_is_compiled_in_for_all_trials_or_for_none(
    fixed: str, searched: bool, expected: bool
) -> None:
    head, _, _ = VALID.partition("[search]")
    text = head.replace("width = 8", f"width = 8\ndropout = {fixed}") + "[search]\n"
    text += f"model.dropout = {ENTRIES['model.dropout']}" if searched else ""
    config = parse(text, Path("study.toml"))
    drawn = {"dropout": 0.0} if searched else {}
    assert config.settings_of(drawn).structure()["model.dropout"] is expected


def test_choices_have_the_type_of_their_setting() -> None:
    (entry,) = study_of({"optimizer.weight_decay"}).search.values()
    assert [type(value) for value in entry.values() or ()] == [float, float]


def test_an_unknown_column_is_not_treated_as_a_setting(read: Read) -> None:
    with pytest.raises(KeyError):
        read().settings_of({"model.depth": 2})
