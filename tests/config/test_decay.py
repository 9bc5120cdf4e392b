"""`[optimizer.decay]` is read rule by rule, and invalid rules are refused with their line."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.config.decay import Rule
from sweeper.config.optimizer import OPTIMIZERS
from sweeper.config.toml import toml_text
from sweeper.sweep.session.reconcile import reconcile
from tests.config.conftest import VALID, Read, Refused

DECAY = """
[optimizer.decay]
linear = { weight = true, bias = 0.5 }
"nets:Gate" = false
other = false

[[optimizer.decay.where]]
path = "layers[0].*"
ndim = 1
decay = 0.1

[[optimizer.decay.where]]
class = "layer_norm"
leaf = "bias"
depth = [0, -1]
decay = true

[train]
"""
WITH_DECAY = VALID.replace("\n[train]\n", DECAY)


def test_rules_keep_the_order_of_the_file() -> None:
    table = parse(WITH_DECAY, Path("study.toml")).optimizer.decay

    assert table is not None
    assert table.rules_in_order == (
        Rule("other", 0.0),
        Rule("linear.weight", 1.0, "linear", "weight"),
        Rule("linear.bias", 0.5, "linear", "bias"),
        Rule("nets:Gate", 0.0, "nets:Gate"),
        Rule("where.0", 0.1, path="layers[0].*", ndim=(1,)),
        Rule("where.1", 1.0, "layer_norm", "bias", depth=(0, -1)),
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_has_decay_rules(name: str, read: Read) -> None:
    config = read('name = "adamw"', f'name = "{name}"', "optimizer.decay={linear=true}")

    assert config.settings_of({}).optimizer.decay == config.optimizer.decay
    assert "optimizer.decay" in config.settings_of({}).structure()


def test_trials_of_searched_optimizers_have_decay_rules(read: Read) -> None:
    searched = "search.optimizer.name={type='categorical',choices=['sgd','lion']}"
    config = read('name = "adamw"\n', "", searched, "optimizer.decay={linear=true}")

    assert config.settings_of({"name": "lion"}).optimizer.decay == config.optimizer.decay


def test_worker_processes_get_the_same_rules() -> None:
    table = parse(WITH_DECAY, Path("study.toml")).optimizer.decay

    assert table is not None
    again = pickle.loads(pickle.dumps(table))
    assert (again, again.rules_in_order) == (table, table.rules_in_order)


def test_rules_survive_being_written_and_read() -> None:
    config = parse(WITH_DECAY, Path("study.toml"))
    tables = {k: v for k, v in config.canonical().items() if k not in ("trial", "same_as")}

    again = parse(toml_text(tables), Path("study.toml"))

    assert again.canonical() == config.canonical()


@pytest.mark.parametrize(
    "override",
    [
        "optimizer.decay.linear.bias=0.25",
        "optimizer.decay.layer_norm=true",
        "optimizer.decay.other=true",
        "optimizer.decay.where=[{leaf='bias',decay=true}]",
    ],
)
def test_a_study_is_not_resumed_with_other_rules(override: str) -> None:
    began = parse(WITH_DECAY, Path("study.toml")).canonical()
    now = parse(WITH_DECAY, Path("study.toml"), [override]).canonical()

    (change,) = reconcile(began, now).refused
    assert change.key.startswith("optimizer.decay.")


def test_a_study_that_began_without_rules_resumes_without_them(read: Read) -> None:
    now = read().canonical()
    before = {**now, "optimizer": {k: v for k, v in now["optimizer"].items() if k != "decay"}}

    assert reconcile(before, now).refused == ()


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "optimizer.decay.linear=-1",
            "optimizer.decay.linear: -1 is not an amount of decay; write true, false or a factor "
            "from 0 up; for a layer also { weight = true, ... }",
        ),
        (
            "optimizer.decay.linear.weight='yes'",
            "optimizer.decay.linear: weight = 'yes' is not an amount of decay; write true, false "
            "or a factor from 0 up",
        ),
        (
            "optimizer.decay.linear={}",
            "optimizer.decay.linear: a table is not an amount of decay; write true, false or a "
            "factor from 0 up; for a layer also { weight = true, ... }",
        ),
        (
            "optimizer.decay=0.9",
            "optimizer.decay: 0.9 is not a table of decay rules; write [optimizer.decay]; the "
            "decay rate of squared gradients is b2",
        ),
        (
            "optimizer.decay.where=[{decay=true}]",
            "optimizer.decay.where.0: no condition; "
            "write class, leaf, path, depth or ndim; or other = ... for all other arrays",
        ),
        (
            "optimizer.decay.where=[{leaf='bias'}]",
            "optimizer.decay.where.0.decay: missing; write decay = ...",
        ),
        (
            "optimizer.decay.where=[{lef='bias',decay=true}]",
            "optimizer.decay.where.0.lef: no such setting; "
            "did you mean 'optimizer.decay.where.leaf'?",
        ),
        (
            "optimizer.decay.where=[{ndim=1.5,decay=true}]",
            "optimizer.decay.where.0.ndim: 1.5 is not an integer; write one, or an array of them",
        ),
        *(
            (
                f"search.optimizer.decay.{name}={{type='categorical',choices=[true,false]}}",
                f"search.optimizer.decay.{name}: must be the same for every trial; write it only "
                "in [optimizer.decay]",
            )
            for name in ("other", "linear", "linear.weight")
        ),
    ],
)
def test_an_invalid_rule_is_refused(override: str, expected: str, refused: Refused) -> None:
    first = refused("", "", override)[0]
    assert str(first).removeprefix("--set: ") == expected
