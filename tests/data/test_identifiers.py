"""Columns that number or name the rows are recognised by their names and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sweeper.cli.new_study import begin
from sweeper.config import load
from sweeper.data.identifiers import row_id_doubt, row_id_reason
from sweeper.data.prepare import prepare

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
CHANCE = np.random.default_rng(0)
SHUFFLED = CHANCE.permutation(300)
SAMPLED = np.sort(CHANCE.choice(1000, 300, replace=False))
INDEX = "looks like an old index"
NUMBER = "has a different number in every row, like an identifier"
RISING = "rises from row to row, like an identifier"
NAMED = "is named like an identifier"
TEXT = "has a different text in every row, like an identifier"


def reason(name: str, values: Any) -> str:
    return row_id_reason(name, pd.Series(values))


@pytest.mark.parametrize(
    "name",
    [
        *("Unnamed: 0", "Unnamed: 0.1", "index", "level_0", "__index_level_0__", "row_id", "rowid"),
        *(
            "rownames",
            "row.names",
            "row",
            "row number",
            "X1",
            "...1",
            "X",
            "",
            "#",
            "no",
            "Nr.",
            "ID",
        ),
        *("S.No", "Sr. No.", "obs", "record_id", "serial_no", "idx", "lfd_nr"),
    ],
)
@pytest.mark.parametrize("values", [SHUFFLED, SAMPLED, SAMPLED + 1.0], ids=["all", "some", "float"])
def test_an_old_index_is_recognised_by_name(name: str, values: Any) -> None:
    assert reason(name, values) == INDEX


def test_an_index_that_was_written_twice_repeats() -> None:
    assert reason("Unnamed: 0", [*range(100), *range(90)]) == INDEX
    assert reason("Unnamed: 3", [1, 2] * 50) == ""


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("anything", range(50), "counts the rows"),
        ("anything", range(1, 51), "counts the rows"),
        ("customerId", 10**9 + SHUFFLED * 7919, NUMBER),
        ("PassengerID", 10**9 + SHUFFLED * 7919, NUMBER),
        ("userid", 10**9 + SHUFFLED * 7919, NUMBER),
        ("order_key", [*SHUFFLED * 7919, 0], NUMBER),
        ("shuffled", 1000 + SHUFFLED, NUMBER),
        ("anything", np.arange(50.0), "counts the rows"),
        ("shuffled", 1000.0 + SHUFFLED, NUMBER),
        ("anything", range(1001, 1041), RISING),
        ("anything", np.cumsum(CHANCE.integers(1, 9, 40)) + 20_000, RISING),
        ("store_id", 5000 + 7 * SHUFFLED[:12], NUMBER),
        ("phone", 600_000_000 + SHUFFLED * 7919, NUMBER),
        ("customer_id", SHUFFLED // 5, NAMED),
        ("userid", SHUFFLED // 5, NAMED),
        ("patientID", [f"P{i // 4}" for i in range(300)], NAMED),
        ("note", [f"text {i}" for i in range(20)], TEXT),
        ("uuid", [f"{i:032x}" for i in range(99)] + [None], TEXT),
    ],
)
def test_identifiers_are_recognised(name: str, values: Any, expected: str) -> None:
    assert reason(name, values) == expected


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("temperature", CHANCE.normal(size=300)),
        ("id", CHANCE.normal(size=300)),
        ("salary", CHANCE.choice(100_000, 300, replace=False)),
        ("dose", [5, 10, 20, 40, 80, 3]),
        ("year", range(1900, 2020)),
        ("store_id", SHUFFLED % 10),
        ("store_id", SHUFFLED[:8]),
        ("dose", range(0, 200, 5)),
        ("hour of the year", range(5, 45)),
        ("income", np.cumsum(CHANCE.integers(100, 900, 40))),
        ("falling", range(60, 20, -1)),
        ("paid", 10**6 + 7919 * SHUFFLED),
        ("bid", SHUFFLED // 5),
        ("lipid", SHUFFLED // 2),
        ("lipid", SHUFFLED[:60] * 7919),
        ("dose", [0.0, 1.0, 3.0, 2.0]),
        ("x1", 3000 * SHUFFLED),
        ("name", ["Ada", "Bob", "Cleo"]),
        ("city", ["Rome", "Oslo"] * 20),
        ("sold", [True, False]),
        ("empty", [None, None]),
    ],
)
def test_measurements_and_categories_are_not(name: str, values: Any) -> None:
    assert reason(name, values) == ""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([str(i // 2) for i in range(4200)] + ["A123"], ""),  # is looked at in part
        ([chr(0xFF11 + i) * 2 for i in range(9)] * 2 + ["\uff11", "\uff12", "\uff13"] * 2, ""),
        ([*map(str, SHUFFLED // 5), " "], ""),
        ([*map(str, range(2100)), " "], NUMBER),
        ([*map(str, SHUFFLED // 5), "1.5"], ""),
    ],
    ids=["code", "digits of another width", "gap", "later gap", "fraction"],
)
def test_text_of_digits_is_read_as_numbers_only_if_all_of_it_are(
    values: list[str], expected: str
) -> None:
    assert reason("code", pd.Series(values, dtype="str")) == expected


@pytest.mark.parametrize(
    ("name", "values", "is_reported"),
    [
        ("distcod", 60_000 + CHANCE.choice(12_000, 400, replace=False), True),
        ("distcod", 60_000.0 + CHANCE.choice(12_000, 400, replace=False), True),
        ("salary", CHANCE.choice(100_000, 400, replace=False), False),
        ("enrolled", [*range(5, 404), 5], False),
        ("year", CHANCE.choice(12_000, 400, replace=False), False),
        ("shuffled", SHUFFLED, False),  # is left out
    ],
)
def test_integers_that_hardly_differ_by_chance_are_reported(
    name: str, values: Any, is_reported: bool, make_study, tmp_path: Path
) -> None:
    assert bool(row_id_doubt(name, pd.Series(values))) == is_reported
    frame = pd.DataFrame({name: values, "size": CHANCE.normal(size=len(values))})
    frame["kind"] = np.arange(len(values)) % 2
    frame.to_csv(tmp_path / "rows.csv", index=False)
    hint = f"'{name}' has a different number in every row, so it may be an identifier: add it to"
    lines = begin(None, tmp_path / "of_init.toml", tmp_path / "rows.csv")
    assert any(hint in line for line in lines) == is_reported
    notes = prepare(make_study(CSV)).notes
    assert any(note.startswith(f"column {hint}") for note in notes) == is_reported


def test_init_leaves_them_out_and_says_why(tmp_path: Path) -> None:
    kind = SHUFFLED % 2
    frame = pd.DataFrame({"Unnamed: 0": SHUFFLED, "size": CHANCE.normal(size=300), "kind": kind})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    told = begin(None, tmp_path / "study.toml", tmp_path / "rows.csv")
    assert told[2] == f"rows.csv: 'Unnamed: 0' is left out: it {INDEX}"
    assert load(tmp_path / "study.toml").canonical()["data"]["drop"] == ["Unnamed: 0"]
    lines = (tmp_path / "study.toml").read_text().splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("drop "))
    assert lines[place - 1] == f"# 'Unnamed: 0' {INDEX}"


def test_a_study_that_learns_from_one_says_so(make_study) -> None:
    table = "row_id,size,kind\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in SHUFFLED)
    expected = (
        f"column 'row_id' {INDEX}: add it to data.drop, unless the model should learn from it"
    )
    assert prepare(make_study(CSV, table)).notes == (expected,)
    assert prepare(make_study(CSV + 'drop = ["row_id"]\n')).notes == ()
    split = 'split = { time = "row_id" }\n'
    assert prepare(make_study(CSV + split)).notes == ()
