"""The predictions of an exported model for the rows of a table."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.data.csv_file import USUAL, Dialect, format_settings
from sweeper.data.identity import labels_of, written
from sweeper.data.new_rows import NewRows, read_rows
from sweeper.data.transform import LEAST_BEYOND, Transform
from sweeper.errors import (
    DataError,
    Problem,
    StudyError,
    UnfitRowsError,
    counted,
    listed,
)
from sweeper.executors.jax_setup import configure_jax, jax_restored
from sweeper.executors.memory_fallback import is_out_of_memory
from sweeper.export.members import first_model
from sweeper.export.saved_model import SavedModel, UnknownCategoryWarning, load
from sweeper.programs.saved_file import as_written, read_saved
from sweeper.results.formatting import number
from sweeper.results.predictions import Predictions

# columns with numbers beyond the training range to name
_COLUMNS_SHOWN = 5
_LEAST_RANGE = 1e-9
# smaller shares of a range count as 0: they come from rounding to single precision
_ROUNDING = 1e-6


def predict_table(
    model: Path,
    rows: Path,
    warn: Callable[[str], None],
    keep: Sequence[str] = (),
    *,
    trust_code: bool = False,
) -> Predictions:
    """The predictions of `model`, a directory that `export` wrote, for the table `rows`.

    `warn` is called with columns that the study does not have, which are not used, with values that
    no training row had, with numbers beyond the training range, and with the gaps that are filled.
    `keep` are columns of the table to put before the predictions, `all` for all of them; a
    prediction is then called `predicted NAME` if a column is called NAME. `trust_code` is as in
    `sweeper.load`.

    Raises:
        SweeperError: the model is damaged, or the table does not fit it.
    """
    with jax_restored():
        return _predict_table(model, rows, warn, keep, trust_code)


def _predict_table(
    model: Path, rows: Path, warn: Callable[[str], None], keep: Sequence[str], trust_code: bool
) -> Predictions:
    record = read_saved(first_model(model), trusted=trust_code).record
    with as_written(str(model)):
        data = record.get("data", {})
        configure_jax(data.get("spec", {}).get("dtype", "float32"))
        saved = load(model, trust_code=trust_code)
        targets, transform = data["targets"], Transform.of_record(record)
        aside, table = {*_aside(record)}, record["settings"]["data"]
        # models of earlier versions do not have all of these
        dialect = Dialect(**{name: table.get(name, usual) for name, usual in asdict(USUAL).items()})
    if not targets:
        hint = "if it has a generator, make rows in Python: sweeper.load(...).generate(1000)"
        raise StudyError(Problem(str(model), "", "the models predict nothing", hint))
    with enough_memory_for(rows):
        found = read_rows(rows, transform, aside, keep, dialect)
    if found.table.csv and (other := found.table.csv.dialect.instead_of(dialect)):
        warn(f"{rows.name}: read with {format_settings(other)}, unlike the rows of the study")
    if found.unused:
        names = listed([f"'{name}'" for name in found.unused])
        warn(f"{rows.name}: not used, since the study does not have them: {names}")
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", UnknownCategoryWarning)
        outputs = _outputs(model, saved, rows, found)
        with as_written(str(model)), enough_memory_for(rows):
            columns = dict(_columns(saved, outputs, targets))
            notes = [*_notes_on_numbers(found, transform, data)]
    doubtful = [(str(doubt.message), getattr(doubt.message, "rows", ())) for doubt in doubts]
    for note, places in (*doubtful, *notes):
        warn(f"{rows.name}: {note}{_at(found, places)}")
    named: dict[str, list[Any]] = {}
    for name, column in columns.items():
        others = {*columns} - {name}
        named[_free_name(name, {*found.kept, *named, *others})] = column
    return Predictions(found.kept, named)


def _free_name(name: str, taken: Container[str]) -> str:
    """The name with "predicted" in front, as often as needed to differ from those `taken`."""
    while name in taken:
        name = f"predicted {name}"
    return name


def _outputs(model: Path, saved: SavedModel, rows: Path, found: NewRows) -> NDArray[Any]:
    """The outputs of the `model`, loaded as `saved`, for rows that were read from the table `rows`.

    Raises:
        DataError: they do not fit the model, or are too many for the memory.
    """
    unfit: UnfitRowsError | None = None
    with as_written(str(model)), enough_memory_for(rows):
        try:
            return saved.outputs(found.frame)
        except UnfitRowsError as error:
            unfit = error
    assert unfit is not None
    where = f"{unfit.found}{_at(found, unfit.rows)}"
    raise DataError(Problem(rows.name, "", where, unfit.hint)) from unfit


@contextmanager
def enough_memory_for(rows: Path) -> Iterator[None]:
    """Report it if the block takes more memory for the table `rows` than there is.

    Raises:
        DataError: in this case.
    """
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        hint = "split the table, and predict one part after the other"
        raise DataError(
            Problem(rows.name, "", "too little memory for so many rows", hint)
        ) from error


def _at(found: NewRows, rows: Sequence[int]) -> str:
    """Where rows are in their table, in parentheses."""
    return f" ({found.table.places(rows)})" if rows else ""


def _notes_on_numbers(
    found: NewRows, transform: Transform, data: Mapping[str, Any]
) -> Iterator[tuple[str, Sequence[int]]]:
    """Which gaps were filled, and which numbers are beyond those of the training rows.

    Each message has the rows that it is about; those of filled gaps have none.
    """
    gaps = transform.gaps(found.frame)
    counts = {name: int(are_gaps.sum()) for name, are_gaps in gaps.items()}
    if filled := [f"{count} of '{name}'" for name, count in counts.items() if count]:
        yield f"missing values are filled as in training: {listed(filled)}", ()
    if transform.numbers and "ranges" in data:  # models of earlier versions do not have them
        beyond = sorted(_beyond(found, transform, data, gaps), reverse=True)
        yield from ((note, rows) for _, note, rows in beyond[:_COLUMNS_SHOWN])
        if more := len(beyond[_COLUMNS_SHOWN:]):
            yield f"{counted(more, 'more column')} beyond the training range", ()


def _beyond(
    found: NewRows,
    transform: Transform,
    data: Mapping[str, Any],
    gaps: Mapping[str, NDArray[np.bool_]],
) -> Iterator[tuple[float, str, list[int]]]:
    """For each column with numbers beyond the training range, how far, a message, and the rows.

    `gaps` are rows whose number was filled, by column.
    """
    x = transform.scaled_numbers(found.frame, data["spec"]["dtype"])
    low, high = (np.array(data["ranges"][end], x.dtype) for end in ("low", "high"))
    distance = np.maximum(low - x, x - high)
    distance[distance <= LEAST_BEYOND * (high - low)] = 0
    if transform.fills:
        distance[np.stack([gaps[name] for name in transform.numbers], axis=1)] = 0
    ends = np.array([low, high], np.float64)
    ends = ends if transform.scaling is None else transform.scaling.undo(ends)
    ends[np.abs(ends) < _ROUNDING * np.ptp(ends, axis=0)] = 0
    for place in np.flatnonzero((distance > 0).any(axis=0)):
        name, far = transform.numbers[place], distance[:, place]
        rows = np.flatnonzero(far > 0).tolist()
        between = written_range(*ends[:, place].tolist())
        yield (
            float(far.max()) / max(float(high[place] - low[place]), _LEAST_RANGE),
            f"column '{name}': {counted(len(rows), 'row')} beyond the training range, {between}, "
            f"such as {written(found.frame[name].iloc[int(far.argmax())])}",
            rows,
        )


def written_range(low: float, high: float) -> str:
    """Both numbers, with enough digits to tell them apart."""
    for digits in (4, 8, 12):
        if number(low, digits) != number(high, digits):
            return f"{number(low, digits)} to {number(high, digits)}"
    return f"{low} to {high}"


def _aside(record: Mapping[str, Any]) -> Iterator[str]:
    """Columns of the study's own table that are not model inputs."""
    table = record["settings"]["data"]
    yield from record["data"]["targets"]
    yield from table.get("drop", ())
    ways = table["split"]
    yield from (name for way in ("group", "time", "column") if (name := ways.get(way)))
    yield from (name for key in ("mode", "weight") if (name := table.get(key)))


