"""The hidden layers of a TabM as a loop; see `layer_loop`.

There is one column for each example of each member, the members one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float

from sweeper.models.layer_loop import Activations, LaneInputs, LayerLoop, Mask, Units
from sweeper.models.mlp import kept_units
from sweeper.models.tabm import TabMShape, draws_of
from sweeper.models.vectors import Vector, made_first, part, put, turned

Scales = Float[Array, "units members"]


@dataclass(frozen=True)
class TabMLoop(LayerLoop):
    """A `TabM` of `shape` as a vector, in the order of its leaves."""

    shape: TabMShape  # type: ignore[assignment]

    @property
    def _vectors_at(self) -> int:
        """Where the arrays after all weights begin."""
        shape = self.shape
        return self.weight_at(shape.depth) + shape.members * shape.out_size * shape.width

    def _r_at(self, layer: Any) -> Any:
        shape = self.shape
        later = shape.members * (shape.in_size + (layer - 1) * shape.width)
        is_first = isinstance(layer, int) and layer == 0
        return self._vectors_at + (0 if is_first else later)

    def _s_at(self, layer: Any) -> Any:
        return self._r_at(self.shape.depth) + layer * self.shape.members * self.shape.width

    def bias_at(self, layer: Any) -> Any:
        return self._s_at(self.shape.depth) + layer * self.shape.members * self.shape.width

    def blank(self, rows: int, dtype: DTypeLike) -> Activations:
        size = self.shape.depth, self.shape.width, self.shape.members * rows
        kept = jnp.zeros(size, bool) if self.has_dropout else None
        return Activations(jnp.zeros(size, dtype), jnp.zeros(size, dtype), kept)

    def begin(self, x: Float[Array, "batch in"]) -> Float[Array, "in columns"]:
        return jnp.tile(x.T, self.shape.members)

    def given(
        self, vector: Vector, layer: Any, x: Float[Array, "before columns"], inputs: LaneInputs
    ) -> Activations:
        """The output of a hidden layer for `x`; its sums are those of the shared weights."""
        scaled = _scaled(x, self._of_members(vector, self._r_at(layer), len(x)))
        sums = self.weight(vector, layer, len(x)) @ scaled
        kept = self._kept(layer, inputs, x.dtype)
        return Activations(
            self._activated(sums, *self._after(vector, layer), kept, inputs), sums, kept
        )

    def backward(
        self,
        vector: Vector,
        layer: Any,
        x: Units,
        at: Activations,
        inputs: LaneInputs,
        change: Units,
        found: Vector,
    ) -> tuple[Units, Vector]:
        def activated(sums: Units, s: Scales, bias: Scales) -> Units:
            return self._activated(sums, s, bias, at.kept, inputs)

        assert at.sums is not None, "kept for every layer"
        _, pulled = jax.vjp(activated, at.sums, *self._after(vector, layer))
        by_sums, by_s, by_bias = pulled(change)
        scaled, pulled = jax.vjp(_scaled, x, self._of_members(vector, self._r_at(layer), len(x)))
        found = put(found, by_sums @ scaled.T, self.weight_at(layer))
        weight = partial(self.weight, vector, layer, len(x))
        by_x, by_r = pulled(turned(made_first(weight, jnp.asarray(layer) >= 0)) @ by_sums)
        found = put(found, by_r.T, self._r_at(layer))
        found = put(found, by_s.T, self._s_at(layer))
        return by_x, put(found, by_bias.T, self.bias_at(layer))

    def backward_first(
        self,
        vector: Vector,
        x: Float[Array, "batch in"],
        at: Activations,
        inputs: LaneInputs,
        change: Units,
        found: Vector,
    ) -> tuple[Float[Array, "batch in"], Vector]:
        change, found = self.backward(vector, 0, self.begin(x), at, inputs, change, found)
        return jnp.sum(change.reshape(len(change), self.shape.members, -1), axis=1).T, found

    def end(self, vector: Vector, x: Units) -> Float[Array, "members batch out"]:
        return self._ended(*self._last(vector), x)

    def end_backward(
        self, vector: Vector, x: Units, change: Array, found: Vector
    ) -> tuple[Units, Vector]:
        by_weight, by_bias, by_x = jax.vjp(self._ended, *self._last(vector), x)[1](change)
        found = put(found, by_weight, self.weight_at(self.shape.depth))
        return by_x, put(found, by_bias, self.bias_at(self.shape.depth))

    def _last(
        self, vector: Vector
    ) -> tuple[Float[Array, "members out width"], Float[Array, "members out"]]:
        """Weights and biases of the last layers."""
        shape = self.shape
        size = shape.members, shape.out_size, shape.width
        weight = part(vector, self.weight_at(shape.depth), size[0] * size[1] * size[2])
        bias = part(vector, self.bias_at(shape.depth), size[0] * size[1])
        return weight.reshape(size), bias.reshape(size[:2])

    def _ended(self, weight: Array, bias: Array, x: Units) -> Float[Array, "members batch out"]:
        of_members = x.reshape(len(x), self.shape.members, -1)
        return jnp.einsum("kow,wkb->kbo", weight, of_members) + bias[:, None]

    def _of_members(self, vector: Vector, start: Any, units: int) -> Scales:
        """Numbers of all members for each of `units`."""
        members = self.shape.members
        return part(vector, start, members * units).reshape(members, units).T

    def _after(self, vector: Vector, layer: Any) -> tuple[Scales, Scales]:
        """The scales that are applied to the sums of a layer, and its biases."""
        s, bias = self._s_at(layer), self.bias_at(layer)
        width = self.shape.width
        return self._of_members(vector, s, width), self._of_members(vector, bias, width)

    def _activated(
        self, sums: Units, s: Scales, bias: Scales, kept: Mask | None, inputs: LaneInputs
    ) -> Units:
        of_members = sums.reshape(*s.shape, -1)
        biased = of_members * s[..., None] + bias[..., None]
        return self.activated(None, biased.reshape(sums.shape), kept, inputs)

    def _kept(self, layer: Any, inputs: LaneInputs, dtype: DTypeLike) -> Mask | None:
        """The units that dropout keeps, if there is any."""
        if inputs.keys is None or not self.has_dropout:
            return None
        members, width = self.shape.members, self.shape.width
        drawn = partial(kept_units, inputs.keys, layer, inputs.dropout, members * width, dtype)
        kept = made_first(drawn, jnp.asarray(inputs.dropout) >= 0).T
        own = draws_of(members, width, width if inputs.width is None else inputs.width).T
        return kept.at[own].get(mode="promise_in_bounds").reshape(width, -1)


def _scaled(x: Units, scales: Scales) -> Units:
    """`x` times what each member scales its units by."""
    return (x.reshape(*scales.shape, -1) * scales[..., None]).reshape(x.shape)
