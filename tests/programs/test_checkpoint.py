"""Arrays are read from a checkpoint as they were written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sweeper.programs.checkpoint import _TYPES, name_leaves, pack, unpack


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


def test_leaves_are_named_by_their_paths() -> None:
    tree = {"model": {"": [np.zeros(1), {"bias": np.zeros(1)}]}, "step": np.zeros(1)}
    names = ["3/model/0", "3/model/1/bias", "3/step"]
    assert list(name_leaves(tree, "3")) == names
