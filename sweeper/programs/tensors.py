"""Trees of arrays in safetensors files: each leaf by its path, all of them checked one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

_Tree = TypeVar("_Tree", bound=PyTree)
Tensors = Mapping[str, NDArray[Any]]

# of the leaves that do not fit so many are told
_MOST_TOLD = 3


class CheckpointError(Exception):
    """The file is missing, is not what was written, or does not fit the state it is read into."""


def named(tree: PyTree, under: str = "") -> dict[str, Any]:
    """The leaves of `tree` by path, such as `model/layers/0/weight`."""
    paths = jax.tree_util.tree_leaves_with_path(tree)
    names = (jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in paths)
    return {
        "/".join(part for part in (under, name) if part): leaf
        for name, (_, leaf) in zip(names, paths, strict=True)
    }


def packed(tensors: Tensors, metadata: Mapping[str, str]) -> bytes:
    """The content of a file of `tensors`; of the same it is the same, to the byte."""
    whole = {name: np.asarray(leaf, order="C") for name, leaf in tensors.items()}
    content = memoryview(save(whole, metadata=dict(metadata)))
    # safetensors puts metadata in another order each time
    end = 8 + int.from_bytes(content[:8], "little")
    head = {**json.loads(bytes(content[8:end])), "__metadata__": dict(metadata)}
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, content[end:]])


def unpacked(content: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The tensors of a file, and what it says of them.

    Raises:
        CheckpointError: it is no such file.
    """
    try:
        tensors = load(content)
        # safetensors gives the head of a file only where it opens the file itself
        head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(str(error)) from error
    return tensors, head.get("__metadata__", {})


def fitted(tensors: Tensors, like: _Tree, under: str) -> _Tree:
    """The tree below the path `under`, with structure, shapes and dtypes of `like`.

    Raises:
        CheckpointError: a leaf is missing, is one too many, or is of another shape or dtype.
    """
    wanted = named(like, under)
    unfit = [_unfit(name, tensors.get(name), leaf) for name, leaf in wanted.items()]
    own = (name for name in tensors if name == under or name.startswith(f"{under}/"))
    unfit += [f"there is no use for leaf {name}" for name in own if name not in wanted]
    told = [problem for problem in unfit if problem]
    if told:
        more = len(told) - _MOST_TOLD
        further = [f"{more} more"] if more > 0 else []
        raise CheckpointError("; ".join([*told[:_MOST_TOLD], *further]))
    return jax.tree.unflatten(jax.tree.structure(like), [tensors[name] for name in wanted])


def _unfit(name: str, found: NDArray[Any] | None, expected: Any) -> str:
    """What is wrong with a leaf; empty where it fits."""
    if found is None:
        return f"there is no leaf {name}"
    if (found.shape, found.dtype) == (tuple(expected.shape), np.dtype(expected.dtype)):
        return ""
    wanted = f"{np.dtype(expected.dtype)}{list(expected.shape)}"
    return f"leaf {name} is {found.dtype}{list(found.shape)}, the state wants {wanted}"


@cache
def versions() -> dict[str, str]:
    """The libraries whose states these are, by version."""
    return {library: version(library) for library in ("jax", "equinox", "optax")}


def other_versions(written: Mapping[str, str]) -> str:
    """Which of these libraries wrote a file in another version than is here; empty if none did."""
    differing = [
        f"{library} {written[library]}, and here is {here}"
        for library, here in versions().items()
        if library in written and written[library] != here
    ]
    return "; ".join(differing)
