"""Whether the outputs of a user-defined model are already what its loss makes of logits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sweeper.config import StudyConfig
from sweeper.config.model import PythonTable
from sweeper.config.train import SupervisedTable
from sweeper.data.dataset import Dataset
from sweeper.models.traces import trace
from sweeper.models.user import KEY, evaluated
from sweeper.models.user_network import UserNetwork
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec

_OF_LOGITS = ("cross_entropy", "binary_cross_entropy")
_ROWS = 16
_SCALES = (0.3, 1.0, 3.0, 10.0, 30.0)
# operations without which outputs are not bounded
_BOUNDING = re.compile(r"\b(exp|exp2|logistic|tanh|erf|div|clamp|min|sin|cos)\b")
_CLOSE = 1e-3


def output_hints(config: StudyConfig, data: Dataset) -> Iterator[str]:
    """What to say of the outputs under the loss."""
    network = network_to_check(config, data)
    if network is not None and (hint := output_hint(config, data, network)):
        yield f"model.function: {hint}"


def network_to_check(config: StudyConfig, data: Dataset) -> UserNetwork | None:
    """The network whose outputs might be probabilities; None if its operations rule that out."""
    settings = config.filled({})
    is_table = isinstance(settings.model, PythonTable)
    if not (isinstance(config.train, SupervisedTable) and is_table):
        return None
    if config.train.loss not in _OF_LOGITS:
        return None
    network: Any = Programs(data_spec(config, data)).networks(settings)[""]
    x = jax.ShapeDtypeStruct((network.in_size,), jnp.dtype(network.dtype))
    called = trace(lambda _key, model, x: evaluated(model, x), KEY, network.model(), x)
    return network if _BOUNDING.search(str(called.jaxpr)) else None


def output_hint(config: StudyConfig, data: Dataset, network: UserNetwork) -> str | None:
    """That outputs are probabilities, whatever the weights are; computed on a few rows.

    Weights are drawn at several scales: outputs of a linear last layer leave any bounds.
    """
    rng = np.random.default_rng(0)
    drawn = [scale * rng.standard_normal(network.n_parameters) for scale in _SCALES]
    weights = jnp.asarray(np.stack(drawn), network.dtype)
    x = jnp.asarray(data.x_train[:_ROWS], network.dtype)
    found = jax.jit(jax.vmap(lambda vector: network.outputs(vector, x, {})))(weights)
    kind = _kind_of(np.asarray(found))
    if kind is None:
        return None
    loss = config.train.loss
    if kind == "log-probabilities":
        return (
            f"the model gives log-probabilities, and {loss} takes logits: both give the same loss, "
            "so the last log_softmax can be removed"
        )
    return (
        f"the model gives probabilities, and {loss} takes logits, so it learns less; "
        "remove the softmax or sigmoid at its end"
    )


def _kind_of(outputs: Float[Array | np.ndarray, "draws rows out"]) -> str | None:
    outputs = outputs[np.isfinite(outputs).all(axis=(1, 2))]
    if len(outputs) < 2 or np.ptp(outputs) == 0:
        return None
    if outputs.min() >= 0 and outputs.max() <= 1:
        return "probabilities"
    sums = np.exp(np.minimum(outputs, 1)).sum(axis=-1)
    is_log = outputs.shape[-1] > 1 and outputs.max() <= 0 and np.abs(sums - 1).max() < _CLOSE
    return "log-probabilities" if is_log else None
