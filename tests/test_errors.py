"""How errors show amounts."""

from __future__ import annotations

import pytest

from sweeper.errors import size_text


@pytest.mark.parametrize(
    ("n_bytes", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (3_355_443, "3.2 MiB"),
        (999.4 * 1024, "999 KiB"),
        (999.6 * 1024, "1000 KiB"),
        (1023 * 1024, "1023 KiB"),
        (5000 * 1024**4, "5000 TiB"),
    ],
)
def test_sizes_have_three_digits_and_no_exponent(n_bytes: float, expected: str) -> None:
    assert size_text(n_bytes) == expected
