"""Of several rules for an array the most specific decides, in a model with attention."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from sweeper.config.decay import DecayTable
from sweeper.models.decay import Decay, decisions


class Attention(eqx.Module):
    """Two blocks between an embedding and a head."""

    embedding: eqx.nn.Embedding
    blocks: list[Block]
    scale: jax.Array
    head: eqx.nn.Linear

    def __init__(self) -> None:
        key = jax.random.key(0)
        self.embedding = eqx.nn.Embedding(5, 4, key=key)
        self.blocks = [Block(), Block()]
        self.scale = jnp.ones(())
        self.head = eqx.nn.Linear(4, 3, key=key)

    def __call__(self, tokens: Any) -> Any:
        x = jax.vmap(self.embedding)(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.scale * x.mean(0))


class Block(eqx.Module):
    """Attention with a residual, then LayerNorm."""

    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm

    def __init__(self) -> None:
        key = jax.random.key(1)
        self.attention = eqx.nn.MultiheadAttention(2, 4, use_output_bias=True, key=key)
        self.norm = eqx.nn.LayerNorm(4)

    def __call__(self, x: Any) -> Any:
        return jax.vmap(self.norm)(x + self.attention(x, x, x))


PROJECTIONS = ("query_proj", "key_proj", "value_proj", "output_proj")
WEIGHTS = [f"blocks[{b}].attention.{p}.weight" for b in (0, 1) for p in PROJECTIONS]
OUTPUT_BIASES = [f"blocks[{b}].attention.output_proj.bias" for b in (0, 1)]
NORMS = [f"blocks[{b}].norm.{leaf}" for b in (0, 1) for leaf in ("weight", "bias")]
HEAD = ["head.weight", "head.bias"]


def decayed(rules: Mapping[str, Any] | None) -> dict[str, float]:
    """The arrays of the attention model that decay, each with its share of the weight decay."""
    table = None if rules is None else DecayTable.model_validate(rules)
    parameters = eqx.filter(Attention(), eqx.is_inexact_array)
    found = decisions(parameters, Decay.of(table, Path(__file__).parents[2]))
    return {one.leaf.path: one.rule.amount for one in found if one.rule.amount}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (None, [*WEIGHTS, "head.weight"]),
        ({"embedding": True}, ["embedding.weight", *WEIGHTS, "head.weight"]),
        ({"other": False, "Linear": True}, [*WEIGHTS, *OUTPUT_BIASES, *HEAD]),
        # a Linear inside attention is a Linear first
        (
            {"other": False, "multihead_attention": True, "linear": {"weight": False}},
            OUTPUT_BIASES,
        ),
        ({"other": False, "multihead_attention": {"weight": True}}, WEIGHTS),
        (
            {"other": False, "multihead_attention": {"query_proj": True}},
            [WEIGHTS[0], WEIGHTS[4]],
        ),
        # a user-defined class, and the layers in it
        (
            {
                "other": False,
                "tests.programs.test_decay_rules:Block": True,
                "layer_norm": {"bias": False},
            },
            [*WEIGHTS, *OUTPUT_BIASES, NORMS[0], NORMS[2]],
        ),
        # the name of an array anywhere; it counts less than its class
        (
            {"where": [{"leaf": "bias", "decay": True}], "other": False, "layer_norm": False},
            [*OUTPUT_BIASES, "head.bias"],
        ),
        ({"other": True, "where": [{"ndim": [0, 1], "decay": False}]}, None),
        (
            {"other": False, "where": [{"ndim": 1, "decay": True}], "layer_norm": False},
            [*OUTPUT_BIASES, "head.bias"],
        ),
        # its position counts more than its properties
        (
            {"other": False, "linear": True, "where": [{"depth": 0, "decay": False}]},
            [*WEIGHTS[4:], OUTPUT_BIASES[1], *HEAD],
        ),
        (
            {
                "other": False,
                "where": [
                    {"path": "blocks[-1]", "decay": True},
                    {"depth": 1, "class": "linear", "leaf": "weight", "decay": False},
                ],
            },
            [*WEIGHTS[4:], OUTPUT_BIASES[1], *NORMS[2:]],
        ),
        # of two paths the one with more literal text, and of equal rules the later one
        (
            {
                "other": False,
                "where": [
                    {"path": "blocks[*].norm.bias", "decay": True},
                    {"path": "*.norm.*", "decay": False},
                    {"path": "head", "decay": True},
                    {"path": "head", "decay": False},
                    {"path": "head", "leaf": "bias", "decay": True},
                ],
            },
            [NORMS[1], NORMS[3], "head.bias"],
        ),
    ],
)
def test_the_most_specific_rule_decides(
    rules: Mapping[str, Any] | None, expected: list[str] | None
) -> None:
    if expected is None:
        expected = ["embedding.weight", *WEIGHTS, "head.weight"]

    found = decayed(rules)

    assert sorted(found) == sorted(expected)
    assert set(found.values()) == {1.0}


def test_a_factor_multiplies_the_weight_decay() -> None:
    found = decayed({"other": 0.25, "linear": {"weight": 2}, "layer_norm": False})

    assert found == {
        **dict.fromkeys([*WEIGHTS, "head.weight"], 2.0),
        **dict.fromkeys(["embedding.weight", *OUTPUT_BIASES, "head.bias", "scale"], 0.25),
    }
