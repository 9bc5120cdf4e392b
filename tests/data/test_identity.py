"""A value is the same category, and a number the same number, whatever its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeper.data.columns import cells, plain
from sweeper.data.identity import (
    MISSING_WORDS,
    UNKNOWN,
    KnownValues,
    NotNumbersError,
    floats,
    floats_of_rows,
    in_order,
    is_missing,
    values_of,
    with_known,
    written,
)
from sweeper.data.prepare import prepare
from sweeper.data.transform import Category, Transform
from sweeper.errors import DataError, UnfitRowsError
from tests.data.conftest import MakeStudy

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
PYTHON = 'source = "python"\nfunction = "rows:load"\ntarget = "kind"\n'

Form = Callable[[list[Any]], Any]


def masked(name: str) -> Form:
    return lambda values: pd.Series(values).astype(name)


def arrow(kind: Any) -> Form:
    return lambda values: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values, kind)))


def text(values: list[Any]) -> pd.Series[Any]:
    return pd.Series([written(value) for value in values])


ANY: Mapping[str, Form] = {
    "object": lambda values: pd.Series(values, dtype=object),
    "text": text,
    "category": lambda values: pd.Series(pd.Categorical(values)),
    "category of text": lambda values: text(values).astype("category"),
    "string": lambda values: text(values).astype("string"),
    "string[pyarrow]": lambda values: text(values).astype("string[pyarrow]"),
    "large_string": lambda values: arrow(pa.large_string())([written(v) for v in values]),
    "dictionary": lambda values: pd.Series(
        pd.arrays.ArrowExtensionArray(pa.array(values).dictionary_encode())
    ),
    "list": lambda values: values,
    "decimal": lambda values: pd.Series([Decimal(written(value)) for value in values]),
    "decimal128": lambda values: arrow(pa.decimal128(20, 3))([Decimal(written(v)) for v in values]),
    "polars": lambda values: pl.Series(values),
    "polars text": lambda values: pl.Series([written(value) for value in values]),
}
INTEGERS: Mapping[str, Form] = {
    **{name: masked(name) for name in ("int16", "uint32", "int64", "uint64", "Int32", "UInt64")},
    **{name: masked(name) for name in ("float16", "float32", "float64", "Float32", "Float64")},
    "int64[pyarrow]": arrow(pa.int64()),
    "float32[pyarrow]": arrow(pa.float32()),
    "longdouble": lambda values: np.array(values, np.longdouble),
    "text of floats": lambda values: pd.Series([f"{value}.0" for value in values]),
    "text with blanks": lambda values: pd.Series([f" {value} " for value in values]),
    "float with a gap": lambda values: pd.Series([*values, None])[:-1],
    **ANY,
}
FLOATS: Mapping[str, Form] = {
    **{name: masked(name) for name in ("float16", "float32", "float64", "Float32", "Float64")},
    "float32 as float64": lambda values: np.array(values, np.float32).astype(np.float64),
    "halffloat[pyarrow]": arrow(pa.float16()),
    "float32[pyarrow]": arrow(pa.float32()),
    "float64[pyarrow]": arrow(pa.float64()),
    "polars Float32": lambda values: pl.Series(values, dtype=pl.Float32),
    "category of float32": lambda values: pd.Series(pd.Categorical(np.array(values, np.float32))),
    **ANY,
}
TRUTHS: Mapping[str, Form] = {
    "bool": masked("bool"),
    "boolean": masked("boolean"),
    "bool[pyarrow]": arrow(pa.bool_()),
    "numbers": lambda values: np.array(values, float),
    "lower case": lambda values: pd.Series([str(value).lower() for value in values]),
    **{name: ANY[name] for name in ("object", "text", "category", "string", "list", "polars")},
}
KINDS = {"integers": ([900, 7, 12], INTEGERS), "floats": ([2.5, 0.1, 0.7], FLOATS)}
KINDS["booleans"] = ([True, False, True], TRUTHS)


def known_of(column: Any) -> list[Any]:
    """The values of a column of categories, as training keeps them."""
    frame, _ = plain(pd.DataFrame({"code": column}), ["code"])
    return in_order(frame["code"].dropna().unique().tolist())


def places(known: KnownValues, column: Any) -> list[int]:
    return known.places(values_of(cells(column) if hasattr(column, "iloc") else column))[0].tolist()


@pytest.mark.parametrize(
    ("kind", "trained"), [(kind, form) for kind, (_, forms) in KINDS.items() for form in forms]
)
def test_a_value_has_the_same_index_in_any_type(kind: str, trained: str) -> None:
    values, forms = KINDS[kind]
    column = forms[trained](values)
    known = KnownValues(known_of(column.to_numpy() if isinstance(column, pl.Series) else column))
    expected = [sorted(set(values)).index(value) for value in values]
    others = [form for form in forms if not is_of_other_words(kind, trained, form)]

    found = {form: places(known, forms[form](values)) for form in others}

    assert found == dict.fromkeys(others, expected)


def is_of_other_words(kind: str, trained: str, given: str) -> bool:
    """Whether no equal text represents a boolean: numbers, and words in other case."""
    words = [form for form in ("text", "string", "lower case", "numbers") if kind == "booleans"]
    is_same = {trained, given} <= {"text", "string"} or trained == given
    return {trained, given} <= {*words} and not is_same


@pytest.mark.parametrize(
    ("known", "new", "place"),
    [
        (["01234", "1234"], "01234", 0),
        (["01234", "1234"], 1234, 1),
        (["01234", "5678"], 1234, 0),
        (["1234", "5678"], "01234", UNKNOWN),
        ([1234, 5678], "01234", UNKNOWN),
        (["1234", "1234.0"], "1234.0", 1),
        (["1234.0", "1234.00"], 1234, UNKNOWN),
        (["1E5", "2E7"], 100000.0, 0),
        (["1E5", "2E7"], "100000", UNKNOWN),
        (["K1A", "None"], "None", 1),
        (["K1A"], "NA", None),
        (["K1A"], pd.NA, None),
        (["K1A"], pd.NaT, None),
        (["K1A"], Decimal("nan"), None),
        (["2026-01-31", "2026-02-01"], date(2026, 2, 1), 1),
        (["2026-01-31", "2026-02-01"], pd.Timestamp("2026-01-31"), 0),
        (["2026-01-31", "2026-02-01"], np.datetime64("2026-01-31", "ns"), 0),
        (["2026-01-31T10:00:00"], pd.Timestamp("2026-01-31 10:00"), 0),
        (["2026-01-31T10:00:00"], np.datetime64("2026-01-31T10:00", "ns"), 0),
        (["2026-01-31 10:00:00"], np.datetime64("2026-01-31T10:00", "s"), 0),
        (["2026-01-31 10:00"], np.datetime64("2026-01-31T10:00", "ns"), 0),
        (["2026-01-31T10:00"], np.datetime64("2026-01-31T10:00", "us"), 0),
        (["2026-01-31 10:00:00.120000"], np.datetime64("2026-01-31T10:00:00.12", "ns"), 0),
        (["2026-01-31 10:00:00.123456789"], np.datetime64("2026-01-31T10:00:00.123456789"), 0),
        ([2**60, 2**60 + 1], str(2**60 + 1), 1),
        ([2**60, 2**60 + 1], float(2**60), 0),
        ([16777217], np.float32(16777216), UNKNOWN),
        (["yes", "Yes"], "YES", UNKNOWN),
        ([0, 1], True, 1),
        (["TRUE", "FALSE"], False, 1),
        (["TRUE", "maybe"], "true", UNKNOWN),
        (["True", "False"], "true", 0),
        (["True", "False", None], "FALSE", 1),
        (["True", "true", "False"], "TRUE", UNKNOWN),
        ([0.5, 1.5], Decimal("1.50"), 1),
        (["a"], b"a", UNKNOWN),
        (["a"], np.str_("a"), 0),
    ],
)
def test_text_is_compared_as_it_is_written(known: list[Any], new: Any, place: int | None) -> None:
    assert KnownValues(known, words=MISSING_WORDS).place(new) == place


def test_studies_of_edition_1_read_text_as_numbers() -> None:
    assert KnownValues([1234, 5678], lenient=True).place("01234") == 0


def test_a_missing_value_is_the_fill_or_a_category_of_its_own() -> None:
    column = ["a", None, "NA"]
    for known, expected in (
        (KnownValues(["a", None]), [0, 1, UNKNOWN]),
        (KnownValues(["a", None], words=["NA"]), [0, 1, 1]),
        (KnownValues(["a", "b"], "b", ["NA"]), [0, 1, 1]),
    ):
        assert known.places(column)[0].tolist() == expected


LARGE = 2**53 + 1
EXACT: Mapping[str, Any] = {
    "int": np.array([1, 2]),
    "Int64 with a gap": pd.Series([1, None], dtype="Int64"),
    "uint64": np.array([2**63, 2], np.uint64),
    "decimal128": pd.Series(
        pd.arrays.ArrowExtensionArray(pa.array([Decimal("0.01"), None], pa.decimal128(9, 2)))
    ),
    "fraction": [Fraction(1, 2), 2],
    "text": ["1.50", " 2 "],
    "bool": np.array([True, False]),
    "float16": np.array([0.5, 2], np.float16),
    "longdouble": np.array([0.5, 2], np.longdouble),
    "polars": pl.Series([1, None]),
}
CHANGED: Mapping[str, Any] = {
    "int64": np.array([1, LARGE]),
    "uint64": np.array([1, 2**64 - 1], np.uint64),
    "Int64 with a gap": pd.Series([None, LARGE], dtype="Int64"),
    "int64[pyarrow] with a gap": arrow(pa.int64())([None, LARGE]),
    "list": [0.5, LARGE],
    "text": ["1", str(LARGE)],
    "decimal": [Decimal(1), Decimal("0.12345678901234567890")],
    "fraction": [Fraction(1, 2), Fraction(1, 3)],
    "more than 64 bits": [1, 10**400],
    "complex": np.array([1, 2j]),
    "duration": np.array([1, 2], "m8[s]"),
    "durations": [1, timedelta(seconds=1)],
    "datetime": np.array(["NaT", "2026-01-31"], "M8[D]"),
    "date": [1, date(2026, 1, 31)],
    "bytes": np.array([b"1", b"2"]),
    "words": ["1", "one"],
    "underscores": ["1", "1_000"],
    "list of lists": [1, [2]],
    "polars with a gap": pl.Series([None, LARGE]),
    "polars Duration": pl.Series([None, timedelta(seconds=1)]),
}


def numbers(column: Any) -> np.ndarray:
    return floats(cells(column) if hasattr(column, "iloc") else column)


@pytest.mark.parametrize("kind", EXACT)
def test_numbers_are_the_same_as_floats(kind: str) -> None:
    values = values_of(EXACT[kind])

    for found, value in zip(numbers(EXACT[kind]).tolist(), values, strict=True):
        if is_missing(value):
            assert np.isnan(found)
        else:
            assert found == (float(value) if isinstance(value, str | Decimal) else value)


@pytest.mark.parametrize("kind", CHANGED)
def test_numbers_that_a_float_would_change_are_refused(kind: str) -> None:
    with pytest.raises(NotNumbersError) as refusal:
        numbers(CHANGED[kind])

    assert 1 in refusal.value.rows


def rows_of(values: list[str], head: str = "code") -> str:
    """A CSV file in which `kind` is predicted from `size` and a column of `values`."""
    lines = [f"{v},{i}.5,{'ab'[i % 2]}" for i, v in enumerate(values * (36 // len(values)))]
    return "\n".join([f"{head},size,kind", *lines, ""])


def codes_of(transform: Mapping[str, Any]) -> list[Any]:
    (category,) = transform["categories"]
    return [*category["values"]]


@pytest.mark.parametrize(
    ("values", "known"),
    [
        (["01234", "1234", "5678"], ["01234", "1234", "5678"]),
        (["2", "10", "1"], [1, 2, 10]),
        (["2", "10", "1.0"], [1.0, 2.0, 10.0]),
        (["1E5", "100000", "7"], ["7", "100000", "1E5"]),
        (["1234", "", "5678"], [1234.0, 5678.0, None]),
        (
            ["9007199254740993", "", "9007199254740992"],
            ["9007199254740992", "9007199254740993", None],
        ),
        (["True", "False"], [False, True]),
        (["1234", "K1A", "1234.0"], ["1234", "1234.0", "K1A"]),
        (["None", "EU", "NA"], ["EU", None]),
        (["0.1", "1e-05", "2"], [1e-05, 0.1, 2.0]),
    ],
)
def test_a_category_of_a_csv_file_is_read_as_written(
    make_study: MakeStudy, values: list[str], known: list[Any]
) -> None:
    data = CSV + 'categorical_columns = ["code"]\nimpute = "median"\n'
    dataset = prepare(make_study(data, rows_of(values)))

    assert codes_of(dataset.transform) == known
    names = ["nan" if value is None else written(value) for value in known]
    assert dataset.feature_names == ("size", *(f"code_{name}" for name in names))


def test_classes_of_a_csv_file_are_read_as_written(make_study: MakeStudy) -> None:
    data = CSV.replace("kind", "code") + 'drop = ["kind"]\n'

    def classes(*values: str) -> tuple[Any, ...]:
        dataset = prepare(make_study(data, rows_of([*values])))
        assert dataset.class_names == tuple(map(written, dataset.transform["classes"]))
        return dataset.transform["classes"]

    assert classes("01", "1", "10", "2") == ("01", "1", "2", "10")
    assert classes("10", "9") == (9, 10)
    assert classes("9007199254740993", "9007199254740992") == (2**53, 2**53 + 1)
    big = ("123456789012345678901", "123456789012345678902")
    assert classes(*big) == big


def test_words_for_missing_values_can_be_set(make_study: MakeStudy) -> None:
    table = rows_of(["None", "EU", "NA", ""])
    data = CSV + 'impute = "median"\n'
    usual = prepare(make_study(data, table))
    kept = prepare(make_study(data + 'missing_values = ["", "NA"]\n', table))

    assert codes_of(usual.transform) == ["EU", None]
    assert codes_of(kept.transform) == ["EU", "None", None]
    assert [column.words for column in usual.columns] == [{"None": 9, "NA": 9}, {}, {}]
    assert [column.words for column in kept.columns] == [{"NA": 9}, {}, {}]
    none = prepare(make_study(data + "missing_values = []\n", table))
    assert codes_of(none.transform) == ["", "EU", "NA", "None"]


def test_the_refusal_of_missing_values_names_their_words(make_study: MakeStudy) -> None:
    table = rows_of(["None", "EU", "7", ""])
    with pytest.raises(DataError) as refusal:
        prepare(make_study(CSV, table))
    (line,) = str(refusal.value).splitlines()
    assert "18 values are missing, 9 of them written 'None' (lines 2, 5, 6, " in line
    assert 'write missing_values = [""] to keep words as text, or write impute = ' in line

    numbers = rows_of(["NA", "7", "8"])
    with pytest.raises(DataError) as refusal:
        prepare(make_study(CSV, numbers))
    assert "12 values are missing, 12 of them written 'NA' (lines" in str(refusal.value)
    assert "missing_values" not in str(refusal.value)


def test_pandas_reads_the_same_words_as_missing_values(tmp_path: Any) -> None:
    words = [*MISSING_WORDS, "-", "none", "missing"]
    path = tmp_path / "words.csv"
    path.write_text("word,n\n" + "".join(f"{word},1\n" for word in words), encoding="utf-8")

    gone = pd.read_csv(path)["word"].isna().tolist()

    assert gone == [True] * len(MISSING_WORDS) + [False] * 3


LEARNT = Transform(
    columns=("code", "size"),
    numbers=("size",),
    fills=(0.0,),
    scaling=None,
    categories=(Category("code", (1234, 5678)),),
    one_hot=True,
    place_scaling=None,
    classes=(),
    edition=2,
    words=MISSING_WORDS,
)
CLEAN = pd.DataFrame({"code": [1234, 5678], "size": [0.5, 1.0]})
TABLES: Mapping[str, Any] = {
    "pandas": CLEAN,
    "text": CLEAN.astype(str),
    "nullable": CLEAN.convert_dtypes(),
    "pyarrow": CLEAN.convert_dtypes(dtype_backend="pyarrow"),
    "category": CLEAN.astype("category"),
    "Polars": pl.from_pandas(CLEAN),
    "Polars text": pl.from_pandas(CLEAN).cast(pl.String),
    "Polars Categorical": pl.from_pandas(CLEAN).with_columns(
        pl.col("code").cast(pl.String).cast(pl.Categorical), pl.col("size").cast(pl.Decimal(9, 2))
    ),
    "Polars LazyFrame": pl.from_pandas(CLEAN).lazy(),
    "Polars Int128": pl.from_pandas(CLEAN).with_columns(pl.col("code").cast(pl.Int128)),
    "Arrow": pa.Table.from_pandas(CLEAN),
    "array": CLEAN.to_numpy(),
    "object": CLEAN.astype(object).to_numpy(),
    "lists": CLEAN.to_dict("list"),
    "Series": dict(CLEAN.convert_dtypes().items()),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_any_library_is_the_same_rows(table: str) -> None:
    told: list[str] = []
    np.testing.assert_array_equal(
        LEARNT.of(TABLES[table], lambda found, _: told.append(found)), LEARNT.of(CLEAN)
    )
    assert told == []


@pytest.mark.parametrize("odd", ["K1A", 99, None, "NA", "01234", 1.5, b"x", "1234 "])
def test_an_odd_category_only_changes_its_own_row(odd: Any) -> None:
    rows = {"code": [1234, odd, "5678"], "size": [0.5, 1.0, 1.0]}

    found = LEARNT.of(rows)

    np.testing.assert_array_equal(found[[0, 2]], LEARNT.of(CLEAN))
    assert found[1].tolist() == [1, *([1, 0] if odd == "1234 " else [0, 0])]


def test_a_column_of_unknown_categories_alone_is_refused() -> None:
    with pytest.raises(UnfitRowsError) as refusal:
        LEARNT.of({"code": ["K1A", None, "K2B"], "size": [1.0, 1.0, 1.0]})

    assert str(refusal.value) == (
        "column 'code' has only values that no training row had: 'K1A', 'K2B'; "
        "write them as in training: 1234, 5678"
    )
    assert refusal.value.rows == [0, 2]
    assert LEARNT.of({"code": [None], "size": [1.0]}).tolist() == [[1, 0, 0]]


def test_a_single_row_of_an_unknown_category_is_predicted_with_a_warning() -> None:
    told: list[str] = []
    assert LEARNT.of({"code": 99, "size": 1.0}, lambda found, _: told.append(found)).tolist() == [
        [1, 0, 0]
    ]
    taken = "it is taken as none of the known categories"
    assert told == [f"column 'code' has 99 in 1 row, which no training row had; {taken}"]
    with pytest.raises(UnfitRowsError, match="has only values that no training row had: 'K1A'"):
        LEARNT.of({"code": "K1A", "size": 1.0})


def test_new_numbers_that_the_precision_cannot_hold_are_refused() -> None:
    rows = {"code": [1234, 1234], "size": [1.0, -1e300]}
    with pytest.raises(UnfitRowsError) as refusal:
        LEARNT.of(rows, precision="float32")

    assert refusal.value.found == (
        "1 value of column 'size', such as -1e+300, is too large for float32"
    )
    assert refusal.value.rows == [1]
    assert np.isfinite(LEARNT.of(rows)).all()


def test_text_among_new_numbers_is_refused_with_its_row() -> None:
    with pytest.raises(UnfitRowsError) as refusal:
        LEARNT.of({"code": [1234, 1234, 5678], "size": ["1", "", "$3"]})

    assert "column 'size' has non-numbers in 1 row: '$3' is not a number" in str(refusal.value)
    assert refusal.value.rows == [2]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            pd.concat([CLEAN, CLEAN["size"]], axis=1),
            "several columns 'size'; give each column its own name",
        ),
        (
            CLEAN.to_dict("records"),
            "a list of dicts; convert it to a table: pandas.DataFrame(rows)",
        ),
        *(
            (
                CLEAN.assign(size=[word, "1"]),
                f"column 'size' has non-numbers in 1 row: '{word}' is not a number; write numbers, "
                "or leave them empty; for booleans, use a column of type bool, or 1 and 0",
            )
            for word in ("True", "TRUE")
        ),
    ],
    ids=["repeated column", "list of dicts", "booleans as text", "booleans of R as text"],
)
def test_rows_that_do_not_match_the_table_are_refused(rows: Any, expected: str) -> None:
    with pytest.raises(UnfitRowsError) as refusal:
        LEARNT.of(rows)
    assert str(refusal.value) == expected


ROWS = """
from decimal import Decimal
import numpy as np, pandas as pd, polars as pl, pyarrow as pa
def arrow(values, kind):
    return pd.Series(values, dtype=pd.ArrowDtype(kind))

