"""Dates written as numbers that do not sort by time cannot split rows by time."""

from __future__ import annotations

from datetime import date, timedelta

import pandas as pd
import pytest

from sweeper.data.prepare import prepare
from sweeper.data.split import describe_misordered
from sweeper.errors import DataError

DAYS = [date(2023, 1, 1) + timedelta(days=7 * week) for week in range(80)]
AFTER_YEAR = "months or weeks after the year, such as"
DAY_FIRST = "dates that begin with the day or the month, such as"
WRONG = {
    "2023.1 to 2023.12": ([float(f"{d.year}.{d.month}") for d in DAYS], f"{AFTER_YEAR} 2023.1"),
    "2023.1 to 2023.52": (
        [float(f"{d.year}.{d.isocalendar().week}") for d in DAYS], f"{AFTER_YEAR} 2023.52",
    ),
    "31012023": ([int(f"{d:%d%m%Y}") for d in DAYS], f"{DAY_FIRST} 1012023"),
    "01312023": ([int(f"{d:%m%d%Y}") for d in DAYS], f"{DAY_FIRST} 1012023"),
    "012023": ([int(f"{d:%m%Y}") for d in DAYS], f"{DAY_FIRST} 12023"),
    "days as floats": ([float(f"{d:%d%m%Y}") for d in DAYS], f"{DAY_FIRST} 1012023"),
}  # fmt: skip
RIGHT = {
    "2023.01 to 2023.12": [float(f"{d:%Y.%m}") for d in DAYS],
    "20230131": [int(f"{d:%Y%m%d}") for d in DAYS],
    "202301": [int(f"{d:%Y%m}") for d in DAYS],
    "years": [1950 + week for week in range(80)],
    "quarters": [float(f"{2000 + n // 4}.{n % 4 + 1}") for n in range(80)],
    "quarters of a year": [2000 + n / 4 for n in range(80)],
    "tenths of a year": [round(2000 + n / 10, 1) for n in range(80)],
    "months of a year": [2000 + n / 12 for n in range(80)],
    "seconds": [1.7e9 + 3600 * n for n in range(80)],
    "row numbers": [*range(80)],
    "booleans": [n % 2 == 0 for n in range(80)],
    "times": pd.to_datetime(pd.Series(DAYS)).tolist(),
}


@pytest.mark.parametrize("name", WRONG)
def test_dates_that_numbers_sort_wrongly_are_found(name: str) -> None:
    values, found = WRONG[name]
    assert describe_misordered(pd.Series(values)) == found
    assert describe_misordered(pd.Series(values[::-1])).startswith(found.rpartition(" ")[0])


@pytest.mark.parametrize("name", RIGHT)
def test_other_times_keep_their_order(name: str) -> None:
    assert describe_misordered(pd.Series(RIGHT[name])) == ""


def test_a_split_by_such_dates_is_refused(make_study) -> None:
    rows = "".join(f"{n % 7},{d.year}.{d.month},{n % 2}\n" for n, d in enumerate(DAYS))
    study = make_study(
        'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
        'split = { val = 0.2, time = "month" }\n',
        f"size,month,kind\n{rows}",
    )
    with pytest.raises(DataError) as caught:
        prepare(study)
    assert str(caught.value) == (
        "study.toml:13: data.split.time: column 'month' of rows.csv holds months or weeks after "
        "the year, such as 2023.1, which numbers sort wrongly; write dates as 2026-01-31, or "
        "months as 2026-01"
    )
    assert prepare(study.model_copy(update={"edition": 1})) is not None


def test_groups_that_differ_only_in_looks_are_named(make_study) -> None:
    rows = "".join(f"{n % 7},{['P', 'p'][n % 2]}{n % 20 // 2},{n % 2}\n" for n in range(60))
    study = make_study(
        'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
        'split = { val = 0.3, test = 0.2, group = "who" }\n',
        f"size,who,kind\n{rows}",
    )
    (note,) = prepare(study).notes
    assert note.startswith("column 'who' has groups 'P0' and 'p0'; 'P1' and 'p1'; ")
    assert note.endswith(
        " and 5 more differ only in case, blanks or punctuation, but count as different ones; "
        "write them alike"
    )
