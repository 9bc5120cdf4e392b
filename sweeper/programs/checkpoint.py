"""Checkpoints: the states of a bucket's lanes in one safetensors file, each leaf by its name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from sweeper.errors import Problem, SetupError

_State = TypeVar("_State", bound=PyTree)

LaneName = tuple[int, int]  # a trial's number, and which of its members


class CheckpointError(Exception):
    """The file is missing, is not what was written, or does not fit the state it is read into."""


def write_lanes(
    path: Path, states: Mapping[LaneName, PyTree[NDArray[Any]]], *, synced: bool = True
) -> str:
    """Write the state of each lane to `path`, synced to disk; gives the digest of the file.

    Not `synced` where nothing of it has to outlive this process.

    Raises:
        SetupError: the disk does not take it.
    """
    tensors = {
        f"{lane}/{name}": np.asarray(leaf, order="C")
        for lane, state in ((_lane_name(*lane), state) for lane, state in states.items())
        for name, leaf in _named(state).items()
    }
    content = save(tensors, metadata=_versions())
    try:
        with path.open("wb") as file:
            file.write(content)
            if synced:
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise SetupError(Problem(str(path), "", found, "make room for it, then go on")) from error
    return _digest(content)


class LaneFile:
    """A checkpoint that was read and checked once, for any of its lanes."""

    def __init__(self, path: Path, digest: str) -> None:
        """Read all of it.

        Raises:
            CheckpointError: it cannot be read, or is not what was written.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror}") from error
        if _digest(content) != digest:
            raise CheckpointError(f"{path}: its content is not what was written")
        try:
            self._tensors = load(content)
        except SafetensorError as error:
            raise CheckpointError(f"{path}: {error}") from error

    def lane(self, number: int, like: _State, member: int = 0) -> _State:
        """The state of a member of trial `number`, with structure, shapes and dtypes of `like`.

        Raises:
            CheckpointError: a leaf is missing or of another shape.
        """
        leaves = [
            _leaf(self._tensors, f"{_lane_name(number, member)}/{name}", expected)
            for name, expected in _named(like).items()
        ]
        return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _lane_name(number: int, member: int) -> str:
    return f"{number}.{member}" if member else f"{number}"


@cache
def _versions() -> dict[str, str]:
    """The libraries whose states these are, by version."""
    return {library: version(library) for library in ("jax", "equinox", "optax")}


def _named(tree: PyTree) -> dict[str, Any]:
    """The leaves of `tree` by path, such as `model/layers/0/weight`."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _leaf(tensors: Mapping[str, NDArray[Any]], name: str, expected: Any) -> NDArray[Any]:
    if name not in tensors:
        raise CheckpointError(f"there is no leaf {name}")
    found = tensors[name]
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        raise CheckpointError(
            f"leaf {name} is {found.dtype}{list(found.shape)}, "
            f"the state wants {expected.dtype}{list(expected.shape)}"
        )
    return found


def _digest(content: bytes) -> str:
    # not blake2b: processors have instructions for this one, and it is every byte of every round
    return sha256(content).hexdigest()[:32]
