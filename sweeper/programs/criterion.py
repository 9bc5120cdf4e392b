"""What training minimises, and what is told of it in the data's own units."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sweeper.config import Settings
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.losses import Loss, Outputs, degree_of, loss_of
from sweeper.programs.program import AnyArray, Hparams


@dataclass(frozen=True, slots=True)
class Criterion:
    """A loss over a batch, of targets in units of `y_scale`.

    Of outputs and targets that are both k times as large it is k to the power `degree` as large.
    """

    loss: Loss
    degree: int
    y_scale: tuple[float, ...]

    def minimised(self, outputs: Outputs, y: AnyArray, hparams: Hparams) -> Float[Array, ""]:
        """What training minimises: every target counts the same, whatever its unit."""
        return self.loss(outputs, y, hparams)

    def told(
        self, minimised: Float[Array, ""], outputs: Outputs, y: AnyArray, hparams: Hparams
    ) -> Float[Array, ""]:
        """What is reported where training saw the loss `minimised`."""
        if self.degree == 0:
            return minimised
        if len(self.y_scale) == 1:
            return minimised * self.y_scale[0] ** self.degree

        def of_target(outputs: Array, y: Array) -> Array:
            return self.loss(outputs[:, None], y[:, None], hparams)

        units = jnp.asarray(self.y_scale, outputs.dtype) ** self.degree
        return jnp.mean(jax.vmap(of_target, in_axes=1)(outputs, jnp.asarray(y)) * units)


def criterion_of(name: str, settings: Settings, data: DataSpec) -> Criterion:
    """The loss of this name, over the data of a study."""
    loss = loss_of(name, settings.base_dir, data.class_weights)
    return Criterion(loss, degree_of(name), data.y_scale)
