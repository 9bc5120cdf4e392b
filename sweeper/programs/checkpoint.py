"""Checkpoints: the states of a bucket's lanes in one safetensors file, each leaf by its name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, TypeVar

from jaxtyping import PyTree
from numpy.typing import NDArray

from sweeper.errors import SetupError, not_written
from sweeper.faults import Step, fault_points
from sweeper.links import open_inside, remove_inside
from sweeper.programs.tensors import (
    CheckpointError,
    fitted,
    named,
    other_versions,
    packed,
    unpacked,
    versions,
)

_State = TypeVar("_State", bound=PyTree)
_DIGITS = 32  # of a digest

LaneName = tuple[int, int]  # a trial's number, and which of its members


def write_lanes(
    path: Path, states: Mapping[LaneName, PyTree[NDArray[Any]]], *, synced: bool = True
) -> str:
    """Write the state of each lane to `path`, synced to disk; gives the digest of the file.

    Not `synced` where nothing of it has to outlive this process.

    Raises:
        SetupError: the disk does not take it.
    """
    tensors: dict[str, Any] = {}
    for lane, state in states.items():
        tensors |= named(state, _lane_name(*lane))
    content = packed(tensors, versions())
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
            remove_inside(path.parent.parent, path)  # a disk that is full is not to stay so
        raise SetupError(not_written(path, error)) from error
    return _digest(content)


class LaneFile:
    """A checkpoint that was read and checked once, for any of its lanes.

    `other_versions` tells of libraries that wrote it in another version; empty where none did.
    """

    def __init__(self, path: Path, digest: str) -> None:
        """Read all of it.

        Raises:
            CheckpointError: it cannot be read, or is not what was written.
        """
        try:
            with path.open("rb") as file:
                # in pieces: of another size, it may be larger than the memory
                is_as_written = file_digest(file, sha256).hexdigest()[:_DIGITS] == digest
                file.seek(0)
                content = file.read() if is_as_written else b""
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror}") from error
        if not is_as_written:
            raise CheckpointError(f"{path}: its content is not what was written")
        try:
            self._tensors, written = unpacked(content)
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error
        self.other_versions = other_versions(written)

    def lane(self, number: int, like: _State, member: int = 0) -> _State:
        """The state of a member of trial `number`, with structure, shapes and dtypes of `like`.

        Raises:
            CheckpointError: a leaf is missing, is one too many, or is of another shape or dtype.
        """
        try:
            return fitted(self._tensors, like, _lane_name(number, member))
        except CheckpointError as error:
            if not self.other_versions:
                raise
            raise CheckpointError(f"{error} (written by {self.other_versions})") from error


def _lane_name(number: int, member: int) -> str:
    return f"{number}.{member}" if member else f"{number}"


def _digest(content: bytes) -> str:
    # not blake2b: processors have instructions for this one, and it is every byte of every round
    return sha256(content).hexdigest()[:_DIGITS]
