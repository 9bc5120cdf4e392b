"""An exported model in a separate process that has Equinox and NumPy, but not this package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

# not SciPy, which JAX requires
_BLOCKED = ("sweeper", "optax", "optuna", "pandas", "sklearn", "pyarrow", "pydantic")
_TOLD = """
import sys
for name in {blocked}:
    sys.modules[name] = None
import numpy as np
sys.path.insert(0, {directory!r})
import load
given = np.load({given!r}, allow_pickle=True)
np.savez({made!r}, {calls})
"""


def standalone(
    directory: Path, scratch: Path, calls: Mapping[str, str], **given: Any
) -> Mapping[str, np.ndarray]:
    """The results of `calls`, expressions of `load` and of the arrays `given`, by name."""
    np.savez(scratch / "given.npz", **given)
    made = scratch / "made.npz"
    told = _TOLD.format(
        blocked=_BLOCKED,
        directory=str(directory),
        given=str(scratch / "given.npz"),
        made=str(made),
        calls=", ".join(f"{name}={call}" for name, call in calls.items()),
    )
    done = subprocess.run(
        [sys.executable, "-c", told], cwd=scratch, env={"PATH": ""}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with np.load(made) as found:
        return dict(found)
