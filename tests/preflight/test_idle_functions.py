"""Losses and optimizers that do not do what their author intended are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.preflight.outputs import idle_optimizer, paired_rows
from tests.config.conftest import VALID
from tests.small_studies import PARTS

pytestmark = pytest.mark.usefixtures("float64")

OWN = """\
import jax, jax.numpy as jnp, optax


def ignores(lr, b=0.9):
    return optax.sgd(1e-3, momentum=b)


def uses(lr, b=0.9):
    return optax.inject_hyperparams(optax.sgd)(lr, momentum=b)


def later(lr, b=0.9):
    return optax.chain(optax.trace(b), optax.apply_if_finite(optax.scale(-lr), 3))


def chosen(lr, b=0.9, kind="sgd"):
    return optax.adam(lr, b2=b) if kind == "adam" else optax.sgd(lr)


def stands(lr):
    return optax.set_to_zero()


def mixed(outputs, y):
    return jnp.mean((outputs[:, 0] - y) ** 2)


def mixed_too(outputs, y):
    return jax.jit(lambda o, y: jnp.mean(jnp.abs(y - jnp.squeeze(o))))(outputs, y)


def right(outputs, y):
    return jnp.mean((outputs - y) ** 2)


def centred(outputs, y):
    return jnp.mean((outputs - outputs.mean(0) - y) ** 2)


def ranking(outputs, y):
    apart = outputs[:, 0][:, None] - outputs[:, 0][None, :]
    return jnp.mean(apart * jnp.sign(y[:, 0][:, None] - y[:, 0][None, :]))


def binary(outputs, y):
    return jnp.mean(optax.sigmoid_binary_cross_entropy(outputs, y))


def binary_right(outputs, y):
    return jnp.mean(optax.sigmoid_binary_cross_entropy(outputs[:, 0], y))
"""
LR = 'optimizer.lr={type="float",low=0.1,high=0.2}'


def config(tmp_path: Path, *overrides: str):
    (tmp_path / "idle_own.py").write_text(OWN, encoding="utf-8")
    return parse(VALID, tmp_path / "study.toml", ["search={}", *overrides])


@pytest.mark.parametrize(
    ("name", "search", "found"),
    [
        ("ignores", LR, ["search.optimizer.lr changes nothing: 'idle_own:ignores' returns the "
                         "same updates for 0.1 and 0.2; use the argument, or remove the entry"]),
        ("ignores", 'optimizer.b={type="float",low=0.1,high=0.2}', []),
        ("uses", f'{LR},optimizer.b={{type="float",low=0.1,high=0.2}}', []),
        ("later", f'{LR},optimizer.b={{type="categorical",choices=[0.1,0.2]}}', []),
        ("chosen", 'optimizer.b={type="float",low=0.1,high=0.2},optimizer.kind={type="categorical",'
         'choices=["sgd","adam","plain"]}', []),
        ("stands", "", ["optimizer.name: the updates of 'idle_own:stands' do not depend on the "
         "gradients, so nothing is learnt"]),
    ],
)  # fmt: skip
def test_an_optimizer_that_ignores_its_arguments_is_reported(
    tmp_path: Path, name: str, search: str, found: list[str]
) -> None:
    given = "lr=0.1,b=0.5" if name != "stands" else "lr=0.1"
    study = config(
        tmp_path, f"optimizer={{name='idle_own:{name}',{given}}}", f"search={{{search}}}"
    )
    assert [*idle_optimizer(study)] == found


def test_the_optimizer_of_each_part_is_checked(tmp_path: Path) -> None:
    (tmp_path / "idle_own.py").write_text(OWN, encoding="utf-8")
    parts = "a={name='idle_own:ignores',lr=0.1},b={name='idle_own:uses',lr=0.1}"
    optimizers = f"optimizer={{{parts},c={{name='idle_own:stands',lr=0.1}}}}"
    rates = ",".join(
        f"optimizer.{part}.lr={{type='float',low=0.1,high=0.2,name='{part}'}}" for part in "ab"
    )
    study = parse(PARTS, tmp_path / "study.toml", [optimizers, f"search={{{rates}}}"])
    found = [one.partition(":")[0] for one in idle_optimizer(study)]
    assert found == ["search.optimizer.a.lr changes nothing", "optimizer.c.name"]


@pytest.mark.parametrize(
    ("task", "name", "out_size", "is_paired"),
    [
        ("numbers", "mixed", 1, True),
        ("numbers", "mixed_too", 1, True),
        ("numbers", "right", 1, False),
        ("numbers", "right", 13, False),
        ("numbers", "centred", 2, False),
        ("numbers", "ranking", 1, False),
        ("classes", "binary", 1, True),
        ("classes", "binary_right", 1, False),
    ],
)
def test_a_loss_that_pairs_rows_by_accident_is_reported(
    tmp_path: Path, task: str, name: str, out_size: int, is_paired: bool
) -> None:
    study = config(
        tmp_path, f"train.loss=idle_own:{name}", f"train.task={task}", "train.metrics=[]"
    )
    found = [*paired_rows(study, out_size)]
    assert [one.partition(":")[0] for one in found] == ["train.loss"] * is_paired
    assert all(f"'idle_own:{name}' pairs each row with every other" in one for one in found)
