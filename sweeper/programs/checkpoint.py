"""Checkpoints: trees of arrays in safetensors files, named by path and checked one by one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import file_digest, sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from sweeper.errors import SetupError, not_written
from sweeper.faults import Step, fault_points
from sweeper.files import open_inside, remove_inside

Tree = TypeVar("Tree", bound=PyTree)
Tensors = Mapping[str, NDArray[Any]]

# the types of arrays by their names in a file; `safetensors.numpy.load` does not know bfloat16 and
# the floats of 8 bits, which ml_dtypes adds to NumPy
_TYPES: Mapping[str, str] = {
    "BOOL": "bool",
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "C64": "complex64",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}
# at most this many mismatching leaves are listed
_MAX_SHOWN = 3


class CheckpointError(Exception):
    """The file is missing, is damaged, or does not fit the state it is read into."""


def name_leaves(tree: PyTree, under: str = "") -> dict[str, Any]:
    """The leaves of `tree` by path, such as `model/layers/0/weight`."""
    named: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        names = jax.tree_util.keystr(path, simple=True, separator="/").split("/")
        # the single part of a plain model has an empty name, which adds nothing to a path
        name = "/".join(filter(None, (under, *names)))
        while name in named:  # keys of a dict may contain a slash
            name += "'"
        named[name] = leaf
    return named


def pack(tensors: Tensors, metadata: Mapping[str, str]) -> bytes:
    """The content of a file of `tensors`; equal tensors give equal bytes."""
    whole = {name: np.asarray(leaf, order="C") for name, leaf in tensors.items()}
    content = memoryview(save(whole, metadata=dict(metadata)))
    # safetensors writes metadata in a different order each time
    end = 8 + int.from_bytes(content[:8], "little")
    head = {**json.loads(bytes(content[8:end])), "__metadata__": dict(metadata)}
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, content[end:]])


def unpack(content: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The tensors of a file, and its metadata.

    Raises:
        CheckpointError: the file is not a checkpoint.
    """
    try:
        tensors = {name: _array(**tensor) for name, tensor in deserialize(content)}
        # safetensors only returns metadata if it opens the file itself
        head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(str(error)) from error
    return tensors, head.get("__metadata__", {})


def _array(dtype: str, shape: Sequence[int], data: bytes) -> NDArray[Any]:
    """An array of a file, by the name of its type there."""
    if dtype not in _TYPES:
        raise CheckpointError(f"it has an array of the type {dtype}")
    return np.frombuffer(data, np.dtype(_TYPES[dtype])).reshape(shape)


def fit_tree(tensors: Tensors, like: Tree, under: str) -> Tree:
    """The tree below the path `under`, with structure, shapes and dtypes of `like`.

    Raises:
        CheckpointError: a leaf is missing, is superfluous, or has another shape or dtype.
    """
    wanted = name_leaves(like, under)
    mismatches = [_mismatch(name, tensors.get(name), leaf) for name, leaf in wanted.items()]
    own = (name for name in tensors if name == under or name.startswith(f"{under}/"))
    mismatches += [f"leaf {name} is not needed" for name in own if name not in wanted]
    problems = [problem for problem in mismatches if problem]
    if problems:
        more = len(problems) - _MAX_SHOWN
        further = [f"{more} more"] if more > 0 else []
        raise CheckpointError("; ".join([*problems[:_MAX_SHOWN], *further]))
    return jax.tree.unflatten(jax.tree.structure(like), [tensors[name] for name in wanted])


def _mismatch(name: str, found: NDArray[Any] | None, expected: Any) -> str:
    """What is wrong with a leaf; empty if it fits."""
    if found is None:
        return f"leaf {name} is missing"
    if (found.shape, found.dtype) == (tuple(expected.shape), np.dtype(expected.dtype)):
        return ""
    wanted = f"{np.dtype(expected.dtype)}{list(expected.shape)}"
    return f"leaf {name} is {found.dtype}{list(found.shape)}, but the state needs {wanted}"


@cache
def versions() -> dict[str, str]:
    """The versions of the libraries whose states these are."""
    return {library: version(library) for library in ("jax", "equinox", "optax")}


def other_versions(written: Mapping[str, str]) -> str:
    """Libraries that wrote a file in another version than installed here; empty if none."""
    differing = [
        f"{library} {written[library]}, but {here} is installed"
        for library, here in versions().items()
        if library in written and written[library] != here
    ]
    return "; ".join(differing)


_State = TypeVar("_State", bound=PyTree)
_DIGITS = 32  # length of a digest

LaneName = tuple[int, int]  # a trial's number, and the index of its member


def write_lanes(
    path: Path, states: Mapping[LaneName, PyTree[NDArray[Any]]], *, synced: bool = True
) -> str:
    """Write the state of each lane to `path`, synced to disk; returns the digest of the file.

    It need not be `synced` if it does not have to outlive this process.

    Raises:
        SetupError: it cannot be written.
    """
    tensors: dict[str, Any] = {}
    for lane, state in states.items():
        tensors |= name_leaves(state, _lane_name(*lane))
    content = pack(tensors, versions())
    try:
        with open_inside(path.parent.parent, path, "wb") as file:
            with fault_points(Step.WRITE_CHECKPOINT):
                file.write(content)
            if synced:
                file.flush()
                with fault_points(Step.SYNC_CHECKPOINT):
                    os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            remove_inside(path.parent.parent, path)  # do not keep a disk full
        raise SetupError(not_written(path, error)) from error
    return _digest(content)


class LaneFile:
    """A checkpoint that was read and checked once, for any of its lanes.

    `other_versions` lists libraries that wrote it in another version; empty if none.
    """

    def __init__(self, path: Path, digest: str) -> None:
        """Read the whole file.

        Raises:
            CheckpointError: it cannot be read, or is damaged.
        """
        try:
            with path.open("rb") as file:
                # in pieces, since a file of another size may be larger than the memory
                is_as_written = file_digest(file, sha256).hexdigest()[:_DIGITS] == digest
                file.seek(0)
                content = file.read() if is_as_written else b""
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror}") from error
        if not is_as_written:
            raise CheckpointError(f"{path}: its content is damaged")
        try:
            self._tensors, written = unpack(content)
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error
        self.other_versions = other_versions(written)

    def lane(self, number: int, like: _State, member: int = 0) -> _State:
        """The state of a member of trial `number`, with structure, shapes and dtypes of `like`.

        Raises:
            CheckpointError: a leaf is missing, is superfluous, or has another shape or dtype.
        """
        try:
            return fit_tree(self._tensors, like, _lane_name(number, member))
        except CheckpointError as error:
            if not self.other_versions:
                raise
            raise CheckpointError(f"{error} (written by {self.other_versions})") from error


def _lane_name(number: int, member: int) -> str:
    return f"{number}.{member}" if member else f"{number}"


def _digest(content: bytes) -> str:
    # not blake2b: processors have instructions for SHA-256, which reads every byte of every round
    return sha256(content).hexdigest()[:_DIGITS]
