"""Rows of a CSV file."""

from __future__ import annotations

import pandas as pd

from sweeper.config import StudyConfig
from sweeper.config.data import CsvTable
from sweeper.data.files import find_file
from sweeper.data.naming import listed
from sweeper.data.raw import RawData
from sweeper.errors import DataError

# what else than commas tables have between their fields
_OTHERS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def read_csv(config: StudyConfig, data: CsvTable) -> RawData:
    """The rows of a CSV file with a header.

    Raises:
        DataError: there is no such file, or it cannot be read as a table.
    """
    path = find_file(config, data.path, "data.path", ".csv")
    try:
        header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0]
        frame = pd.read_csv(path, low_memory=False)
    except (OSError, ValueError) as error:
        found, mend = _unreadable(error)
        raise DataError(config.problem("data.path", f"{path.name} {found}", mend)) from error
    fault = _misshapen(header, frame)
    if fault:
        found, mend = fault
        raise DataError(config.problem("data.path", f"{path.name} {found}", mend))
    return RawData(path.name, "data.path", frame, data.target, drop=data.drop, path=path)


def _unreadable(error: OSError | ValueError) -> tuple[str, str]:
    """What was found, and what to write instead, where pandas could not read a file."""
    match error:
        case OSError():
            return f"cannot be read: {error.strerror}", ""
        case UnicodeDecodeError():
            return "is not text in UTF-8", "save it as UTF-8"
        case pd.errors.EmptyDataError():
            return "is empty", "write a line of column names, then a line a row"
        case _:
            what = str(error).strip().removeprefix("Error tokenizing data. C error: ")
            return f"is no table: {what}", "write one field a column in every row"


def _misshapen(header: pd.Series[str], frame: pd.DataFrame) -> tuple[str, str] | None:
    """The same for a file that pandas reads, but not as it was meant."""
    nameless = [str(place) for place, name in enumerate(header, 1) if not name]
    if nameless:
        mend = "give each column a name, and drop it if it only numbers the rows"
        return f"has no name for column {listed(nameless)}", mend
    if len(header) == 1 and (between := _OTHERS.keys() & set(header.iloc[0])):
        told = listed(sorted(_OTHERS[one] for one in between))
        return f"has one column, with {told} in its name", "write a comma between fields"
    twice = [f"'{name}'" for name in header[header.duplicated()].unique()]
    if twice:
        # pandas would call the second one 'name.1'
        return f"has several columns {listed(twice)}", "give each column its own name"
    if not isinstance(frame.index, pd.RangeIndex):
        # pandas would take the first field for the name of the row
        return "has more fields in its rows than in its header", "name every column"
    if frame.empty:
        return "has a header and no rows", "write a line a row"
    return None
