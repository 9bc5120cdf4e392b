"""Numbers that a study does not set, and that only some of its trials use."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import pytest

from sweeper.config import StudyConfig, parse
from sweeper.config.optimizer import OPTIMIZERS, MixedOptimizerTable, OptimizerName, takes
from sweeper.config.table import Role, settings_with_role, value_of
from sweeper.errors import StudyError
from tests.small_studies import COUPLED, DIGITS, PARTS, bent

SIZES = "search.model.generator.width={type='int',low=4,high=8}"
# a small study of each program, and the searched setting that others depend on
STUDIES = {
    "supervised": (DIGITS, "model.depth"),
    "searched optimizer": (
        bent(
            DIGITS,
            "search.optimizer.name={type='categorical',choices=['adamw','sgd','rmsprop','adafactor']}",
        ),
        "model.depth",
    ),
    "alternating": (bent(PARTS.replace("lr = 1e-3\n", ""), "optimizer.lr=1e-2"), "model.b.width"),
    "coupled": (bent(COUPLED.replace("clip = 0.05\n", ""), SIZES), "model.generator.width"),
}
# what else the file needs for a setting to have an effect
BESIDE = {
    "huber_delta": (
        "data.name=diabetes",
        "data.split={val=0.2}",
        "train.loss=huber",
        "train.metrics=[]",
    ),
    "gradient_penalty": ("train.objective=wgan_gp",),
    "clip": ("train.objective=wgan",),
}
# the numbers that only some optimizers have
OF_OPTIMIZERS = [
    name
    for name in settings_with_role(MixedOptimizerTable, Role.TRACED)
    if not all(takes(optimizer, name) for optimizer in OPTIMIZERS)
]


def unwritten(config: StudyConfig) -> list[str]:
    """The unset numbers that are reported."""
    tables = {"model": config.model, "optimizer": config.optimizer, "train": config.train}
    return [
        f"{name}.{setting}"
        for name, table in tables.items()
        for setting in settings_with_role(type(table), Role.TRACED)
        if value_of(table, setting) is None and not setting.startswith("early_stop.")
    ]


KEYS = [
    (program, key)
    for program, (text, _) in STUDIES.items()
    for key in unwritten(parse(text, Path("study.toml")))
]


def searched(program: str, key: str) -> tuple[StudyConfig, str]:
    """The study with `key` searched for some values of another setting, and this other one."""
    text, other = STUDIES[program]
    others = list(BESIDE.get(key.rpartition(".")[2], ()))
    around = key.rpartition(".")[0]
    if around.endswith(".schedule"):
        name = "flat_cosine" if key.endswith(".flat") else "one_cycle"
        others.append(f"{around}.name={name}")
    when = f"{{'{other}'={5 if 'width' in other else 1}}}"
    entry = f"search.{key}={{type='float',low=0.1,high=0.5,when={when}}}"
    return parse(text, Path("study.toml"), [*others, entry]), other


@pytest.mark.parametrize(("program", "key"), KEYS)
def test_all_trials_of_a_study_get_the_same_traced_numbers(program: str, key: str) -> None:
    config, other = searched(program, key)
    named = {entry: config.search[entry].column(entry) for entry in (key, other)}
    drawn = {named[key]: 0.25, named[other]: 5 if "width" in other else 1}
    lacking = {named[other]: 4 if "width" in other else 2}
    settings = config.settings_of(drawn), config.settings_of(lacking)
    told, untold = (its.traced() for its in settings)
    assert told.keys() == untold.keys()
    taken = key.rpartition(".")[2] not in OF_OPTIMIZERS or hasattr(
        settings[0].optimizer, key.rpartition(".")[2]
    )
    assert (told.get(key) == 0.25) is taken
    if taken:
        assert untold[key] != 0.25
    parts = [its.structure() for its in settings]
    assert parts[0].keys() == parts[1].keys()


def test_every_optional_number_has_a_neutral_value() -> None:
    last = {key.rpartition(".")[2] for _, key in KEYS}
    assert last == {
        *BESIDE,
        *OF_OPTIMIZERS,
        *("clip_norm", "clip_value", "warmup", "flat", "start", "end"),
        *("lr", "ema", "label_smoothing"),
    }


def test_each_optimizer_has_a_table_whose_settings_can_be_written_if_it_is_searched() -> None:
    assert [*OPTIMIZERS] == [*get_args(OptimizerName)]
    for name, table in OPTIMIZERS.items():
        assert table.model_fields["name"].annotation == Literal[name]
        assert table.model_fields.keys() <= MixedOptimizerTable.model_fields.keys()


def test_a_phase_without_its_own_rate_needs_that_of_the_optimizer() -> None:
    rate = "search.train.phases.fit.lr={type='float',low=1e-3,high=1e-2,when={'model.b.width'=5}}"
    text = PARTS.replace('trains = ["a", "b"]\nlr = 1e-3', 'trains = ["a", "b"]')
    with pytest.raises(StudyError, match=r"optimizer\.lr: missing"):
        parse(text, Path("study.toml"), [rate])
    user = "optimizer.name=nets:optimizer"
    with pytest.raises(StudyError, match=r"optimizer\.lr: missing.*train\.phases\.fit\.lr"):
        parse(text, Path("study.toml"), [rate, user])
    assert parse(text, Path("study.toml"), [rate, user, "optimizer.lr=1e-2"])


@pytest.mark.parametrize("setting", ["lr", "gain"])
def test_a_number_for_a_user_function_needs_a_value_for_trials_without_one(setting: str) -> None:
    entry = f"search.optimizer.{setting}={{type='float',low=0.1,high=1.0,when={{'model.depth'=1}}}}"
    text = DIGITS.replace("lr = 1e-3\n", "").replace("optimizer.lr = {", "model.dropout = {")
    text = text.replace("low = 1e-5, high = 1e-1, log = true", "low = 0.0, high = 0.5")
    lines = [line for line in text.splitlines() if "weight_decay" not in line]
    overrides = [entry, "optimizer.name=nets:optimizer"]
    with pytest.raises(StudyError, match=f"optimizer.{setting}: missing.*do not draw it"):
        parse("\n".join(lines), Path("study.toml"), overrides)
    assert parse("\n".join(lines), Path("study.toml"), [*overrides, f"optimizer.{setting}=0.5"])


def test_settings_of_an_omitted_table_have_no_value() -> None:
    entry = (
        "search.train.early_stop.min_delta={type='float',low=0.1,high=1.0,when={'model.depth'=1}}"
    )
    with pytest.raises(StudyError, match=r"train\.early_stop"):
        parse(DIGITS, Path("study.toml"), [entry])
    early = "train.early_stop.patience=3"
    config = parse(DIGITS, Path("study.toml"), [entry, early])
    traced = [
        config.settings_of(p).traced() for p in ({"depth": 1, "min_delta": 0.5}, {"depth": 2})
    ]
    assert [its["train.early_stop.min_delta"] for its in traced] == [0.5, 0.0]
