"""`[data]`: where the rows come from, how they are scaled and split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from sweeper.config.table import Fault, Table


class SplitTable(Table):
    """`data.split`: the parts of the rows that are kept from training."""

    val: Annotated[float, Field(gt=0, lt=1)] = 0.2
    test: Annotated[float, Field(ge=0, lt=1)] = 0.1
    stratify: bool = False


def _nothing_to_train_on(split: SplitTable) -> Iterable[Fault]:
    if split.val + split.test >= 1:
        found = f"val {split.val} and test {split.test} leave nothing to train on"
        yield Fault("split", found, "write parts that sum to less than 1")


class _RowsTable(Table):
    """What every source of rows has."""

    rules = (_nothing_to_train_on,)

    scale: Literal["none", "standard", "minmax"] = "standard"
    split: SplitTable = SplitTable()


class SklearnTable(_RowsTable):
    """A data set that ships with scikit-learn."""

    source: Literal["sklearn"]
    name: Literal["digits", "iris", "wine", "breast_cancer", "diabetes"]


class CsvTable(_RowsTable):
    """A CSV file with a header; `target` and `drop` are columns of it."""

    source: Literal["csv"]
    path: Annotated[str, Field(min_length=1)]
    target: Annotated[str, Field(min_length=1)]
    drop: Annotated[tuple[str, ...], Field(strict=False)] = ()


DataTable = SklearnTable | CsvTable
