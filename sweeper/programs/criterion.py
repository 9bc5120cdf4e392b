"""What training minimises, and what is told of it in the data's own units."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from sweeper.programs.metrics import LOSSES, Outputs, weighted_cross_entropy
from sweeper.programs.program import AnyArray


@dataclass(frozen=True, slots=True)
class Criterion:
    """A loss over a batch, of targets in units of `y_scale` or of classes with weights."""

    loss: str
    y_scale: tuple[float, ...]
    class_weights: tuple[float, ...]

    def minimised(self, outputs: Outputs, y: AnyArray) -> Float[Array, ""]:
        """What training minimises: every target counts the same, whatever its unit."""
        if self.class_weights:
            return weighted_cross_entropy(outputs, y, self.class_weights)
        return LOSSES[self.loss](outputs, y)

    def told(self, minimised: Float[Array, ""], outputs: Outputs, y: AnyArray) -> Float[Array, ""]:
        """What is reported where training saw the loss `minimised`."""
        if self.loss != "mse":
            return minimised
        if len(self.y_scale) == 1:
            return minimised * self.y_scale[0] ** 2
        units = jnp.asarray(self.y_scale, outputs.dtype)
        return LOSSES[self.loss](outputs * units, y * units)
