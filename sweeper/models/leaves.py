"""The parameters of a model one by one: the position of each, and the layers that hold it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import equinox as eqx
import jax
from jax.tree_util import DictKey, GetAttrKey, SequenceKey
from jaxtyping import PyTree

from sweeper.models.adapters import Adapted


@dataclass(frozen=True, slots=True)
class Holder:
    """A module that holds an array, and the names of the fields that lead from it to the array."""

    layer: type
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array of a model.

    `paths` are all ways to write its position: an index in a sequence may also count from the end.
    `holders` are the modules that hold it, the innermost first. `depth` is its index in the
    outermost sequence, from the start and from the end; None if it is in no sequence.
    """

    paths: tuple[str, ...]
    shape: tuple[int, ...]
    holders: tuple[Holder, ...]
    depth: tuple[int, int] | None

    @property
    def path(self) -> str:
        """Its position in Python syntax."""
        return self.paths[0]

    @property
    def layers(self) -> tuple[str, ...]:
        """The classes of the modules that hold it; those of other libraries are not known."""
        return tuple(
            one.layer.__name__ for one in self.holders if not issubclass(one.layer, Adapted)
        )

    @property
    def layer(self) -> str:
        """The class of the module that it is in; empty if it is not known."""
        return next(iter(self.layers), "")

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of all fields that lead to it."""
        return self.holders[-1].fields if self.holders else ()


def leaves_of(parameters: PyTree) -> tuple[Leaf, ...]:
    """The arrays of `parameters`, a model with nothing else, in the order of the PyTree."""
    found = jax.tree_util.tree_leaves_with_path(parameters)
    return tuple(_leaf(parameters, keys, array) for keys, array in found)


def _leaf(model: Any, keys: tuple[Any, ...], array: Any) -> Leaf:
    node: Any = model
    depth: tuple[int, int] | None = None
    spellings: list[tuple[str, ...]] = []
    holders: list[tuple[type, list[str]]] = []
    for key in keys:
        if issubclass(type(node), eqx.Module):
            holders.append((type(node), []))
        field: Any = None
        match key:
            case GetAttrKey(name=field):
                spelling, node = (f".{field}",), getattr(node, field, None)
            case DictKey(key=field):
                spelling, node = (f"[{field!r}]",), node[field]
            case SequenceKey(idx=at):
                from_end = at - len(node)
                spelling, node = (f"[{at}]", f"[{from_end}]"), node[at]
                depth = depth or (at, from_end)
            case _:  # into a user-registered PyTree, whose structure is not known
                spelling, node = (str(key),), None
        for _, fields in holders if field is not None else ():
            fields.append(str(field))
        spellings.append(spelling)
    paths = ("".join(path).removeprefix(".") for path in product(*spellings))
    inner_first = tuple(Holder(layer, tuple(fields)) for layer, fields in reversed(holders))
    return Leaf(tuple(paths), tuple(array.shape), inner_first, depth)
