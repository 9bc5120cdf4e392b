"""Rows without a value for the target are refused, or left out and counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sweeper.api import check, run
from sweeper.cli.new_study import begin
from sweeper.config import load
from sweeper.data.dataset import Dataset
from sweeper.data.prepare import prepare
from sweeper.errors import DataError
from sweeper.results.events import Event, Warned

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
DROP = 'missing_target = "drop"\n'
LINES = [f"{i % 7},{i % 2 if i % 10 else ''}" for i in range(40)]
TABLE = "\n".join(["size,kind", *LINES, ""])
COMPLETE = "\n".join(["size,kind", *(line for line in LINES if not line.endswith(",")), ""])
NOTE = "left out 4 of 40 rows, without a value for the target 'kind'"


def test_the_refusal_names_the_setting(make_study) -> None:
    with pytest.raises(DataError) as caught:
        prepare(make_study(CSV, TABLE))
    assert str(caught.value) == (
        "study.toml:11: data.path: column 'kind' of rows.csv: 4 values are missing "
        '(lines 2, 12, 22, 32); write missing_target = "drop" in [data] to leave out these rows, '
        "or fill them in"
    )


@pytest.mark.parametrize(
    "split", ["", "split.stratify = true\n", 'split = { time = "size", as_feature = true }\n']
)
def test_rows_without_a_target_are_left_out(split: str, make_study) -> None:
    expected = prepare(make_study(CSV + split, COMPLETE))
    data = prepare(make_study(CSV + DROP + split, TABLE))
    assert data.class_names == ("0", "1")
    assert (data.digest, data.notes) == (expected.digest, (NOTE,))


def test_folds_are_those_of_the_table_without_these_rows(make_study) -> None:
    def with_folds(table: str, data: str) -> Dataset:
        config = make_study(data, table)
        folds = config.study.model_copy(update={"folds": 3})
        return prepare(config.model_copy(update={"study": folds}))

    assert with_folds(TABLE, CSV + DROP).digest == with_folds(COMPLETE, CSV).digest


@pytest.mark.parametrize("source", ["parquet", "python", "npz"])
def test_every_source_leaves_them_out(source: str, make_study, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"size": range(20), "kind": [None if i == 3 else i / 2 for i in range(20)]}
    )
    expected = prepare(make_study(CSV, frame.dropna().to_csv(index=False), loss="mse"))
    frame.to_parquet(tmp_path / "rows.parquet")
    x, y = frame[["size"]].to_numpy(float), frame["kind"].to_numpy(float)
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    path = str(tmp_path / "rows.parquet")
    code = f"import pandas as pd\ndef load(): return pd.read_parquet({path!r})\n"
    (tmp_path / "rows.py").write_text(code)
    tables = {
        "parquet": CSV.replace("csv", "parquet"),
        "python": 'source = "python"\nfunction = "rows:load"\ntarget = "kind"\n',
        "npz": 'source = "npz"\npath = "rows.npz"\n',
    }
    data = prepare(make_study(tables[source] + DROP, loss="mse"))
    assert data.x_train.tolist() == expected.x_train.tolist()
    assert data.y_test.tolist() == expected.y_test.tolist()
    assert data.notes[0].startswith("left out 1 of 20 rows, without a value for the target ")


def test_a_target_without_values_is_refused(make_study) -> None:
    empty = "size,kind\n" + "1,\n" * 20
    with pytest.raises(DataError, match=r"rows.csv has no row with a value for the target 'kind'"):
        prepare(make_study(CSV + DROP, empty))


def test_places_of_other_problems_are_those_in_the_file(make_study) -> None:
    table = TABLE.replace("\n1,1\n", "\nwide,1\n", 1)
    with pytest.raises(DataError, match=r"'size' of rows.csv: 1 value is text .* \(line 3\)"):
        prepare(make_study(CSV + DROP, table))


def test_a_setting_without_effect_is_reported(make_study) -> None:
    (note,) = prepare(make_study(CSV + DROP, COMPLETE)).notes
    assert note == 'data.missing_target = "drop" leaves out no rows: all 36 have a target'


def test_validate_and_run_say_how_many(
    make_study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = make_study(CSV + DROP, TABLE)
    assert NOTE in check(study).warnings
    seen: list[Event] = []
    run(study, observer=seen.append)
    assert [event.message for event in seen if isinstance(event, Warned)].count(NOTE) == 1


def test_init_writes_the_setting(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(TABLE)
    told = begin(None, tmp_path / "study.toml", tmp_path / "rows.csv")
    assert told[2] == (
        'rows.csv: 4 of 40 rows have no target and are left out: missing_target = "drop"'
    )
    config = load(tmp_path / "study.toml")
    assert config.data.missing_target == "drop"
    assert prepare(config).class_names == ("0", "1")
