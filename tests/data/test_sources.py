"""The same rows from a CSV file, Parquet, an .npz file and a function are the same dataset."""

from __future__ import annotations

from decimal import Decimal
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sweeper.api import run
from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.data.guess import guess
from sweeper.data.prepare import prepare
from sweeper.errors import DataError, StudyError

TABLE = "size,colour,weight,price\n" + "".join(
    f"{i % 7}.5,{'red' if i % 3 else 'blue'},{i * i % 11},{i}.25\n" for i in range(20)
)
FRAME = pd.read_csv(StringIO(TABLE))
NUMBERS = FRAME[["size", "weight"]].to_numpy()
CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "price"\n'
PARQUET = CSV.replace("csv", "parquet")
NPZ = 'source = "npz"\npath = "rows.npz"\n'
PYTHON = 'source = "python"\nfunction = "rows:load"\n'


def assert_same(actual: Dataset, expected: Dataset) -> None:
    """Whether programs train on the same data, whatever the columns are called."""
    for part in ("x_train", "y_train", "x_val", "y_val", "x_test", "y_test"):
        np.testing.assert_array_equal(getattr(actual, part), getattr(expected, part), strict=True)


def refusal(config: StudyConfig) -> list[str]:
    with pytest.raises(DataError) as caught:
        prepare(config)
    return str(caught.value).splitlines()


@pytest.fixture
def from_csv(make_study) -> Dataset:
    return prepare(make_study(CSV, TABLE, loss="mse"))


@pytest.fixture
def numbers(make_study) -> Dataset:
    return prepare(make_study(CSV + 'drop = ["colour"]\n', TABLE, loss="mse"))


def test_parquet_rows_are_those_of_csv(make_study, tmp_path: Path, from_csv: Dataset) -> None:
    FRAME.to_parquet(tmp_path / "rows.parquet")

    dataset = prepare(make_study(PARQUET, loss="mse"))
    assert dataset.digest == from_csv.digest
    assert dataset.feature_names == ("size", "weight", "colour_blue", "colour_red")


def test_columns_with_numeric_names_are_read(make_study, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3))
    pd.DataFrame(rows).to_parquet(tmp_path / "rows.parquet")

    dataset = prepare(make_study(PARQUET.replace('"price"', '"2"'), loss="mse"))

    assert dataset.feature_names == ("0", "1")
    assert guess(tmp_path / "rows.parquet").target == "2"


@pytest.mark.parametrize("of_more", [False, True])
def test_an_index_that_pandas_wrote_to_csv_is_not_a_column(
    make_study, tmp_path: Path, from_csv: Dataset, of_more: bool
) -> None:
    rows = FRAME.set_index(pd.Index(range(40, 0, -2))) if of_more else FRAME
    rows.to_csv(tmp_path / "rows.csv")

    assert prepare(make_study(CSV, loss="mse")).digest == from_csv.digest


def test_a_pattern_reads_all_its_files_in_order_of_name(
    make_study, tmp_path: Path, from_csv: Dataset
) -> None:
    (tmp_path / "parts").mkdir()
    FRAME.iloc[:4].to_parquet(tmp_path / "parts" / "a.parquet")
    FRAME.iloc[4:].to_parquet(tmp_path / "parts" / "b.parquet")

    config = make_study(PARQUET.replace("rows", "parts/*"), loss="mse")
    assert prepare(config).digest == from_csv.digest


def test_an_index_is_a_column_only_if_it_is_named(
    make_study, tmp_path: Path, from_csv: Dataset
) -> None:
    indexed = FRAME.assign(day=pd.date_range("2026-01-01", periods=20)).set_index("day")
    indexed.to_parquet(tmp_path / "rows.parquet")
    assert prepare(make_study(PARQUET, loss="mse")).digest == from_csv.digest

    by_time = prepare(make_study(PARQUET + 'split = { time = "day" }\n', loss="mse"))
    np.testing.assert_allclose(
        by_time.y_test * by_time.y_scale + by_time.y_mean, FRAME[["price"]].to_numpy()[18:]
    )


