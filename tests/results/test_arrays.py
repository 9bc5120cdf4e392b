"""Arrays assembled from their buffers equal those that Arrow makes of the same values."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version
from pyarrow import parquet

from sweeper.results.columns import BOOL, DOUBLE, INT32, INT64, STRING, TIME
from sweeper.results.tables import array_of, numbers, repeated
from sweeper.rundir import RunDir

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    INT32: st.integers(-(2**31), 2**31 - 1),
    INT64: st.integers(-(2**63), 2**63 - 1),
    TIME: st.integers(-(2**62), 2**62),
    DOUBLE: st.floats(allow_nan=False),
    BOOL: st.booleans(),
    STRING: st.text(),
}

COLUMNS = st.sampled_from([*VALUES]).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.none() | VALUES[kind]))
)

# publishes two rounds, in a separate program
PUBLISHING = """
import sys
from pathlib import Path
from sweeper.ledger import Ledger
from sweeper.results.publish import Publisher
from sweeper.rundir import RunDir
from tests.results.committed import close_rounds, study
ledger = Ledger.create(sys.argv[2])
close_rounds(ledger, 2)
Publisher(RunDir(Path(sys.argv[1])), study()).publish(ledger, final=True)
ledger.close()
print(*sorted({"pandas", "pyarrow.compute"} & set(sys.modules)))
"""


@given(COLUMNS)
def test_arrays_equal_those_that_arrow_makes(column: tuple[pa.DataType, list[Any]]) -> None:
    kind, values = column
    array = array_of(values, kind)
    array.validate(full=True)
    assert array.equals(pa.array(values, kind))


@given(st.lists(st.floats()))
def test_numbers_that_are_missing_are_null(values: list[float]) -> None:
    measured = np.array(values, np.float64)
    missing = ~np.isfinite(measured)
    array = numbers(measured, DOUBLE, missing)
    array.validate(full=True)
    assert array.equals(pa.array(measured, DOUBLE, mask=missing))


@given(st.lists(st.text(), min_size=1), st.integers(0, 5))
def test_texts_are_repeated_in_turn(texts: list[str], times: int) -> None:
    array = repeated(texts, times)
    array.validate(full=True)
    assert array.equals(pa.array(texts * times, STRING))


@pytest.mark.parametrize(
    ("value", "kind", "error"),
    [
        (1.5, INT64, TypeError),
        ("1", DOUBLE, TypeError),
        (2**31, INT32, OverflowError),
        (2**63, INT64, OverflowError),
    ],
)
def test_values_that_do_not_fit_the_type_are_refused(
    value: object, kind: pa.DataType, error: type[Exception]
) -> None:
    with pytest.raises(error):
        array_of([value], kind)


def test_publishing_imports_no_slow_libraries(run_dir: RunDir, tmp_path: Path) -> None:
    program = subprocess.run(
        [sys.executable, "-c", PUBLISHING, run_dir.root, tmp_path / "ledger.db"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    # pyarrow 25 imports these itself to write a table
    of_arrow = {"pandas", "pyarrow.compute"} if Version(pa.__version__) < Version("26") else set()
    assert {*program.stdout.split()} <= of_arrow
    assert parquet.read_metadata(run_dir.trials).num_rows == 4
