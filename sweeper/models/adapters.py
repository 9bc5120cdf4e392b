"""Models of Flax and Haiku as Equinox modules that hold their parameters.

Only Equinox and JAX are needed; Flax and Haiku are used if the model comes from them. `load.py` of
an export contains this file.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax


class UnadaptableError(TypeError):
    """A model of another library that cannot be trained: what was found, and the fix."""

    def __init__(self, found: str, hint: str) -> None:
        super().__init__(f"{found}; {hint}")
        self.found, self.hint = found, hint


class Adapted(eqx.Module):
    """A model of another library: `params` are its parameters by name."""

    params: Any


class LinenModel(Adapted):
    """A module of Flax Linen that computes the same in training."""

    module: Any = eqx.field(static=True)

    def __call__(self, x):
        """The outputs for one example."""
        return self.module.apply({"params": self.params}, x)


class DrawingLinenModel(Adapted):
    """A module of Flax Linen whose `__call__` has an argument that says whether it is training."""

    module: Any = eqx.field(static=True)
    mode: str = eqx.field(static=True)

    def __call__(self, x, key=None):
        """The outputs for one example, in training if there is a `key`."""
        is_training = key is not None
        given = {self.mode: is_training != (self.mode in _IN_EVALUATION)}
        rngs = {"dropout": key} if is_training else {}
        return self.module.apply({"params": self.params}, x, rngs=rngs, **given)


class NnxModel(Adapted):
    """A module of Flax NNX that draws no random numbers."""

    graph: Any = eqx.field(static=True)

    def __call__(self, x):
        """The outputs for one example."""
        nnx = sys.modules["flax.nnx"]
        return nnx.merge(self.graph, self.params)(x)


class DrawingNnxModel(Adapted):
    """A module of Flax NNX with streams of random numbers, whose keys and counts are at paths."""

    graph: Any = eqx.field(static=True)
    keys: tuple[Any, ...] = eqx.field(static=True)
    counts: tuple[Any, ...] = eqx.field(static=True)

    def __call__(self, x, key=None):
        """The outputs for one example: as after `train()` with a `key`, else as after `eval()`."""
        nnx, nested = sys.modules["flax.nnx"], sys.modules["flax.traverse_util"].unflatten_dict
        # the fixed key of models.keys, which is not in exports
        base = jax.random.key(0, impl="threefry2x32") if key is None else key
        keys = {path: jax.random.fold_in(base, place) for place, path in enumerate(self.keys)}
        counts = {path: jax.numpy.zeros((), "uint32") for path in self.counts}
        model = nnx.merge(self.graph, self.params, nested(keys), nested(counts))
        if key is None:
            model.eval()
        else:
            model.train()
        return model(x)


class HaikuModel(Adapted):
    """A function that Haiku transformed, without random numbers."""

    apply: Any = eqx.field(static=True)

    def __call__(self, x):
        """The outputs for one example."""
        return self.apply(self.params, x)


class DrawingHaikuModel(Adapted):
    """A function that Haiku transformed, which gets a random key in training, otherwise None."""

    apply: Any = eqx.field(static=True)

    def __call__(self, x, key=None):
        """The outputs for one example."""
        return self.apply(self.params, key, x)


# arguments of Linen modules that say whether they are training, and those that say the opposite
_IN_TRAINING = ("train", "training", "is_training")
_IN_EVALUATION = ("deterministic", "eval", "inference")
_INSTEAD = "use layers without such state: LayerNorm, GroupNorm or RMSNorm instead of BatchNorm"


def adapted(built: Any) -> Any:
    """What a function built, as an Equinox module if it comes from Flax or Haiku.

    Those are a module of NNX, or what `nnx.split` returned; a module of Linen and its variables;
    what `hk.transform` returned and its parameters. Anything else is returned as it is.

    Raises:
        UnadaptableError: it has a state that changes in training, or its parameters are missing.
    """
    first, second = built if type(built) is tuple and len(built) == 2 else (built, None)
    if (nnx := sys.modules.get("flax.nnx")) is not None:
        if isinstance(first, nnx.GraphDef) and second is not None:
            return _of_nnx(nnx, nnx.merge(first, second))
        if isinstance(built, nnx.Module):
            return _of_nnx(nnx, built)
    if (linen := sys.modules.get("flax.linen")) is not None and isinstance(first, linen.Module):
        return _of_linen(first, second)
    if (haiku := sys.modules.get("haiku")) is not None:
        several = haiku.TransformedWithState | haiku.MultiTransformed
        several |= haiku.MultiTransformedWithState
        if isinstance(built, several | haiku.Transformed):
            found = f"a haiku.{type(built).__name__} without its parameters"
            raise UnadaptableError(found, "return (net, net.init(key, jnp.zeros(in_size)))")
        if isinstance(first, several):
            found = f"a haiku.{type(first).__name__}, whose state is not kept"
            raise UnadaptableError(found, f"use haiku.transform, and {_INSTEAD}")
        if isinstance(first, haiku.Transformed):
            return _of_haiku(first, second)
    return built


def _of_nnx(nnx: Any, module: Any) -> Adapted:
    kinds = nnx.Param, nnx.RngKey, nnx.RngCount, ...
    graph, params, *drawn, rest = nnx.split(module, *kinds)
    if others := nnx.to_flat_state(rest):
        names = ", ".join(dict.fromkeys(f"nnx.{type(one).__name__}" for _, one in others))
        at = ".".join(map(str, others[0][0]))
        found = f"a module of Flax NNX with variables that training does not keep: {names} at {at}"
        raise UnadaptableError(found, _INSTEAD)
    keys, counts = (tuple(path for path, _ in nnx.to_flat_state(one)) for one in drawn)
    pure = nnx.to_pure_dict(params)
    return DrawingNnxModel(pure, graph, keys, counts) if keys else NnxModel(pure, graph)


def _of_linen(module: Any, variables: Any) -> Adapted:
    if not (isinstance(variables, Mapping) and "params" in variables):
        found = "a module of Flax Linen without its variables"
        hint = "return (net, net.init(key, jnp.zeros(in_size)))"
        raise UnadaptableError(found, hint)
    if others := [name for name in variables if name != "params"]:
        found = "a module of Flax Linen with collections that training does not keep"
        raise UnadaptableError(f"{found}: {', '.join(others)}", _INSTEAD)
    names = [*inspect.signature(type(module).__call__).parameters]
    modes = [name for name in (*_IN_TRAINING, *_IN_EVALUATION) if name in names]
    params = jax.tree.map(lambda leaf: leaf, dict(variables["params"]))
    return DrawingLinenModel(params, module, modes[0]) if modes else LinenModel(params, module)


def _of_haiku(transformed: Any, params: Any) -> Adapted:
    draws = "rng" in inspect.signature(transformed.apply).parameters
    kind = DrawingHaikuModel if draws else HaikuModel
    return kind(params, transformed.apply)
