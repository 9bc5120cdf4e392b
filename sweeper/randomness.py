"""Where every random draw comes from: a hash of what it is for, never a shared stream.

Two draws for different purposes are independent, and adding a draw somewhere moves no other.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


def words(*purpose: int | str) -> NDArray[np.uint32]:
    """Four 32-bit words that are a function of `purpose` alone."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in purpose)
    return np.frombuffer(blake2b(text.encode(), digest_size=16).digest(), "<u4").copy()


def generator(*purpose: int | str) -> np.random.Generator:
    """A NumPy generator for `purpose`; Philox gives the same bits on every platform."""
    return np.random.Generator(np.random.Philox(key=words(*purpose).view("<u8")))
