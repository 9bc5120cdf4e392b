"""A model whose outputs are already probabilities gets a hint, whatever its initial weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import load, parse
from sweeper.data.prepare import prepare
from sweeper.preflight.outputs import output_hints, slow_convolutions, undefined_measures
from tests.documents import ROOT
from tests.preflight.test_check_model import STUDY
from tests.small_studies import PARTS

pytestmark = pytest.mark.usefixtures("float64")

NETS = """\
import equinox as eqx, jax, jax.numpy as jnp


def build(in_size, out_size, key):
    last = eqx.nn.Lambda({})
    return eqx.nn.Sequential([eqx.nn.MLP(in_size, out_size, 4, 1, key=key), last])
"""
# the last operation; then the beginning of the hint
LAST = {
    "jax.nn.softmax": "the model returns probabilities",
    "jax.nn.sigmoid": "the model returns probabilities",
    "lambda x: jnp.exp(x) / jnp.exp(x).sum()": "the model returns probabilities",
    "jax.nn.log_softmax": "the model returns log-probabilities",
    "lambda x: x": None,
    "jax.nn.relu": None,
    "jax.nn.gelu": None,
    "jnp.tanh": None,
    "lambda x: x * 0": None,
}


@pytest.mark.parametrize("last", LAST)
def test_probabilities_with_a_loss_of_logits_get_a_hint(last: str, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETS.format(last), encoding="utf-8")
    own = ("model={kind='python',function='nets:build'}", "search={}")
    config = parse(STUDY, tmp_path / "study.toml", own)

    hints = [*output_hints(config, prepare(config))]

    expected = LAST[last]
    assert len(hints) == int(expected is not None)
    assert all(hint.startswith(f"model.function: {expected}") for hint in hints)


def test_a_choice_whose_outputs_are_probabilities_is_named(tmp_path: Path) -> None:
    source = NETS.format("dict(none=lambda x: x, softmax=jax.nn.softmax)[last]")
    source = source.replace("key):", "key, last='none'):")
    (tmp_path / "nets.py").write_text(source, encoding="utf-8")
    choices = "{type='categorical',choices=['none','softmax']}"
    model = "model={kind='python',function='nets:build',last='none'}"
    config = parse(STUDY, tmp_path / "study.toml", [model, f"search={{'model.last'={choices}}}"])

    (hint,) = output_hints(config, prepare(config))
    assert hint.startswith("model.function: with last = 'softmax', the model returns probabilities")


def test_a_part_with_probabilities_and_a_loss_of_logits_is_named(tmp_path: Path) -> None:
    source = NETS.format("jax.nn.softmax").replace("build(", "part(")
    (tmp_path / "part_nets.py").write_text(source, encoding="utf-8")
    own = (
        "data.name=iris",
        "model.b={kind='python',function='part_nets:part',input='a'}",
        "train.losses.data.kind=cross_entropy",
        "search={}",
    )
    config = parse(PARTS, tmp_path / "study.toml", own)

    (hint,) = output_hints(config, prepare(config))
    assert hint.startswith("model.b.function: the model returns probabilities, but cross_entropy")


MEASURES = """\
import jax.numpy as jnp


def never(outputs, y):
    return jnp.mean(outputs) * jnp.nan


def of_positive(outputs, y):
    return jnp.mean(jnp.log(outputs))


def without_gradient(outputs, y):
    return jnp.sqrt(jnp.sum(outputs - outputs))


def of_targets(outputs, y):
    return jnp.mean(y.astype(outputs.dtype) ** 2)


def errors(outputs, y):
    return jnp.mean(outputs.argmax(-1) != y)


def straight(outputs, y):
    return jnp.mean(outputs)
"""


@pytest.mark.parametrize(
    ("train", "said"),
    [
        (["metrics=['measures:never','measures:of_positive']"], "train.metrics: 'measures:never'"),
        (
            ["task='classes'", "loss='measures:never'"],
            "train.loss: 'measures:never' or its gradient",
        ),
        (
            ["task='classes'", "loss='measures:without_gradient'"],
            "train.loss: 'measures:without_grad",
        ),
        (["task='classes'", "loss='measures:of_positive'"], None),
        (
            ["task='classes'", "loss='measures:of_targets'"],
            "train.loss: the gradient of 'measures:of_targets' is 0 on the validation rows",
        ),
        (
            ["task='classes'", "loss='measures:errors'"],
            "train.loss: the gradient of 'measures:errors' is 0 on the validation rows",
        ),
        (["task='classes'", "loss='measures:straight'"], None),
    ],
)
def test_losses_and_metrics_without_use_get_a_warning(
    train: list[str], said: str | None, tmp_path: Path
) -> None:
    (tmp_path / "measures.py").write_text(MEASURES, encoding="utf-8")
    config = parse(STUDY, tmp_path / "study.toml", [f"train.{one}" for one in train])
    found = [*undefined_measures(config, prepare(config))]
    assert len(found) == int(said is not None)
    assert all(said is not None and one.startswith(said) for one in found)


def test_a_convolution_on_a_cpu_gets_a_hint(tmp_path: Path) -> None:
    """The study that the guide names does without."""
    layers = "eqx.nn.Lambda(lambda x: x[None]), eqx.nn.Conv1d(1, 1, 3, padding=1, key=key)"
    source = NETS.format("lambda x: x[0]").replace("[eqx.nn.MLP", f"[{layers}, eqx.nn.MLP")
    first = "eqx.nn.Lambda(lambda x: x[:, :out_size])"
    source = source.replace("eqx.nn.MLP(in_size, out_size, 4, 1, key=key)", first)
    (tmp_path / "nets.py").write_text(source, encoding="utf-8")
    own = ("model={kind='python',function='nets:build'}", "search={}")
    kinds = "search={model={kind={type='categorical',choices=['mlp','python']}}}"
    mixed = "model={depth=1,width=4,function='nets:build'}", kinds
    for given in (own, mixed):
        config = parse(STUDY, tmp_path / "study.toml", given)
        (hint,) = slow_convolutions(config, prepare(config))
        assert hint.startswith("model.function: on a CPU, XLA takes several times as long for a ")

    example = load(ROOT / "studies" / "residual.toml")
    assert [*slow_convolutions(example, prepare(example))] == []
