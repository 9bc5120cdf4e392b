"""How errors show amounts, and where they are found."""

from __future__ import annotations

import errno
import pickle
import re
from pathlib import Path

import pytest

import sweeper
from sweeper import errors
from sweeper.errors import SweeperError, not_written, number_runs, size_text
from tests.documents import GUIDES


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


def test_numbers_are_listed_as_runs_without_gaps() -> None:
    assert number_runs([]) == ""
    assert number_runs([7]) == "7"
    assert number_runs([3, 0, 1, 2, 5, 9, 8, 7]) == "0 to 3, 5, 7 to 9"
    assert number_runs(range(0, 100, 2)).endswith(", 36, 38 and 30 more")


def test_every_error_can_be_caught_by_its_name_in_the_package() -> None:
    named = {
        name
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, SweeperError)
    }
    assert len(named) == 11
    assert named <= {*sweeper.__all__}
    assert all(getattr(sweeper, name) is getattr(errors, name) for name in named)
    assert all(f"`{name}`" in GUIDES["python"] for name in named)


def test_rows_that_do_not_fit_are_an_error_of_the_data_and_a_value_error() -> None:
    error = sweeper.UnfitRowsError("no column 'x'", "add it", [3])
    assert isinstance(error, sweeper.DataError) and isinstance(error, ValueError)
    assert (str(error), error.rows) == ("no column 'x'; add it", [3])
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.rows) == (type(error), str(error), error.rows)


def test_a_limit_on_the_size_of_files_is_not_called_a_full_disk() -> None:
    problem = not_written("runs/a/ledger.db", OSError(errno.EFBIG, "File too large"))
    assert str(problem) == (
        "runs/a/ledger.db: cannot be written: File too large; raise the limit on file size "
        "(ulimit -f), or use a file system that allows larger files"
    )


def test_the_package_offers_its_public_names_only() -> None:
    assert dir(sweeper) == sorted(sweeper.__all__)


def test_commands_in_messages_quote_their_paths() -> None:
    command = re.compile(r"sweeper (?!guide)[a-z-]+ \{([^{}]*)\}")
    package = Path(sweeper.__file__).parent
    sources = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    unquoted = [
        (path.name, place)
        for path, source in sources.items()
        for place in command.findall(source)
        if not place.startswith("quote(")
        and not re.search(rf"\b{re.escape(place)}\b.*=.*quote\(", source)
    ]
    assert unquoted == []
