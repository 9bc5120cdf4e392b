"""Rows of a CSV file that a study names."""

from __future__ import annotations

from sweeper.config import StudyConfig
from sweeper.config.data import CsvTable
from sweeper.data.csv_reader import UnfitCsvError, missing_words, read_csv_table
from sweeper.data.dialect import Dialect, settings_told
from sweeper.data.files import find_file
from sweeper.data.raw import RawData
from sweeper.errors import DataError


def read_csv(config: StudyConfig, data: CsvTable) -> RawData:
    """The rows of a CSV file with a header.

    Raises:
        DataError: there is no such file, or it cannot be read as a table.
    """
    path = find_file(config, data.path, "data.path", ".csv")
    dialect = Dialect(data.separator, data.decimal, data.encoding, data.skip_rows)
    of_classes = data.target if config.train.target == "classes" else ()
    categories = None if config.edition == 1 else {*of_classes, *data.categorical_columns}
    try:
        frame = read_csv_table(
            path,
            dialect,
            missing=data.missing_values,
            categories=categories,
            strict=config.edition > 1,
        )
        words = missing_words(path, dialect, frame, data.missing_values)
    except UnfitCsvError as error:
        found = f"{path.name} {error.found}"
        mend = error.mend
        if error.likely is not None:
            settings = error.likely.instead_of(dialect)
            again = f"write the file again with {dialect}"
            mend = f"write {settings_told(settings)}" if settings else again
        raise DataError(config.problem("data.path", found, mend)) from error
    return RawData(
        *(path.name, "data.path", frame, data.target),
        drop=data.drop,
        path=path,
        dialect=dialect,
        words=words,
    )
