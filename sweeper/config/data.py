"""`[data]`: where the rows come from, and how they are encoded and split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Annotated, Any, Literal, TypeGuard, get_args

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from sweeper.config.kinds import Argument, FunctionName
from sweeper.config.refusals import format_value
from sweeper.config.table import Flaw, Table

_Method = Literal["none", "mean", "median", "most_frequent"]
_METHODS = get_args(_Method)


class Constant(Table):
    """`impute = { constant = 0 }`: the number that stands for every missing one."""

    constant: float


def _names(value: object) -> object:
    names: Any = (value,) if isinstance(value, str) else value
    if _is_array(names) and names and all(_is_name(name) for name in names):
        return tuple(names)
    raise PydanticCustomError("names", "neither a name nor an array of names")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _impute(value: object) -> object:
    if isinstance(value, Constant) or (isinstance(value, str) and value in _METHODS):
        return value
    if _is_table(value) and value.keys() == {"constant"}:
        constant = value["constant"]
        if not _is_number(constant):
            raise PydanticCustomError(
                "constant", "no constant", {"constant": format_value(constant)}
            )
        return Constant(constant=float(constant))
    raise PydanticCustomError("impute", "no way to fill gaps")


def _class_weights(value: object) -> object:
    if value in ("none", "balanced"):
        return value
    if _is_table(value) and value:
        if all(_is_number(weight) and weight > 0 for weight in value.values()):
            return {name: float(weight) for name, weight in value.items()}
        raise PydanticCustomError("class_weight", "a weight that is not a number above 0")
    raise PydanticCustomError("class_weights", "no weights")


def _is_array(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _is_table(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_number(value: object) -> bool:
    return type(value) is int or (isinstance(value, float) and isfinite(value))


ColumnNames = Annotated[
    tuple[str, ...], BeforeValidator(_names, json_schema_input_type=str | tuple[str, ...])
]
Impute = Annotated[
    _Method | Constant, BeforeValidator(_impute, json_schema_input_type=_Method | Constant)
]
ClassWeights = Annotated[
    Literal["none", "balanced"] | dict[str, float],
    BeforeValidator(
        _class_weights, json_schema_input_type=Literal["none", "balanced"] | dict[str, float]
    ),
]


_Text = Annotated[str, Field(min_length=1)]
_Target = Annotated[
    ColumnNames, Field(description="the column to predict; several for mse", examples=["price"])
]


class SplitTable(Table):
    """`data.split`: the parts of the rows that are kept from training."""

    val: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.2, description="share to validate on"
    )
    test: Annotated[float, Field(ge=0, lt=1)] = Field(default=0.1, description="share to test on")
    stratify: bool = Field(
        default=False, description="whether each part has the classes in proportion"
    )
    group: _Text | None = Field(
        default=None,
        description="column whose equal values stay in one part; shares are of groups",
        examples=["patient"],
    )
    time: _Text | None = Field(
        default=None,
        description="column that orders the rows: the latest are tested on",
        examples=["day"],
    )
    as_feature: bool = Field(
        default=False, description="whether the column of group or time is learnt from, too"
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = Field(
        default=None,
        description="of the split and of folds, where study.seed is not to draw them",
        examples=[0],
    )
    train_on: Literal["train", "train+val", "all"] = Field(
        default="train",
        description="the parts that are trained on; those of the others measure nothing then",
        examples=["train+val"],
    )


def _nothing_to_train_on(split: SplitTable) -> Iterable[Flaw]:
    if split.val + split.test >= 1:
        found = f"val {split.val} and test {split.test} leave nothing to train on"
        yield Flaw("split", found, "write parts that sum to less than 1")


def _several_ways_to_split(split: SplitTable) -> Iterable[Flaw]:
    ways = {"stratify": split.stratify, "group": split.group, "time": split.time}
    chosen = [way for way, value in ways.items() if value]
    for way in chosen[1:]:
        yield Flaw(f"split.{way}", f"the rows are split by {chosen[0]}", "remove one of them")


def _no_column_to_learn_from(split: SplitTable) -> Iterable[Flaw]:
    if split.as_feature and split.group is None and split.time is None:
        found = "the rows are split by no column"
        yield Flaw("split.as_feature", found, "write group or time, or remove it")


def _repeated_target(target: tuple[str, ...]) -> Iterable[Flaw]:
    if len(set(target)) < len(target):
        yield Flaw("target", "a column is named twice", "name each once")


def _unfit_separator(separator: str) -> Iterable[Flaw]:
    if len(separator) != 1 or separator in '"\r\n':
        found = f"fields cannot be separated by {separator!r}"
        yield Flaw("separator", found, 'write one character, such as ";" or "\\t"')


def _separator_in_numbers(separator: str, decimal: str) -> Iterable[Flaw]:
    if decimal == separator:
        found = f"{decimal!r} stands between fields already"
        yield Flaw("decimal", found, 'write another, or another separator, such as ";"')


def _unknown_encoding(encoding: str) -> Iterable[Flaw]:
    try:
        "".encode(encoding)
    except LookupError:
        hint = "write one of Python's, such as utf-8, latin-1 or cp1252"
        yield Flaw("encoding", f"no encoding '{encoding}' of text", hint)


class _RowsTable(Table):
    """What every source of rows has."""

    rules = (_nothing_to_train_on, _several_ways_to_split, _no_column_to_learn_from)

    scale: Literal["none", "standard", "minmax"] = Field(
        default="standard", description="how numbers are scaled; fitted on the training part"
    )
    impute: Impute = Field(
        default="none",
        description="what fills missing numbers; none refuses missing values",
        examples=["median"],
    )
    categorical: Literal["onehot", "ordinal"] = Field(
        default="onehot", description="how categories are encoded: a column a value, or its place"
    )
    categorical_columns: Annotated[tuple[_Text, ...], Field(strict=False)] = Field(
        default=(),
        description="columns of numbers that are categories, as text always is",
        examples=[["zip_code"]],
    )
    class_weights: ClassWeights = Field(
        default="none",
        description="of the loss; balanced, or class = weight, else 1",
        examples=["balanced"],
    )
    missing_target: Literal["refuse", "drop"] = Field(
        default="refuse", description="drop leaves out the rows that have no value of the target"
    )
    split: SplitTable = Field(default=SplitTable(), description="the parts kept from training")


class _ColumnsTable(_RowsTable):
    """A source whose columns have names."""

    rules = (*_RowsTable.rules, _repeated_target)

    drop: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="columns to leave out", examples=[["id"]]
    )


class SklearnTable(_RowsTable):
    """A data set that ships with scikit-learn."""

    source: Literal["sklearn"] = Field(description="where the rows come from")
    name: Literal["digits", "iris", "wine", "breast_cancer", "diabetes"] = Field(
        description="a data set of scikit-learn"
    )


class CsvTable(_ColumnsTable):
    """A CSV file with a header; `target` and `drop` are columns of it."""

    rules = (*_ColumnsTable.rules, _unfit_separator, _separator_in_numbers, _unknown_encoding)

    source: Literal["csv"] = Field(description="where the rows come from")
    path: _Text = Field(
        description="the file, seen from the study file, else from the current directory",
        examples=["houses.csv"],
    )
    target: _Target
    separator: str = Field(
        default=",", description="the character between fields", examples=[";", "\t"]
    )
    decimal: Literal[".", ","] = Field(
        default=".", description="what stands in numbers before the fraction", examples=[","]
    )
    encoding: str = Field(
        default="utf-8", description="of the text, as Python calls it", examples=["latin-1"]
    )
    skip_rows: Annotated[int, Field(ge=0)] = Field(
        default=0, description="lines above the one of column names", examples=[1]
    )
    missing_values: Annotated[tuple[str, ...], Field(strict=False)] | None = Field(
        default=None,
        description="texts that mean a missing value; the words of pandas if left out",
        examples=[["", "NA"]],
    )


class ParquetTable(_ColumnsTable):
    """A Parquet file, or all of a directory or pattern; `target` and `drop` are columns of it."""

    source: Literal["parquet"] = Field(description="where the rows come from")
    path: _Text = Field(
        description="a file, a directory or a pattern, *.parquet, looked up as that of csv",
        examples=["houses/*.parquet"],
    )
    target: _Target


class NpzTable(_RowsTable):
    """Arrays of an .npz file, whose first axis is the row."""

    source: Literal["npz"] = Field(description="where the rows come from")
    path: _Text = Field(
        description="the file, seen from the study file, else from the current directory",
        examples=["ring.npz"],
    )
    x: _Text = Field(default="x", description="the array to learn from", examples=["features"])
    y: _Text | None = Field(
        default=None,
        description="the array to predict, y where none is written; columns are several targets",
        examples=["prices"],
    )
    mode: _Text | None = Field(
        default=None,
        description="labels of the parts of a mixture, of which coupled counts those that are "
        "covered by generated rows",
        examples=["mode"],
    )


class FunctionTable(_ColumnsTable):
    """What a function of the user's own returns."""

    source: Literal["python"] = Field(description="where the rows come from")
    function: FunctionName = Field(
        description="module:function, which returns (x, y), a DataFrame or a dict of arrays",
        examples=["tables:houses"],
    )
    args: dict[str, Argument] = Field(
        default={}, description="what the function is called with", examples=[{"year": 2020}]
    )
    target: ColumnNames = Field(
        default=("y",), description="the column or the array to predict; several for mse"
    )


DataTable = SklearnTable | CsvTable | ParquetTable | NpzTable | FunctionTable
