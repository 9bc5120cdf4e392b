"""The outputs of an MLP whose hidden layers are a loop that ends at the lane's own depth.

They equal those of `MLP` or `PaddedMLP` and are used if lanes run one by one. The layers after the
first are compiled once instead of one by one, absent layers take no time, and gradients are written
directly to their place in the vector. With several widths there is a loop for each, and a lane runs
its own: everything else in a program is compiled once for all of them.

The outputs of hidden layers have one row per unit and one column per example, so that weights are
on the left of products. On a CPU that takes less time up to width 256, and equally long above; with
dropout, whose draws must be transposed, it takes a little longer.

A loop of unknown length has no gradient in JAX, so the gradient is written out here: `outputs` can
be differentiated once, backward. If a slope is penalised, and in user-defined functions, which may
do more, the model itself is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, DTypeLike, Float, Int, PRNGKeyArray

from sweeper.models.mlp import (
    ACTIVATIONS,
    OTHER_THAN_ZERO,
    AnyArray,
    MlpShape,
    Norm,
    kept_units,
    normalised,
)
from sweeper.models.vectors import Vector, blank_gradient, made_first, part, put, turned

Units = Float[Array, "width batch"]
Mask = Bool[Array, "width batch"]


class Activations(NamedTuple):
    """The output of a hidden layer, and the sums of its units; for several layers, stacked.

    `sums` is None if their gradient can be computed from the output of the layer.
    """

    x: Float[Array, "*layers width batch"]
    sums: Float[Array, "*layers width batch"] | None
    kept: Bool[Array, "*layers width batch"] | None


class Workspace(NamedTuple):
    """What a step of the same lane leaves for the next step to overwrite.

    The gradient with respect to the parameters is zero outside the lane's own.
    """

    gradient: Float[AnyArray, " parameters"]
    given: Activations


class LaneInputs(NamedTuple):
    """The inputs of a lane's outputs besides its parameters; they get no gradient.

    `width` and `depth` are the lane's own if it is padded. `loop` and `activation` are the indices
    of its own among several; `keys`, one per example, are only set in training.
    """

    width: Int[AnyArray, ""] | None = None
    depth: Int[AnyArray, ""] | None = None
    loop: Int[AnyArray, ""] | None = None
    activation: Int[AnyArray, ""] | None = None
    keys: PRNGKeyArray | None = None
    dropout: Float[AnyArray, ""] | float = 0.0


@dataclass(frozen=True)
class LayerLoop:
    """An MLP of `shape` as a vector: where its arrays begin, and what its layers do.

    Layers are counted from 0; the number of a hidden layer may be traced.
    """

    shape: MlpShape
    activations: tuple[str, ...]
    has_dropout: bool

    def depth(self, inputs: LaneInputs) -> Any:
        """How many hidden layers a lane has."""
        return self.shape.depth if inputs.depth is None else inputs.depth

    def weight_at(self, layer: Any) -> Any:
        """Where the weights of a layer begin; those of layer `depth` are the last."""
        later = self.shape.width * (self.shape.in_size + (layer - 1) * self.shape.width)
        return 0 if isinstance(layer, int) and layer == 0 else later

    def bias_at(self, layer: Any) -> Any:
        """Where the biases of a layer begin: after all weights."""
        all_weights = self.weight_at(self.shape.depth) + self.shape.out_size * self.shape.width
        return all_weights + layer * self.shape.width

    def norm_at(self, layer: Any) -> Any:
        """Where scale and shift of a layer's LayerNorm begin: after all biases."""
        return self.bias_at(self.shape.depth) + self.shape.out_size + 2 * layer * self.shape.width

    def weight(self, vector: Vector, layer: Any, before: int) -> Float[Array, "width before"]:
        """The weights of a hidden layer with `before` inputs."""
        width = self.shape.width
        return part(vector, self.weight_at(layer), width * before).reshape(width, before)

    def begin(self, x: Float[Array, "batch in"]) -> Float[Array, "in batch"]:
        """The inputs of the first layer, one row per feature."""
        return x.T

    def last(self, vector: Vector) -> tuple[Float[Array, "out width"], Float[Array, " out"]]:
        """Weights and biases of the last layer."""
        out, width, depth = self.shape.out_size, self.shape.width, self.shape.depth
        weight = part(vector, self.weight_at(depth), out * width).reshape(out, width)
        return weight, part(vector, self.bias_at(depth), out)

    def end(self, vector: Vector, x: Units) -> Float[Array, "*members batch out"]:
        """The outputs, from those of the last hidden layer."""
        weight, bias = self.last(vector)
        return (weight @ x + bias[:, None]).T

    def end_backward(
        self, vector: Vector, x: Units, change: Array, found: Vector
    ) -> tuple[Units, Vector]:
        """From the gradient of the outputs, compute that of `x`, and add to `found`."""
        depth = self.shape.depth
        change = turned(change)
        found = put(found, change @ x.T, self.weight_at(depth))
        found = put(found, jnp.sum(change, axis=1), self.bias_at(depth))
        return turned(self.last(vector)[0]) @ change, found

    def norm(self, vector: Vector, layer: Any) -> Float[Array, " two_widths"] | None:
        """Scale and shift of a layer's LayerNorm, one after the other, if it has one."""
        if not self.shape.layer_norm:
            return None
        return part(vector, self.norm_at(layer), 2 * self.shape.width)

    def blank(self, rows: int, dtype: DTypeLike) -> Activations:
        """Space for the outputs of all hidden layers in training, for this many rows."""
        size = self.shape.depth, self.shape.width, rows
        sums = None if self._sums_follow_x else jnp.zeros(size, dtype)
        kept = jnp.zeros(size, bool) if self.has_dropout else None
        return Activations(jnp.zeros(size, dtype), sums, kept)

    def given(
        self, vector: Vector, layer: Any, x: Float[Array, "before batch"], inputs: LaneInputs
    ) -> Activations:
        """The output of a hidden layer for `x`, and what its gradient is computed from."""
        bias = part(vector, self.bias_at(layer), self.shape.width)
        sums = self.weight(vector, layer, len(x)) @ x + bias[:, None]
        kept = None
        if inputs.keys is not None and self.has_dropout:
            drawn = partial(
                kept_units, inputs.keys, layer, inputs.dropout, self.shape.width, x.dtype
            )
            kept = made_first(drawn, jnp.asarray(inputs.dropout) >= 0).T
        x = self.activated(self.norm(vector, layer), sums, kept, inputs)
        return Activations(x, None if self._sums_follow_x else sums, kept)

    @property
    def _sums_follow_x(self) -> bool:
        """Whether the sums have the sign of the layer's output, unless that is zero."""
        return self.activations == ("relu",) and not self.shape.layer_norm

    def activated(
        self, norm: Array | None, sums: Units, kept: Mask | None, inputs: LaneInputs
    ) -> Units:
        """The output of a hidden layer, from the sums of its units."""
        real = None if inputs.width is None else jnp.arange(self.shape.width) < inputs.width
        x = sums if norm is None else normalised(self._halves(norm), sums, real, axis=0)
        functions = [ACTIVATIONS[name] for name in self.activations]
        if inputs.activation is None:
            x = functions[0](x)
        else:
            x = lax.switch(inputs.activation, functions, x)
        if real is not None and OTHER_THAN_ZERO & set(self.activations):
            x = jnp.where(real[:, None], x, 0)
        return x if kept is None else jnp.where(kept, x / (1 - inputs.dropout), 0)

    def _halves(self, norm: Array) -> Norm:
        return Norm(norm[: self.shape.width], norm[self.shape.width :])

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
        """From the gradient of a later layer's output for `x`, compute that of `x`.

        Also returns `found`, the gradient of the parameters, with those of this layer added.
        """
        by_sums, found = self._to_sums(vector, layer, x, at, inputs, change, found)
        weight = partial(self.weight, vector, layer, self.shape.width)
        return turned(made_first(weight, layer >= 0)) @ by_sums, found

    def backward_first(
        self,
        vector: Vector,
        x: Float[Array, "batch in"],
        at: Activations,
        inputs: LaneInputs,
        change: Units,
        found: Vector,
    ) -> tuple[Float[Array, "batch in"], Vector]:
        """The same for the first layer."""
        by_sums, found = self._to_sums(vector, 0, self.begin(x), at, inputs, change, found)
        return by_sums.T @ self.weight(vector, 0, x.shape[-1]), found

    def _to_sums(
        self,
        vector: Vector,
        layer: Any,
        x: Float[Array, "before batch"],
        at: Activations,
        inputs: LaneInputs,
        change: Units,
        found: Vector,
    ) -> tuple[Units, Vector]:
        """The gradient of the sums of a layer, from that of its output."""

        def given(norm: Array | None, sums: Units) -> Units:
            return self.activated(norm, sums, at.kept, inputs)

        sums = at.x if at.sums is None else at.sums
        by_norm, by_sums = jax.vjp(given, self.norm(vector, layer), sums)[1](change)
        found = put(found, by_sums @ x.T, self.weight_at(layer))
        found = put(found, jnp.sum(by_sums, axis=1), self.bias_at(layer))
        return by_sums, found if by_norm is None else put(found, by_norm, self.norm_at(layer))


