"""Arrays are read from a checkpoint as they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from sweeper.programs.checkpoint import _TYPES, LaneFile, name_leaves, pack, unpack, write_lanes


@pytest.mark.parametrize("name", _TYPES.values())
def test_arrays_of_every_type_are_read_as_written(name: str) -> None:
    dtype = np.dtype(name)
    shaped: Any = np.arange(6).reshape(2, 3).astype(dtype)
    written = {"shaped": shaped, "scalar": shaped[1, 1], "empty": shaped[:, :0]}
    tensors, metadata = unpack(pack(written, {"jax": "1"}))

    assert metadata == {"jax": "1"}
    for key, leaf in written.items():
        assert (tensors[key].dtype, tensors[key].shape) == (dtype, leaf.shape)
        assert tensors[key].tobytes() == leaf.tobytes()


def test_leaves_whose_paths_look_alike_have_names_of_their_own(tmp_path: Path) -> None:
    tree = {
        "a": {"b": np.arange(2.0), "": np.arange(3.0)},
        "a/b": np.arange(4.0),
        "a/b'": np.arange(5.0),
        "": {"a": np.arange(6.0)},
    }
    path = tmp_path / "checkpoints" / "lanes"
    path.parent.mkdir()
    file = LaneFile(path, write_lanes(path, {(7, 0): tree, (7, 1): tree}))

    assert len(name_leaves(tree)) == 5
    for member in (0, 1):
        found = file.lane(7, tree, member)
        jax.tree.map(np.testing.assert_array_equal, found, tree)


def test_leaves_are_named_by_their_paths() -> None:
    tree = {"model": {"": [np.zeros(1), {"bias": np.zeros(1)}]}, "step": np.zeros(1)}
    names = ["3/model/0", "3/model/1/bias", "3/step"]
    assert list(name_leaves(tree, "3")) == names
