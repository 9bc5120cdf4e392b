"""Predictions for the rows of a table, as CSV or Parquet."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from sweeper.errors import DataError, Problem
from sweeper.results.text_files import csv_text


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions for the rows of a table, and columns of the table to put before them.

    `predicted` has the column of each target and, for classes, the probability of each.
    """

    kept: pd.DataFrame
    predicted: Mapping[str, list[Any]]

    def __len__(self) -> int:
        return len(self.kept)

    def as_csv(self, *, quote_formulas: bool = False) -> str:
        """The text of a CSV file; with `quote_formulas`, a spreadsheet runs no text of the table.

        Missing values of kept columns are empty fields.
        """
        kept = {str(name): column.astype(object) for name, column in self.kept.items()}
        shown = {name: column.where(column.notna(), "").tolist() for name, column in kept.items()}
        columns = {**shown, **self.predicted}
        cells = zip(*columns.values(), strict=True)
        return csv_text([*columns], cells, quote_formulas=quote_formulas, kept="\n\t")

    def as_parquet(self) -> bytes:
        """The bytes of a Parquet file.

        Raises:
            DataError: Parquet cannot store a kept column as pandas has read it.
        """
        buffer = io.BytesIO()
        try:
            predicted = pd.DataFrame(self.predicted, index=self.kept.index)
            pd.concat([self.kept, predicted], axis=1).to_parquet(buffer, index=False)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
            is_text = isinstance(error, UnicodeEncodeError)
            reason = error.reason if is_text else " ".join(map(str, error.args))
            found = f"a column cannot be written as Parquet: {reason}"
            hint = "do not keep it, or write CSV"
            raise DataError(Problem("", "--keep", found, hint)) from error
        return buffer.getvalue()
