"""A decay mask is not called by Optax, even for a callable model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sweeper
from sweeper.errors import StudyError
from sweeper.models.decay_masks import Marks
from sweeper.models.mlp import MLP


def callable_model() -> tuple[MLP, Any]:
    """A model with a `__call__`, and its arrays."""
    model = MLP(
        *(3, 2),
        depth=1,
        width=4,
        layer_norm=True,
        dtype=jnp.float64,
        key=jax.random.key(0),
    )
    return model, eqx.filter(model, eqx.is_inexact_array)


def test_optax_calls_marks_shaped_like_a_model_unless_they_are_wrapped() -> None:
    _, parameters = callable_model()
    ways = {True: optax.sgd(1.0), False: optax.set_to_zero()}
    tree = jax.tree.map(lambda leaf: leaf.ndim == 2, parameters)

    with pytest.raises(TypeError):
        optax.partition(ways, tree).init(parameters)  # passes the parameters through the labels

    optimizer = optax.partition(ways, Marks(tree))
    updates, _ = optimizer.update(parameters, optimizer.init(parameters), parameters)
    assert np.count_nonzero(updates.layers[0].weight) == parameters.layers[0].weight.size
    assert np.count_nonzero(updates.layers[0].bias) == 0


def test_a_mask_is_ready_for_optax() -> None:
    model, parameters = callable_model()
    mask = sweeper.decay_mask(model, {"other": False, "linear": {"weight": True}})
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    masked = optax.inject_hyperparams(optax.adamw, static_args=("mask",))

    for optimizer in (
        optax.adamw(0.1, weight_decay=0.5, mask=mask),
        masked(0.1, weight_decay=0.5, mask=mask),
    ):
        updates, _ = optimizer.update(zeros, optimizer.init(parameters), parameters)
        shrunk = optax.apply_updates(parameters, updates)
        for old, new in zip(parameters.layers, shrunk.layers, strict=True):
            np.testing.assert_allclose(new.weight, 0.95 * old.weight, rtol=1e-15)
            assert np.array_equal(new.bias, old.bias)
        assert eqx.tree_equal(parameters.norms, shrunk.norms)


def test_a_mask_called_as_a_schedule_raises() -> None:
    model, parameters = callable_model()
    optimizer = optax.inject_hyperparams(optax.adamw)(0.1, mask=sweeper.decay_mask(model))

    with pytest.raises(TypeError, match="static_args"):
        optimizer.init(parameters)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"lienar": True}, "lienar: eqx.nn has no class 'lienar'; did you mean linear?"),
        ({"linear": 0.5}, "linear: 0.5 is a factor"),
        ({"conv": True}, "conv: no array is in a layer conv; the layers of the model are"),
        ({"where": [{"decay": True}]}, "where.0: no condition"),
        ({"layer_norm": True, "LayerNorm": False}, "LayerNorm: the same class as layer_norm"),
    ],
)
def test_a_mask_with_invalid_rules_is_refused(rules: Mapping[str, Any], said: str) -> None:
    with pytest.raises(StudyError) as refusal:
        sweeper.decay_mask(callable_model()[0], rules)

    assert said in str(refusal.value)
