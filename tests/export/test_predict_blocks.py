"""Rows are predicted in blocks of one size, since JAX compiles for each new number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sweeper.export.saved_model import in_blocks
from sweeper.scheduler.cost import MEASURED_ROWS


@pytest.mark.parametrize(
    ("rows", "of_block"),
    [
        (0, 1),
        (1, 1),
        (5, 8),
        (MEASURED_ROWS, MEASURED_ROWS),
        (2 * MEASURED_ROWS + 1, MEASURED_ROWS),
    ],
)
def test_all_blocks_have_the_same_rows(rows: int, of_block: int) -> None:
    x, sizes = np.arange(2.0 * rows).reshape(rows, 2), set[int]()

    def doubled(block: Any) -> dict[str, Any]:
        sizes.add(len(block))
        return {"twice": 2 * block}

    found = in_blocks(doubled, x)

    np.testing.assert_array_equal(found["twice"], 2 * x)
    assert sizes == {of_block}