def _columns(
    saved: SavedModel, outputs: NDArray[Any], targets: list[str]
) -> Iterator[tuple[str, list[Any]]]:
    """The columns of the result: each target, and for classes, the probability of each."""
    if not saved.class_names:
        numbers = (saved.numbers_by(each).T for each in (outputs, np.nextafter(outputs, 0)))
        yield from zip(targets, map(_shortest, *numbers), strict=True)
        return
    probabilities, chosen = saved.probabilities_by(outputs), saved.classes_by(outputs)
    classes = classes_to_write(saved.class_names, saved.info["data"]["transform"]["classes"])
    yield targets[0], classes[chosen].tolist()
    for name, column in zip(saved.class_names, probabilities.T, strict=True):
        yield f"probability of {name}", _shortest(column, np.nextafter(column, 0))


def classes_to_write(names: Sequence[str], values: Sequence[Any]) -> NDArray[Any]:
    """Classes as they are in the data if these are integers or booleans; else their names."""
    labels = labels_of(values)
    is_named_so = labels.dtype.kind in "biu" and [*map(written, values)] == [*names]
    return labels if is_named_so else np.array(names, object)


def _shortest(numbers: NDArray[Any], others: NDArray[Any]) -> list[float]:
    """`numbers` with the fewest digits that still tell each from the next number in `others`."""
    return [*map(_shorter, numbers.tolist(), others.tolist())]


def _shorter(number: float, other: float) -> float:
    distance = abs(number - other)
    if not 0 < distance < math.inf:
        return number
    digits = math.floor(-math.log10(distance))
    rounded = round(number, digits)
    return rounded if abs(rounded - number) < distance / 2 else round(number, digits + 1)
