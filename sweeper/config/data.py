"""`[data]`: where the rows come from, how they are scaled and split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from sweeper.config.table import Fault, Table


class SplitTable(Table):
    """`data.split`: the parts of the rows that are kept from training."""

    val: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.2, description="share to validate on"
    )
    test: Annotated[float, Field(ge=0, lt=1)] = Field(default=0.1, description="share to test on")
    stratify: bool = Field(
        default=False, description="whether each part has the classes in proportion"
    )


def _nothing_to_train_on(split: SplitTable) -> Iterable[Fault]:
    if split.val + split.test >= 1:
        found = f"val {split.val} and test {split.test} leave nothing to train on"
        yield Fault("split", found, "write parts that sum to less than 1")


class _RowsTable(Table):
    """What every source of rows has."""

    rules = (_nothing_to_train_on,)

    scale: Literal["none", "standard", "minmax"] = Field(
        default="standard", description="how numbers are scaled; fitted on the training part"
    )
    split: SplitTable = Field(default=SplitTable(), description="the parts kept from training")


class SklearnTable(_RowsTable):
    """A data set that ships with scikit-learn."""

    source: Literal["sklearn"] = Field(description="where the rows come from")
    name: Literal["digits", "iris", "wine", "breast_cancer", "diabetes"] = Field(
        description="a data set of scikit-learn"
    )


class CsvTable(_RowsTable):
    """A CSV file with a header; `target` and `drop` are columns of it."""

    source: Literal["csv"] = Field(description="where the rows come from")
    path: Annotated[str, Field(min_length=1)] = Field(
        description="the file, seen from the study file, else from the current directory"
    )
    target: Annotated[str, Field(min_length=1)] = Field(description="the column to predict")
    drop: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="columns to leave out"
    )


DataTable = SklearnTable | CsvTable