Loops = tuple[LayerLoop, ...]
"""Identical except for their ascending widths; vectors have the length for the last one."""


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def outputs_over(
    loops: Loops,
    vector: Vector,
    x: Float[Array, "batch in"],
    inputs: LaneInputs,
    workspace: Workspace | None,
) -> tuple[Float[Array, "batch out"], Activations | None]:
    """The outputs for each example, and those of its layers, written over that in `workspace`.

    The gradient is written over that in `workspace` too. Without it, only the outputs are returned.
    """

    def run(loop: LayerLoop) -> Array:
        def layer(index: Array, x: Units) -> Units:
            return loop.given(vector, index, x, inputs).x

        given = layer(0, loop.begin(jnp.asarray(x)))  # type: ignore[arg-type]
        if loop.shape.depth > 1:
            given = lax.fori_loop(1, loop.depth(inputs), layer, given)
        return loop.end(vector, given)

    return _own(loops, inputs, run), None if workspace is None else workspace.given


def _forward(
    loops: Loops, vector: Vector, x: Array, inputs: LaneInputs, workspace: Workspace | None
) -> tuple[tuple[Array, Activations | None], Any]:
    def run(loop: LayerLoop, stack: Activations) -> tuple[Array, Activations]:
        def hidden(index: Any, carry: tuple[Units, Activations]) -> tuple[Units, Activations]:
            at = loop.given(vector, index, carry[0], inputs)
            written = partial(
                lax.dynamic_update_slice, start_indices=_begin(index), allow_negative_indices=False
            )
            return at.x, jax.tree.map(lambda all, own: written(all, own[None]), carry[1], at)

        # the first layer is not among those that are alike
        last, stack = hidden(0, (loop.begin(jnp.asarray(x)), stack))
        if loop.shape.depth > 1:
            last, stack = lax.fori_loop(1, loop.depth(inputs), hidden, (last, stack))
        return loop.end(vector, last), stack

    blank = loops[-1].blank(len(x), x.dtype) if workspace is None else workspace.given
    given, stack = _own(loops, inputs, run, blank)
    if workspace is None:
        return (given, None), (vector, inputs, x, stack, None)
    return (given, stack), (vector, inputs, x, stack, workspace.gradient)


