"""Rows of a CSV file that a study names."""

from __future__ import annotations

from sweeper.config import StudyConfig
from sweeper.config.data import CsvTable
from sweeper.data.csv_table import UnfitCsvError, read_csv_table
from sweeper.data.files import find_file
from sweeper.data.raw import RawData
from sweeper.errors import DataError


def read_csv(config: StudyConfig, data: CsvTable) -> RawData:
    """The rows of a CSV file with a header.

    Raises:
        DataError: there is no such file, or it cannot be read as a table.
    """
    path = find_file(config, data.path, "data.path", ".csv")
    try:
        frame = read_csv_table(path)
    except UnfitCsvError as error:
        found = f"{path.name} {error.found}"
        raise DataError(config.problem("data.path", found, error.mend_of_study)) from error
    return RawData(path.name, "data.path", frame, data.target, drop=data.drop, path=path)
