"""An MLP inside a wider and deeper one: spare units are zero, spare layers are skipped.

A spare unit has zero weights in and out. Its gradients are then zero as well, and so are its
moments and its decay: padding stays zero by itself, provided that nothing makes a spare unit's
output other than zero. LayerNorm would, by counting it, and so would sigmoid, by giving 1/2.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from sweeper.models.mlp import MLP, Activation, AnyArray, dropped, linear, normalised


class PaddedMLP(eqx.Module):
    """`mlp` as a lane of which `width` units and `depth` hidden layers are used, both traced.

    `depth` is at least 1. `masked` says that some activation gives other than 0 for 0.
    """

    mlp: MLP
    width: Int[AnyArray, ""]
    depth: Int[AnyArray, ""]
    masked: bool = eqx.field(static=True)

    def __call__(
        self,
        x: Float[AnyArray, "batch in_size"],
        *,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        activation: Activation | None = None,
    ) -> Float[Array, "batch out_size"]:
        """The outputs for each example; as `MLP`."""
        *hidden, last = self.mlp.layers
        for index, layer in enumerate(hidden):

            def apply(x: AnyArray, index: int = index, layer: eqx.nn.Linear = layer) -> Array:
                x = linear(layer, x)
                real = jnp.arange(x.shape[-1]) < self.width
                if self.mlp.norms:
                    x = normalised(self.mlp.norms[index], x, real)
                x = (activation or self.mlp.activation)(x)
                if self.masked:
                    x = jnp.where(real, x, 0)
                if self.mlp.has_dropout and keys is not None:
                    x = dropped(x, keys, index, dropout)
                return x

            # A skipped layer costs nothing where lanes run one by one: the condition is a branch.
            x = apply(x) if index == 0 else lax.cond(index < self.depth, apply, lambda x: x, x)
        return linear(last, x)