def test_columns_of_every_type_are_numbers_or_categories(make_study, tmp_path: Path) -> None:
    n = 12
    frame = pd.DataFrame(
        {
            "flag": pd.array([True, False, None] * 4, "boolean"),
            "count": pd.array([1, None, 3, 4] * 3, "Int64"),
            "plain": np.arange(n, dtype="uint8"),
            "half": np.arange(n, dtype="float32"),
            "money": [Decimal("1.5"), None] * 6,
            "level": pd.Categorical(["1", "2", "3"] * 4),
            "name": pd.array(["a", None, "b"] * 4, "string[pyarrow]"),
            "target": np.arange(n, dtype=float),
        }
    )
    frame.to_parquet(tmp_path / "rows.parquet")
    study = PARQUET.replace("price", "target") + 'impute = { constant = -1 }\nscale = "none"\n'
    dataset = prepare(make_study(study, loss="mse"))

    names = ["flag", "count", "plain", "half", "money"]
    assert dataset.feature_names[:5] == tuple(names)
    assert set(dataset.feature_names[5:]) == {
        *("level_1", "level_2", "level_3"),
        *("name_a", "name_b", "name_nan"),
    }
    x = np.vstack([dataset.x_train, dataset.x_val, dataset.x_test])
    y = np.vstack([dataset.y_train, dataset.y_val, dataset.y_test])[:, 0]
    filled = frame[names].astype("Float64").fillna(-1).to_numpy(float)
    np.testing.assert_array_equal(x[np.argsort(y), :5], filled)