def load(kind):
    n = np.arange(40)
    size = {
        "decimal": lambda: arrow([Decimal(int(i)) / 100 for i in n], pa.decimal128(9, 2)),
        "float": lambda: n / 100,
        "large": lambda: n + 2**53,
        "large with a gap": lambda: pd.array([*(n[:-1] + 2**53), None], "Int64"),
        "long decimal": lambda: [Decimal("0.1234567890123456789") + int(i) for i in n],
        "duration": lambda: n.astype("m8[s]"),
        "complex": lambda: n + 1j,
        "struct": lambda: arrow([{"a": 1}] * 40, pa.struct([("a", pa.int64())])),
        "time": lambda: arrow(pa.array([1] * 40, pa.time32("s")).to_pylist(), pa.time32("s")),
        "null": lambda: arrow([None] * 40, pa.null()),
    }[kind.removeprefix("polars ")]()
    frame = pd.DataFrame({"size": size, "kind": n % 2})
    return pl.from_pandas(frame) if kind.startswith("polars ") else frame
"""


@pytest.fixture
def from_function(make_study: MakeStudy, tmp_path: Any) -> Callable[..., Any]:
    """Prepares the result of the function in `ROWS`."""
    (tmp_path / "rows.py").write_text(ROWS, encoding="utf-8")
    return lambda kind, edition=2, **more: prepare(
        make_study(f'{PYTHON}args = {{ kind = "{kind}" }}\n', **more).with_edition(edition)
    )


@pytest.mark.parametrize("kind", ["decimal", "polars decimal", "polars float"])
def test_decimals_keep_their_fraction(from_function: Callable[..., Any], kind: str) -> None:
    expected = from_function("float")
    assert from_function(kind).digest == expected.digest


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("large", "9007199254740993 has more digits than a float holds (row 2, 4, 6, 8, 10, ...)"),
        ("large with a gap", "holds numbers that a float would change, such as 9007199254740993"),
        ("long decimal", "holds numbers that a float would change, such as 0.1234567890123456789"),
        ("duration", "holds times"),
        ("complex", "holds complex numbers"),
        ("struct", "holds values of type dict"),
        ("time", "holds times"),
        ("null", "has no value in any row"),
    ],
)
def test_columns_that_floats_cannot_hold_are_refused(
    from_function: Callable[..., Any], kind: str, found: str
) -> None:
    with pytest.raises(DataError) as refusal:
        from_function(kind)

    assert found.replace("(row ", "(rows ") in str(refusal.value)


def test_studies_of_edition_1_keep_their_numbers(
    from_function: Callable[..., Any],
) -> None:
    cut = from_function("decimal", edition=1)
    assert not cut.x_train.any()
    assert "edition" not in cut.transform
    assert from_function("large", edition=1).n_features == 1


PARQUET = CSV.replace("csv", "parquet")


def test_large_integers_of_parquet_files_are_not_rounded(
    make_study: MakeStudy, tmp_path: Any
) -> None:
    codes = [LARGE, LARGE - 1, None, 5] * 10
    rows = {"code": pa.array(codes, pa.int64()), "size": range(40), "kind": [0, 1] * 20}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")

    with pytest.raises(DataError) as refusal:
        prepare(make_study(PARQUET + 'impute = "median"\n'))
    assert f"holds numbers that a float would change, such as {LARGE}" in str(refusal.value)

    data = PARQUET + 'categorical_columns = ["code"]\nimpute = "median"\n'
    known = ["5", str(LARGE - 1), str(LARGE), None]
    assert codes_of(prepare(make_study(data)).transform) == known
    floats_of = {**rows, "code": pa.array([0.5] * 40)}
    pq.write_table(pa.table(floats_of), tmp_path / "rows2.parquet")
    joined = prepare(make_study(data.replace("rows.parquet", "rows*.parquet")))
    assert codes_of(joined.transform) == ["0.5", *known]


def test_codes_in_directory_names_stay_distinct(make_study: MakeStudy, tmp_path: Any) -> None:
    for code in ("01234", "1234", "5"):
        (tmp_path / f"code={code}").mkdir()
        rows = pa.table({"size": range(20), "kind": [0, 1] * 10})
        pq.write_table(rows, tmp_path / f"code={code}" / "rows.parquet")
    data = PARQUET.replace("rows.parquet", "*/*.parquet")

    numbers = prepare(make_study(data))
    assert numbers.feature_names == ("size", "code")
    texts = prepare(make_study(data + 'categorical_columns = ["code"]\n'))
    assert codes_of(texts.transform) == ["5", "01234", "1234"]


@pytest.mark.parametrize(
    ("decimal", "texts", "numbers"),
    [
        (".", ["0.5", "", " ", "NA"], [0.5, 0, 0, 0]),
        (".", ["True", "", "False", "NA"], [1, 0, 0, 0]),
        (",", ["1,3", "", "-2", ",5e1"], [1.3, 0, -2, 5]),
        (",", ["1.3", "1,3", "2", ""], None),
        (",", ["1.250", "", "", ""], None),
        (".", ["1,3", "1", "", ""], None),
        (".", ["True", "1", "", ""], None),
        (",", ["1.234,5", "1", "", ""], None),
    ],
)
def test_text_in_a_column_of_numbers_is_read_as_in_a_csv_file(
    decimal: str, texts: list[str], numbers: list[float] | None
) -> None:
    learnt = replace(LEARNT, decimal=decimal)
    rows = pd.DataFrame({"code": [1234] * 4, "size": texts})
    for table in (rows, pl.from_pandas(rows), rows.astype(object).to_numpy()):
        if numbers is None:
            with pytest.raises(UnfitRowsError, match="has non-numbers in 1 row"):
                learnt.of(table)
        else:
            assert learnt.of(table)[:, 0].tolist() == numbers
    if numbers is not None and decimal == ".":
        assert replace(LEARNT, words=("NA",)).of(rows)[:, 0].tolist() == numbers


@pytest.mark.parametrize(
    ("column", "word", "decimal", "expected"),
    [
        ([True, False, None], "0", ".", [1, 0, None]),
        (np.array([True, False]), "0", ".", [1, 0]),
        (np.array([True, False], object), "1", ".", [1, 0]),
        (["True", "False", "0"], "0", ".", [1, 0, None]),
        ([0, 1, 0.5], "0", ".", [None, 1, 0.5]),
        (np.array([0, 1]), "1", ".", [0, None]),
        (np.array([-99.9, 1.5], np.float32), "-99.9", ".", [None, 1.5]),
        (np.array([-99.9, 1.5], np.float16), "-99.9", ".", [None, 1.5]),
        (np.array([-np.inf, 1.5], np.float16), "-1e6", ".", [-np.inf, 1.5]),
        (np.array([-9.9, 1.5]), "-9,9", ",", [None, 1.5]),
        (["-9,90", "1,5"], "-9,9", ",", [None, 1.5]),
        (np.array([-9.9, 1.5]), "-9.9", ",", [None, 1.5]),
        (np.array([]), "0", ".", []),
        ([], "0", ".", []),
    ],
)
def test_a_number_that_means_a_gap_is_one_in_any_type_and_precision(
    column: Any, word: str, decimal: str, expected: list[float | None]
) -> None:
    found = floats_of_rows(column, ["", word], decimal=decimal)
    np.testing.assert_array_equal(found, np.array(expected, float))


SINGLE = np.array([0.1, 0.3, 0.5, 0.6], np.float32).astype(float)
DOUBLE = np.array([0.1, 0.3, 0.5, 0.6])
NEAR = float(np.nextafter(0.3, 1))


@pytest.mark.parametrize(
    ("known", "new", "expected"),
    [
        (np.repeat(DOUBLE, 2), SINGLE, DOUBLE),
        (np.repeat(SINGLE, 2), DOUBLE, SINGLE),
        (DOUBLE, SINGLE, [0.1, *SINGLE[1:3], 0.6]),  # only at the ends do ranks jump
        (DOUBLE[:1], SINGLE, [0.1, *SINGLE[1:]]),
        (np.repeat(DOUBLE, 2), [0.2, NEAR, 0.5 + 1e-9, 7, -np.inf], None),
        (np.repeat(SINGLE, 2), [0.2, 0.5 + 1e-9, 0.6 + 1e-7], None),
        ([0.3, 0.3, NEAR, NEAR], SINGLE[1:2], None),
        ([2**24 + 1, 2**24 + 1, 1e300], [2**24, 2**24 + 1, 2**24 + 2], None),
        ([2**24, 2**24], [2**24 + 1], None),
    ],
)
def test_numbers_in_another_precision_are_those_of_training(
    known: Any, new: Any, expected: Any
) -> None:
    found = with_known(np.array(new, float), np.array(known, float))
    np.testing.assert_array_equal(found, new if expected is None else expected)
