"""Several trained models of the same rows, used as one."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sweeper.models.mlp import AnyArray
from sweeper.models.tabm import Target, averaged
from sweeper.models.user_network import evaluated


class Rescaled(eqx.Module):
    """The model of a fold, for features that were scaled by the rows of all folds."""

    model: Any
    scale: Float[Array, " features"]
    shift: Float[Array, " features"]

    def __call__(self, x: Float[AnyArray, " features"]) -> Float[Array, " out"]:
        """The outputs for one example."""
        return evaluated(self.model, x * self.scale + self.shift)


class Ensemble(eqx.Module):
    """The mean of the predictions of `models`, each counted as often as `counts` says.

    For classes it is the mean of probabilities, returned as logits; for numbers that of outputs.
    """

    models: tuple[Any, ...]
    counts: tuple[int, ...] = eqx.field(static=True)
    target: Target = eqx.field(static=True)

    def __call__(self, x: Float[AnyArray, " features"]) -> Float[Array, " out"]:
        """The outputs for one example."""
        outputs = jnp.stack([evaluated(model, x) for model in self.models])
        return averaged(outputs[repeated(self.counts), None], self.target)[0]


def repeated(counts: tuple[int, ...]) -> np.ndarray:
    """The indices of models, each as often as it counts."""
    return np.repeat(np.arange(len(counts)), counts)