def test_invalid_parquet_is_refused(make_study, tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_text("size\n1\n")
    (line,) = refusal(make_study(PARQUET, loss="mse"))
    assert line.startswith("study.toml:11: data.path: rows.parquet cannot be read as Parquet: ")
    assert line.endswith("; write it again")


def test_files_with_other_columns_are_refused(make_study, tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "a.parquet")
    FRAME.drop(columns="size").to_parquet(tmp_path / "b.parquet")

    assert refusal(make_study(PARQUET.replace("rows", "*"), loss="mse")) == [
        "study.toml:11: data.path: b.parquet and a.parquet do not both have 'size'; use files "
        "with the same columns"
    ]
    assert refusal(make_study(PARQUET.replace("rows", "c*"), loss="mse"))[0].startswith(
        f"study.toml:11: data.path: no file 'c*.parquet' in {tmp_path} or "
    )


def test_columns_that_cannot_be_features_are_refused(make_study, tmp_path: Path) -> None:
    n = len(FRAME)
    strange = {
        "day": pd.date_range("2026-01-01", periods=n),
        "list": [[1, 2]] * n,
        "none": [None] * n,
        "bytes": [b"a"] * n,
    }
    FRAME.assign(**strange).to_parquet(tmp_path / "rows.parquet")
    column = "study.toml:11: data.path: column"

    assert refusal(make_study(PARQUET, loss="mse")) == [
        f"{column} 'day' of rows.parquet holds times; "
        "write numbers or text or add 'day' to data.drop",
        f"{column} 'list' of rows.parquet holds values of type ndarray; "
        "write numbers or text or add 'list' to data.drop",
        f"{column} 'none' of rows.parquet has no value in any row; "
        "fix the file or add 'none' to data.drop",
        f"{column} 'bytes' of rows.parquet holds values of type bytes; "
        "write numbers or text or add 'bytes' to data.drop",
    ]
    drop = f"drop = {list(strange)}\n"
    assert prepare(make_study(PARQUET + drop, loss="mse")).n_features == 4


def test_npz_rows_are_those_of_csv(make_study, tmp_path: Path, numbers: Dataset) -> None:
    np.savez(tmp_path / "rows.npz", x=NUMBERS, y=FRAME["price"])
    dataset = prepare(make_study(NPZ, loss="mse"))
    assert_same(dataset, numbers)
    assert dataset.feature_names == ("x_0", "x_1")

    np.savez(tmp_path / "rows.npz", inputs=NUMBERS.reshape(20, 1, 2), price=FRAME[["price"]])
    named = NPZ + 'x = "inputs"\ny = "price"\n'
    assert_same(prepare(make_study(named, loss="mse")), numbers)


def test_npz_classes_may_be_text(make_study, tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=NUMBERS, y=FRAME["colour"].to_numpy(str))
    dataset = prepare(make_study(NPZ))
    assert (dataset.class_names, dataset.n_features) == (("blue", "red"), 2)


def test_arrays_that_are_not_rows_are_refused(make_study, tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    study = make_study(NPZ + 'y = "w"\nsplit = { group = "patient" }\n', loss="mse")

    np.savez(path, x=NUMBERS, weight=NUMBERS)
    assert refusal(study) == [
        "study.toml:12: data.y: rows.npz has no array 'w'; its arrays are x and weight",
        "study.toml:13: data.split.group: rows.npz has no array 'patient'; "
        "its arrays are x and weight",
    ]
    np.savez(path, x=NUMBERS, w=np.arange(7), patient=np.arange(20))
    assert refusal(study) == [
        "study.toml:11: data.path: rows.npz: 'x' has 20 rows, 'w' has 7 rows and 'patient' has "
        "20 rows; give each array one element per row"
    ]
    np.savez(path, x=NUMBERS, w=np.arange(20), patient=NUMBERS)
    assert refusal(study) == [
        "study.toml:13: data.split.group: 'patient' has 2 columns; name an array of one axis"
    ]
    np.savez(path, x=NUMBERS, w=np.empty((20, 0)), patient=np.arange(20))
    assert refusal(study) == [
        "study.toml:11: data.path: rows.npz: 'w' has no columns; "
        "give each array at least one column"
    ]
    np.savez(path, x=NUMBERS, w=np.array([{}] * 20), patient=np.arange(20))
    assert refusal(study)[0].startswith(
        "study.toml:11: data.path: rows.npz is not an .npz file of "
    )
    path.write_bytes(b"PK\x03\x04")
    assert refusal(study)[0].endswith("; write it with numpy.savez, without objects")


FUNCTION = f"""
import io
import numpy as np
import pandas as pd

print("importing")
FRAME = pd.read_csv(io.StringIO({TABLE!r}))
X = FRAME[["size", "weight"]]

def load(shift=0):
    print("loading")
    return RETURNED
"""


@pytest.mark.parametrize(
    ("returned", "target"),
    [
        ("X.to_numpy(), FRAME['price'].to_numpy()", "y"),
        ("X, FRAME[['price']]", "y"),
        ("(X, list(FRAME['price']))", "y"),
        ("FRAME.drop(columns='colour')", "price"),
        ("FRAME.drop(columns='colour').set_index('price')", "price"),
        ("dict(size=FRAME['size'], weight=FRAME['weight'].to_numpy(), price=FRAME.price)", "price"),
    ],
)
def test_rows_of_a_function_are_those_of_csv(
    make_study, tmp_path: Path, numbers: Dataset, capsys, returned: str, target: str
) -> None:
    (tmp_path / "rows.py").write_text(FUNCTION.replace("RETURNED", returned))
    dataset = prepare(make_study(PYTHON + f'target = "{target}"\n', loss="mse"))

    assert_same(dataset, numbers)
    # standard output belongs to the program
    assert capsys.readouterr() == ("", "importing\nloading\n")


@pytest.mark.parametrize(
    ("returned", "target", "indices"),
    [
        ("FRAME.set_index('colour')", "price", ["colour"]),
        ("FRAME.set_index(['colour', 'price'])", "price", ["colour"]),
        ("FRAME.set_index('price')", "price", []),
        ("FRAME", "price", []),
        ("X.set_index(FRAME['colour']), FRAME.set_index('colour')['price']", "y", ["colour"]),
        ("dict(x=X.set_index(FRAME['colour']), y=FRAME['price'].tolist())", "y", ["colour"]),
    ],
)
def test_an_index_that_a_function_returns_is_reported_as_not_read(
    make_study, tmp_path: Path, returned: str, target: str, indices: list[str]
) -> None:
    (tmp_path / "rows.py").write_text(FUNCTION.replace("RETURNED", returned))
    dataset = prepare(make_study(PYTHON + f'target = "{target}"\n', loss="mse"))
    assert [note.partition(" returned")[0] for note in dataset.notes if "index" in note] == [
        f"the index '{name}'" for name in indices
    ]


@pytest.mark.parametrize(
    "returned", ["X + np.random.random(), FRAME['price']", "X + DRAWN, FRAME['price']"]
)
def test_a_function_that_returns_different_rows_each_time_is_refused(
    make_study, tmp_path: Path, returned: str
) -> None:
    text = FUNCTION.replace("RETURNED", returned)
    (tmp_path / "rows.py").write_text(text + "\n\nDRAWN = np.random.random()\n")

    (problem,) = refusal(make_study(PYTHON, loss="mse"))
    assert "'rows:load' returns different rows each time it is imported and called" in problem


def test_a_study_is_not_resumed_with_other_rows_of_a_slow_function(
    make_study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeper.data.user_rows._QUICK_S", 0.0)  # nothing is called twice
    monkeypatch.chdir(tmp_path)
    text = FUNCTION.replace("RETURNED", "X + np.random.random(), FRAME['price']")
    (tmp_path / "rows.py").write_text(text)
    config = make_study(PYTHON, loss="mse")
    run(config, observer=lambda event: None)

    with pytest.raises(StudyError) as caught:
        run(config, observer=lambda event: None)

    found = "data.function: 'rows:load' does not return the same rows as when the study in"
    assert found in str(caught.value)


def test_a_function_with_a_fixed_seed_is_read(make_study, tmp_path: Path) -> None:
    drawn = "X + np.random.default_rng(0).random(X.shape), FRAME['price']"
    (tmp_path / "rows.py").write_text(FUNCTION.replace("RETURNED", drawn))
    assert prepare(make_study(PYTHON, loss="mse")).n_features == 2


@pytest.mark.parametrize(
    ("returned", "pair"),
    [
        ("X, FRAME['price'][::-1]", ("x", "y")),
        ("FRAME[['size']], FRAME[['price']].set_index(FRAME['weight'])", ("x", "y")),
        ("X.set_index(pd.Index(range(1, 21))), FRAME['price']", ("x", "y")),
        (
            "dict(size=FRAME['size'], w=list(FRAME['weight']), y=FRAME['price'][::-1])",
            ("size", "y"),
        ),
    ],
)
def test_parts_with_unequal_indices_are_refused(
    make_study, tmp_path: Path, returned: str, pair: tuple[str, str]
) -> None:
    (tmp_path / "rows.py").write_text(FUNCTION.replace("RETURNED", returned))
    one, other = pair
    data = PYTHON + ('target = "y"\n' if one == "size" else "")
    assert refusal(make_study(data, loss="mse")) == [
        f"study.toml:11: data.function: '{one}' and '{other}' returned by 'rows:load' have "
        f"different indices; return {other}.loc[{one}.index], or reset_index(drop=True) of both "
        "if their rows belong together in order"
    ]


def test_parts_with_the_same_unsorted_index_are_read(make_study, tmp_path: Path) -> None:
    returned = "X[::-1], FRAME['price'][::-1]"
    (tmp_path / "rows.py").write_text(FUNCTION.replace("RETURNED", returned))
    assert prepare(make_study(PYTHON, loss="mse")).n_features == 2


def test_a_function_is_given_its_arguments(make_study, tmp_path: Path, numbers: Dataset) -> None:
    text = FUNCTION.replace("RETURNED", "X, FRAME['price'] + shift")
    (tmp_path / "rows.py").write_text(text)
    dataset = prepare(make_study(PYTHON + "args = { shift = 10 }\n", loss="mse"))
    assert dataset.y_mean[0] == pytest.approx(numbers.y_mean[0] + 10)

    assert refusal(make_study(PYTHON + "args = { shfit = 10 }\n", loss="mse")) == [
        "study.toml:12: data.args.shfit: 'rows:load' has no argument 'shfit'; did you mean "
        "'data.args.shift'?"
    ]


def test_declared_categories_of_numbers_are_categories(make_study, tmp_path: Path) -> None:
    returned = "FRAME.assign(colour=FRAME['weight'].astype('category'))"
    (tmp_path / "rows.py").write_text(FUNCTION.replace("RETURNED", returned))
    dataset = prepare(make_study(PYTHON + 'target = "price"\n', loss="mse"))

    levels = [f"colour_{weight}" for weight in sorted(FRAME["weight"].unique())]
    assert dataset.feature_names == ("size", "weight", *levels)


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        ("3", "'rows:load' returns int; return (x, y), a DataFrame or a dict of arrays"),
        ("FRAME[:0]", "'rows:load' returns no rows, or no columns; return at least one"),
        (
            "1 / 0",
            "'rows:load' raised ZeroDivisionError: division by zero (rows.py, line 12); "
            "fix the function",
        ),
        (
            "X, FRAME['price'][:9]",
            "the result of 'rows:load': 'size' has 20 rows, 'weight' has 20 rows and 'y' has 9 "
            "rows; give each array one element per row",
        ),
        (
            "dict(a=X, b=X, y=FRAME['price'])",
            "the result of 'rows:load' has several columns 'size' and 'weight'; give each column "
            "its own name",
        ),
        (
            "[[1, 2], [3]], [1, 2]",
            "'x' returned by 'rows:load' is not an array (setting an array element with a "
            "sequence. The requested array has an inhomogeneous shape after 1 dimensions. The "
            "detected shape was (2,) + inhomogeneous part.); return arrays, or lists whose rows "
            "have the same length",
        ),
        (
            "__import__('scipy.sparse').sparse.csr_matrix(X), FRAME['price']",
            "'x' returned by 'rows:load' is a sparse csr_matrix; return x.toarray()",
        ),
        (
            "dict(x=__import__('scipy.sparse').sparse.coo_array(X), y=FRAME['price'])",
            "'x' returned by 'rows:load' is a sparse coo_array; return x.toarray()",
        ),
        (
            "X.to_records(), FRAME['price']",
            "'x' returned by 'rows:load' is a structured array; return pandas.DataFrame(x)",
        ),
        (
            "X, np.ma.array(FRAME[['price']].to_records())",
            "'y' returned by 'rows:load' is a structured array; return pandas.DataFrame(y)",
        ),
        (
            "X, FRAME[[]]",
            "the result of 'rows:load': 'y' has no columns; give each array at least one column",
        ),
        (
            "X.to_numpy(), np.ma.masked_less(FRAME['price'].to_numpy(), 1)",
            "column 'y' of the result of 'rows:load': 1 value is missing (row 1); write "
            'missing_target = "drop" in [data] to leave out these rows, or fill them in',
        ),
        (
            "X, FRAME['price'].where(FRAME['price'] > 1)",
            "column 'y' of the result of 'rows:load': 1 value is missing (row 1); write "
            'missing_target = "drop" in [data] to leave out these rows, or fill them in',
        ),
    ],
)
def test_invalid_results_of_a_function_are_refused(
    make_study, tmp_path: Path, returned: str, problem: str
) -> None:
    (tmp_path / "rows.py").write_text(FUNCTION.replace("RETURNED", returned))

    assert refusal(make_study(PYTHON, loss="mse")) == [f"study.toml:11: data.function: {problem}"]


def test_masked_values_are_missing(make_study, tmp_path: Path) -> None:
    colour = "np.ma.masked_equal(FRAME['colour'].to_numpy(str), 'red')"
    weight = "np.ma.masked_greater(FRAME['weight'].to_numpy(), 4)"
    returned = f"dict(weight={weight}, colour={colour}, y=FRAME['price'])"
    (tmp_path / "rows.py").write_text(FUNCTION.replace("RETURNED", returned))
    masked = prepare(make_study(PYTHON + 'impute = "median"\n', loss="mse"))

    table = FRAME[["weight", "colour", "price"]].assign(
        weight=FRAME["weight"].where(FRAME["weight"] <= 4),
        colour=FRAME["colour"].where(FRAME["colour"] != "red"),
    )
    data = CSV + 'impute = "median"\n'
    assert_same(masked, prepare(make_study(data, table.to_csv(index=False), loss="mse")))


def test_a_missing_function_is_refused(make_study, tmp_path: Path) -> None:
    assert refusal(make_study(PYTHON.replace("rows", "raws"), loss="mse")) == [
        f"study.toml:11: data.function: no module 'raws' in {tmp_path} or installed; write the "
        "name of a file next to this one, without .py"
    ]
    (tmp_path / "rows.py").write_text("def loads(n): ...\n")
    assert refusal(make_study(PYTHON, loss="mse")) == [
        "study.toml:11: data.function: no function 'load' in the module 'rows'; "
        "did you mean 'rows:loads'?"
    ]
    assert refusal(make_study(PYTHON.replace("load", "loads"), loss="mse")) == [
        "study.toml:9: data.args.n: missing, but 'rows:loads' needs it; write n = ..."
    ]


def test_several_targets_are_scaled_separately(make_study) -> None:
    data = CSV.replace('"price"', '["price", "weight"]')
    dataset = prepare(make_study(data, TABLE, loss="mse"))

    assert (dataset.out_size, dataset.n_features) == (2, 3)
    for place, name in enumerate(("price", "weight")):
        alone = prepare(make_study(CSV.replace("price", name), TABLE, loss="mse"))
        np.testing.assert_array_equal(dataset.y_val[:, [place]], alone.y_val)
        assert (dataset.y_mean[place],) == alone.y_mean
        assert (dataset.y_scale[place],) == alone.y_scale


def test_several_classes_per_row_are_refused(make_study) -> None:
    found = "study.toml:12: data.target: cross_entropy predicts one column, not 2 targets"
    for columns, hint in (
        ('["price", "weight"]', "write one, or train.loss = 'mse'"),
        ('["colour", "weight"]', "write one"),
    ):
        data = CSV.replace('"price"', columns)
        assert refusal(make_study(data, TABLE)) == [f"{found}; {hint}"]
