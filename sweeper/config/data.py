"""`[data]`: where the rows come from, and how they are encoded and split."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field

from sweeper.config.kinds import Argument, FunctionName, NonEmptyStr, items_of
from sweeper.config.reading import is_table
from sweeper.config.refusals import TEXT_IN_QUOTES, format_value, refusal
from sweeper.config.table import Flaw, Table
from sweeper.errors import ProblemKind

_Method = Literal["none", "mean", "median", "most_frequent"]
_METHODS = get_args(_Method)


class ConstantFill(Table):
    """`impute = { constant = 0 }`: the number that replaces missing ones."""

    constant: float


def _names(value: object) -> object:
    names = (value,) if isinstance(value, str) else items_of(value)
    if names and all(isinstance(name, str) and name for name in names):
        return names
    hint = f"{TEXT_IN_QUOTES}, or an array of names"
    raise refusal("{value} is not the name of a column", hint, ProblemKind.NOT_TEXT)


def _impute(value: object) -> object:
    if isinstance(value, ConstantFill) or (isinstance(value, str) and value in _METHODS):
        return value
    if is_table(value) and value.keys() == {"constant"}:
        constant = value["constant"]
        if not _is_number(constant):
            found = f"constant = {format_value(constant)} is not a finite number"
            raise refusal(found, "write a finite number")
        return ConstantFill(constant=float(constant))
    hint = 'write "none", "mean", "median", "most_frequent" or { constant = 0 }'
    raise refusal("{value} is not a way to fill gaps", hint)


def _class_weights(value: object) -> object:
    if value in ("none", "balanced"):
        return value
    if is_table(value) and value:
        if all(_is_number(weight) and weight > 0 for weight in value.values()):
            return {name: float(weight) for name, weight in value.items()}
        raise refusal("a weight is not a number above 0", "write numbers above 0")
    raise refusal("{value} is not a weighting", 'write "none", "balanced" or { CLASS = 2.0 }')


def _is_number(value: object) -> bool:
    return type(value) is int or (isinstance(value, float) and isfinite(value))


ColumnNames = Annotated[
    tuple[str, ...], BeforeValidator(_names, json_schema_input_type=str | tuple[str, ...])
]
Impute = Annotated[
    _Method | ConstantFill, BeforeValidator(_impute, json_schema_input_type=_Method | ConstantFill)
]
ClassWeights = Annotated[
    Literal["none", "balanced"] | dict[str, float],
    BeforeValidator(
        _class_weights, json_schema_input_type=Literal["none", "balanced"] | dict[str, float]
    ),
]


_Weight = Annotated[
    NonEmptyStr | None,
    Field(
        description="the weight of each row in the loss and the metrics, 0 or more; not a feature",
        examples=["weight"],
    ),
]
_Target = Annotated[
    ColumnNames,
    Field(description="the column to predict, or several of numbers", examples=["price"]),
]


class SplitTable(Table):
    """`data.split`: the rows that are not trained on."""

    val: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.2, description="share of rows for validation"
    )
    test: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.1, description="share of rows for testing"
    )
    stratify: bool = Field(
        default=False, description="whether each split has the same proportions of classes"
    )
    group: NonEmptyStr | None = Field(
        default=None,
        description="rows with equal values in this column stay together; shares count groups",
        examples=["patient"],
    )
    time: NonEmptyStr | None = Field(
        default=None,
        description="column to sort the rows by; the last rows are for testing",
        examples=["day"],
    )
    column: NonEmptyStr | None = Field(
        default=None,
        description="column that says train, val or test in each row; val is drawn if none is",
        examples=["split"],
    )
    as_feature: bool = Field(
        default=False, description="whether the group or time column is also a feature"
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = Field(
        default=None,
        description="seed of the split and folds; default: study.seed",
        examples=[0],
    )
    train_on: Literal["train", "train+val", "all"] = Field(
        default="train",
        description="the rows to train on; metrics of these rows say nothing about new rows",
        examples=["train+val"],
    )

    @property
    def leaves_rows(self) -> bool:
        """Whether some rows are neither for validation nor for testing."""
        test = 0.0 if self.column else self.test  # the column says which rows are for testing
        return self.val + test < 1


def _several_ways_to_split(split: SplitTable) -> Iterable[Flaw]:
    ways = {
        "stratify": split.stratify and split.column is None,  # rows for validation may be drawn
        "group": split.group,
        "time": split.time,
        "column": split.column,
    }
    chosen = [way for way, value in ways.items() if value]
    for way in chosen[1:]:
        yield Flaw(
            f"split.{way}", f"the rows are already split by {chosen[0]}", "remove one of them"
        )


def _no_column_to_learn_from(split: SplitTable) -> Iterable[Flaw]:
    if split.as_feature and split.column is not None:
        found = "a column that says train, val or test is never a feature"
        yield Flaw("split.as_feature", found, "remove it")
    elif split.as_feature and split.group is None and split.time is None:
        found = "the rows are not split by a column"
        yield Flaw("split.as_feature", found, "write group or time, or remove it")


def _repeated_target(target: tuple[str, ...]) -> Iterable[Flaw]:
    if len(set(target)) < len(target):
        yield Flaw("target", "a column is named twice", "remove one of the two")


def _unfit_separator(separator: str) -> Iterable[Flaw]:
    if len(separator) != 1 or separator in '"\r\n':
        found = f"fields cannot be separated by {separator!r}"
        yield Flaw("separator", found, 'write one character, such as ";" or "\\t"')
    elif not separator.isascii():
        found = f"{separator!r} is not an ASCII character"
        hint = 'write one such as ";" or "\\t", and replace it in the file'
        yield Flaw("separator", found, hint)


def _separator_in_numbers(separator: str, decimal: str) -> Iterable[Flaw]:
    if decimal == separator:
        found = f"{decimal!r} already separates fields"
        yield Flaw("decimal", found, 'write another, or another separator, such as ";"')


def _unknown_encoding(encoding: str) -> Iterable[Flaw]:
    try:
        "".encode(encoding)
    except LookupError:
        hint = "write a Python encoding, such as utf-8, latin-1 or cp1252"
        yield Flaw("encoding", f"unknown text encoding '{encoding}'", hint)


class RowsTable(Table):
    """Settings of every source of rows."""

    rules = (_several_ways_to_split, _no_column_to_learn_from)

    scale: Literal["none", "standard", "minmax", "robust", "quantile"] = Field(
        default="standard",
        description="how numbers are scaled; fitted on the training rows. robust: by median and "
        "quartiles; quantile: to normal deviates of their ranks",
    )
    target_scale: Literal["standard", "none"] | None = Field(
        default=None,
        description="how numeric targets are scaled, regardless of scale; default: none if scale "
        "is none, else standard",
        examples=["none"],
    )
    target_transform: Literal["none", "log", "log1p"] = Field(
        default="none",
        description="what is learnt for numeric targets: the numbers, or for skewed ones their "
        "logarithms; metrics and predictions stay in the unit of the data",
        examples=["log"],
    )
    impute: Impute = Field(
        default="none",
        description="how missing numbers are filled; none: missing values are an error",
        examples=["median"],
    )
    categorical: Literal["onehot", "ordinal"] = Field(
        default="onehot",
        description="how categories are encoded: one column per value, or its position as a number",
    )
    categorical_columns: Annotated[tuple[NonEmptyStr, ...], Field(strict=False)] = Field(
        default=(),
        description="numeric columns to treat as categories; text columns always are",
        examples=[["zip_code"]],
    )
    class_weights: ClassWeights = Field(
        default="none",
        description="weights of classes in the loss: balanced, or CLASS = weight; default: 1",
        examples=["balanced"],
    )
    missing_target: Literal["refuse", "drop"] = Field(
        default="refuse", description="drop: leave out rows without a target value"
    )
    split: SplitTable = Field(default=SplitTable(), description="rows for validation and testing")

    @property
    def weight_column(self) -> str | None:
        """The column of the weights of rows; None if all rows count equally."""
        return getattr(self, "weight", None)

    @property
    def usual_target_scale(self) -> Literal["standard", "none"]:
        """How numeric targets are scaled unless `target_scale` says it."""
        return "none" if self.scale == "none" else "standard"

    @property
    def standardizes_targets(self) -> bool:
        """Whether numeric targets are scaled to mean 0 and deviation 1."""
        return (self.target_scale or self.usual_target_scale) == "standard"


class _ColumnsTable(RowsTable):
    """A source whose columns have names."""

    rules = (*RowsTable.rules, _repeated_target)

    drop: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="columns to leave out", examples=[["id"]]
    )
    weight: _Weight = None


class SklearnTable(RowsTable):
    """A data set that ships with scikit-learn."""

    source: Literal["sklearn"] = Field(description="the source of the rows")
    name: Literal["digits", "iris", "wine", "breast_cancer", "diabetes"] = Field(
        description="name of the data set"
    )


class CsvTable(_ColumnsTable):
    """A CSV file with a header; `target` and `drop` are columns of it."""

    rules = (*_ColumnsTable.rules, _unfit_separator, _separator_in_numbers, _unknown_encoding)

    source: Literal["csv"] = Field(description="the source of the rows")
    path: NonEmptyStr = Field(
        description="the file, relative to the study file, else to the current directory",
        examples=["houses.csv"],
    )
    target: _Target
    separator: str = Field(
        default=",", description="the character between fields", examples=[";", "\t"]
    )
    decimal: Literal[".", ","] = Field(
        default=".", description="the decimal separator in numbers", examples=[","]
    )
    encoding: str = Field(
        default="utf-8", description="text encoding, by its name in Python", examples=["latin-1"]
    )
    skip_rows: Annotated[int, Field(ge=0)] = Field(
        default=0, description="number of lines above the column names", examples=[1]
    )
    missing_values: Annotated[tuple[str, ...], Field(strict=False)] | None = Field(
        default=None,
        description="strings that mean a missing value; default: those of pandas",
        examples=[["", "NA"]],
    )


class ParquetTable(_ColumnsTable):
    """A Parquet file, or all of a directory or pattern; `target` and `drop` are column names."""

    source: Literal["parquet"] = Field(description="the source of the rows")
    path: NonEmptyStr = Field(
        description="a file, a directory or a pattern such as *.parquet, relative as for csv",
        examples=["houses/*.parquet"],
    )
    target: _Target


class NpzTable(RowsTable):
    """Arrays of an .npz file, whose first axis is the row."""

    source: Literal["npz"] = Field(description="the source of the rows")
    path: NonEmptyStr = Field(
        description="the file, relative to the study file, else to the current directory",
        examples=["ring.npz"],
    )
    x: NonEmptyStr = Field(default="x", description="the array of features", examples=["features"])
    y: NonEmptyStr | None = Field(
        default=None,
        description="the array to predict; default: y; its columns are separate targets",
        examples=["prices"],
    )
    weight: _Weight = None
    mode: NonEmptyStr | None = Field(
        default=None,
        description="labels of the components of a mixture; coupled counts how many of them are "
        "covered by generated rows",
        examples=["mode"],
    )


class FunctionTable(_ColumnsTable):
    """Rows that a user-defined function returns."""

    source: Literal["python"] = Field(description="the source of the rows")
    function: FunctionName = Field(
        description="module:function that returns (x, y), a DataFrame or a dict of arrays",
        examples=["tables:houses"],
    )
    args: dict[str, Argument] = Field(
        default={}, description="arguments of the function", examples=[{"year": 2020}]
    )
    target: ColumnNames = Field(
        default=("y",),
        description="the column or array to predict, or several of numbers",
    )


DataTable = SklearnTable | CsvTable | ParquetTable | NpzTable | FunctionTable
