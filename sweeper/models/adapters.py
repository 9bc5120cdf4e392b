"""Models of Flax and Haiku as Equinox modules that hold their parameters.

Only Equinox and JAX are needed; Flax and Haiku are used if the model comes from them. `load.py` of
an export contains this file.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.core
import numpy as np


class UnadaptableError(TypeError):
    """A model of another library that cannot be trained: what was found, and the fix."""

    def __init__(self, found: str, hint: str) -> None:
        super().__init__(f"{found}; {hint}")
        self.found, self.hint = found, hint


class Adapted(eqx.Module):
    """A model of another library: `params` are its parameters by name."""

    library: ClassVar[str] = "flax"

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


@dataclass(frozen=True, repr=False)
class Constant:
    """A NumPy array in an attribute of a module, which is not trained."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes

    def __repr__(self) -> str:
        """Its shape, and the digest of its numbers."""
        return f"Constant({self.dtype}{self.shape}, {sha256(self.content).hexdigest()})"

    def array(self) -> np.ndarray:
        """The array."""
        return np.frombuffer(self.content, self.dtype).reshape(self.shape)


class TracedRate:
    """A rate that JAX traces: Flax compares the rate of Dropout with 0 and 1 before it computes."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return False

    def __rsub__(self, other: Any) -> Any:
        return other - self.value


class NnxModel(Adapted):
    """A module of Flax NNX that draws no random numbers.

    `constants` are at paths in it; `numbers` are floats of its modules, each at a path and a name.
    """

    numbers: tuple[Any, ...]
    places: tuple[tuple[Any, str], ...] = eqx.field(static=True)
    constants: tuple[tuple[Any, Constant], ...] = eqx.field(static=True)
    graph: Any = eqx.field(static=True)

    def __call__(self, x):
        """The outputs for one example."""
        return self.merged()(x)

    def merged(self, *states):
        """The module, with `states` besides its parameters."""
        nnx, nested = sys.modules["flax.nnx"], sys.modules["flax.traverse_util"].unflatten_dict
        arrays = nested({path: constant.array() for path, constant in self.constants})
        module = nnx.merge(self.graph, self.params, arrays, *states)
        modules = dict(nnx.iter_modules(module))
        for (path, name), number in zip(self.places, self.numbers, strict=True):
            is_rate = isinstance(modules[path], nnx.Dropout) and not isinstance(number, float)
            vars(modules[path])[name] = TracedRate(number) if is_rate else number
        return module


class DrawingNnxModel(NnxModel):
    """A module of Flax NNX with streams of random numbers, whose keys and counts are at paths."""

    keys: tuple[Any, ...] = eqx.field(static=True)
    counts: tuple[Any, ...] = eqx.field(static=True)

    def __call__(self, x, key=None):
        """The outputs for one example: as after `train()` with a `key`, else as after `eval()`."""
        nested = sys.modules["flax.traverse_util"].unflatten_dict
        # the fixed key of models.keys, which is not in exports
        base = jax.random.key(0, impl="threefry2x32") if key is None else key
        keys = {path: jax.random.fold_in(base, place) for place, path in enumerate(self.keys)}
        counts = {path: jax.numpy.zeros((), "uint32") for path in self.counts}
        module = self.merged(nested(keys), nested(counts))
        if key is None:
            module.eval()
        else:
            module.train()
        return module(x)


class HaikuModel(Adapted):
    """A function that Haiku transformed, without random numbers."""

    library = "haiku"

    apply: Any = eqx.field(static=True)

    def __call__(self, x):
        """The outputs for one example."""
        return self.apply(self.params, x)


class DrawingHaikuModel(Adapted):
    """A function that Haiku transformed, which gets a random key in training, otherwise None."""

    library = "haiku"

    apply: Any = eqx.field(static=True)

    def __call__(self, x, key=None):
        """The outputs for one example."""
        return self.apply(self.params, key, x)


# arguments of Linen modules that say whether they are training, and those that say the opposite
_IN_TRAINING = ("train", "training", "is_training")
_IN_EVALUATION = ("deterministic", "eval", "inference")
_IN_EQUINOX = (
    "instead of BatchNorm, or write the model in Equinox: sweeper guide models-and-programs"
)
MODES = (*_IN_TRAINING, *_IN_EVALUATION)
INSTEAD = f"use layers without such state: LayerNorm, GroupNorm or RMSNorm {_IN_EQUINOX}"
# GroupNorm of NNX refuses a single example
_INSTEAD_OF_NNX = f"use layers without such state: LayerNorm or RMSNorm {_IN_EQUINOX}"
_PAIR = "return (net, net.init(key, jnp.zeros(in_size))), with all that net.init returns"
_CONSTANTS = "if it is trained, make it an nnx.Param; if it is constant, a NumPy array"


def adapted(built: Any) -> Any:
    """What a function built, as an Equinox module if it comes from Flax or Haiku.

    Those are a module of NNX, or what `nnx.split` returned; a module of Linen and its variables;
    what `hk.transform` returned and its parameters. Anything else is returned as it is.

    Raises:
        UnadaptableError: it has a state that changes in training, its parameters are missing, or
            the function returned something else of these libraries.
    """
    first, second = built if type(built) is tuple and len(built) == 2 else (built, None)
    if (nnx := sys.modules.get("flax.nnx")) is not None:
        if isinstance(first, nnx.GraphDef) and second is not None:
            return _of_nnx(nnx, nnx.merge(first, second))
        if isinstance(built, nnx.Module):
            return _of_nnx(nnx, built)
        if isinstance(built, nnx.State):
            raise UnadaptableError("the state of a module of Flax NNX", "return the module")
    if (linen := sys.modules.get("flax.linen")) is not None:
        if isinstance(first, linen.Module):
            return _of_linen(first, second)
        if isinstance(second, linen.Module):
            raise UnadaptableError("variables and a module of Flax Linen", _PAIR)
    training = sys.modules.get("flax.training.train_state")
    if training is not None and isinstance(built, training.TrainState):
        raise UnadaptableError("a TrainState of Flax, but the study trains", _PAIR)
    if (haiku := sys.modules.get("haiku")) is not None:
        several = haiku.TransformedWithState | haiku.MultiTransformed
        several |= haiku.MultiTransformedWithState
        if isinstance(built, several | haiku.Transformed):
            found = f"a haiku.{type(built).__name__} without its parameters"
            raise UnadaptableError(found, _PAIR)
        if isinstance(second, haiku.Transformed):
            raise UnadaptableError("parameters and a haiku.Transformed", _PAIR)
        if isinstance(first, several):
            found = f"a haiku.{type(first).__name__}, whose state is not kept"
            raise UnadaptableError(found, f"use haiku.transform, and {INSTEAD}")
        if isinstance(first, haiku.Transformed):
            return _of_haiku(first, second)
    if isinstance(built, Mapping) and (linen or haiku):
        raise UnadaptableError("a dict, which has parameters only, without the network", _PAIR)
    return built


def _of_nnx(nnx: Any, module: Any) -> Adapted:
    module = nnx.merge(*nnx.split(module))  # the same arrays in modules of its own
    numbers = _take_numbers(nnx, module)
    kinds = nnx.Param, nnx.RngKey, nnx.RngCount, np.ndarray, ...
    graph, params, *drawn, arrays, rest = nnx.split(module, *kinds)
    if others := nnx.to_flat_state(rest):
        names = ", ".join(dict.fromkeys(f"nnx.{type(one).__name__}" for _, one in others))
        at = ".".join(map(str, others[0][0]))
        found = f"a module of Flax NNX with variables that training does not keep: {names} at {at}"
        changes = any(isinstance(one, nnx.BatchStat) for _, one in others)
        raise UnadaptableError(found, _INSTEAD_OF_NNX if changes else _CONSTANTS)
    keys, counts = (tuple(path for path, _ in nnx.to_flat_state(one)) for one in drawn)
    flat = nnx.to_flat_state(arrays)
    if any(one.dtype.hasobject for _, one in flat):
        raise UnadaptableError(
            "a module of Flax NNX with an array of objects", "keep numbers in it"
        )
    constants = tuple(
        (path, Constant(str(one.dtype), one.shape, one.tobytes())) for path, one in flat
    )
    values, places = tuple(numbers.values()), tuple(numbers)
    own = nnx.to_pure_dict(params), values, places, constants, graph
    return DrawingNnxModel(*own, keys, counts) if keys else NnxModel(*own)


def _take_numbers(nnx: Any, module: Any) -> dict[tuple[Any, str], Any]:
    """The floats of the user's modules and the rates of Dropout, which become 0 in `module`.

    A program may get such a number at run time: then it is an array.

    Raises:
        UnadaptableError: other arrays are in plain attributes.
    """
    numbers: dict[tuple[Any, str], Any] = {}
    for path, node in nnx.iter_modules(module):
        is_own = isinstance(node, nnx.Dropout) or type(node).__module__.split(".")[0] != "flax"
        for name, value in [*vars(node).items()]:
            if is_own and _is_number(value):
                numbers[path, name] = value
                vars(node)[name] = 0.0
            elif any(isinstance(leaf, jax.Array) for leaf in _leaves(nnx, value)):
                raise unkept((path, name))
    return numbers


def _leaves(nnx: Any, value: Any) -> Any:
    """What is in an attribute of a module, except for variables and other modules."""
    return jax.tree.leaves(value, is_leaf=lambda one: isinstance(one, nnx.Variable | nnx.Pytree))


def unkept(place: tuple[Any, str]) -> UnadaptableError:
    """The error of an array in a plain attribute of a module of NNX."""
    path, name = place
    shown = ".".join(map(str, (*path, name)))
    found = f"a module of Flax NNX with an array in the plain attribute {shown}"
    return UnadaptableError(found, _CONSTANTS)


def _of_linen(module: Any, variables: Any) -> Adapted:
    if not isinstance(variables, Mapping):
        raise UnadaptableError("a module of Flax Linen without its variables", _PAIR)
    if "params" not in variables:
        found = "a module of Flax Linen and variables without the outer key 'params'"
        raise UnadaptableError(found, _PAIR)
    if others := [name for name in variables if name != "params"]:
        found = "a module of Flax Linen with collections that training does not keep"
        raise UnadaptableError(f"{found}: {', '.join(others)}", INSTEAD)
    names = [*inspect.signature(type(module).__call__).parameters]
    modes = [name for name in MODES if name in names]
    params = jax.tree.map(lambda leaf: leaf, dict(variables["params"]))
    return DrawingLinenModel(params, module, modes[0]) if modes else LinenModel(params, module)


def _is_number(value: Any) -> bool:
    """Whether a program may get the value at run time: it is a float, or an array in its place."""
    return isinstance(value, float) or (
        isinstance(value, jax.core.Tracer) and value.shape == () and value.dtype.kind == "f"
    )


def _of_haiku(transformed: Any, params: Any) -> Adapted:
    draws = "rng" in inspect.signature(transformed.apply).parameters
    kind = DrawingHaikuModel if draws else HaikuModel
    return kind(params, transformed.apply)