def _backward(
    loops: Loops, saved: Any, changes: tuple[Array, Any]
) -> tuple[Vector, Array, None, None]:
    vector, inputs, x, stack, gradient = saved
    found = blank_gradient(vector, changes[0]) if gradient is None else jnp.asarray(gradient)

    def run(loop: LayerLoop, found: Vector, change: Array) -> tuple[Vector, Array]:
        depth, columns = loop.shape.depth, stack.x.shape[-1]

        def at(layer: Any) -> Activations:
            cut = partial(
                lax.dynamic_slice,
                start_indices=_begin(layer),
                slice_sizes=(1, loop.shape.width, columns),
                allow_negative_indices=False,
            )
            return jax.tree.map(lambda every: cut(every)[0], stack)

        last = at(loop.depth(inputs) - 1).x
        change, found = loop.end_backward(vector, last, change, found)

        def hidden(index: Array, carry: tuple[Units, Vector]) -> tuple[Units, Vector]:
            layer = loop.depth(inputs) - 1 - index
            return loop.backward(vector, layer, at(layer - 1).x, at(layer), inputs, *carry)

        if depth > 1:
            change, found = lax.fori_loop(0, loop.depth(inputs) - 1, hidden, (change, found))
        change, found = loop.backward_first(vector, x, at(0), inputs, change, found)
        return found, change

    return (*_own(loops, inputs, run, found, changes[0]), None, None)


outputs_over.defvjp(_forward, _backward)


def _own(loops: Loops, inputs: LaneInputs, run: Callable[..., Any], *operands: Any) -> Any:
    """The result of `run` for the lane's own loop and the operands."""
    runs: Sequence[Callable[..., Any]] = [partial(run, loop) for loop in loops]
    return runs[0](*operands) if inputs.loop is None else lax.switch(inputs.loop, runs, *operands)


def _begin(layer: Any) -> tuple[Array, ...]:
    """Where a layer begins in the outputs of all layers; a class has room for several widths."""
    return tuple(jnp.asarray(place, jnp.int32) for place in (layer, 0, 0))
