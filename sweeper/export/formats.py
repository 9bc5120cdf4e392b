"""Exports a trial or an ensemble as one file that other programs run.

The model is first exported and loaded as usual, with all checks of that, and then converted. What
is written is compared with the loaded model before it takes its place.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax

from sweeper.config import StudyConfig
from sweeper.data.sample import odd_rows, validation_rows
from sweeper.data.transform import Transform
from sweeper.errors import (
    DataError,
    SetupError,
)
from sweeper.executors.jax_setup import configure_jax, jax_restored, with_pins
from sweeper.export.card import CARD, with_use
from sweeper.export.conversion import Checked, missing
from sweeper.export.directory import export, refuse_output, staged_at
from sweeper.export.ensemble_directory import export_ensemble
from sweeper.export.members import first_model
from sweeper.export.saved_model import SavedModel, UnknownCategoryWarning, load
from sweeper.export.trial_file import trial_of
from sweeper.programs.saved_file import read_saved
from sweeper.rundir import RunDir

Format = Literal["onnx", "stablehlo"]
_MOST_ROWS = 1000  # of the validation part, to compare predictions


@dataclass(frozen=True, slots=True)
class Written:
    """A written file: its trial (None for an ensemble), and how it was checked."""

    trial: int | None
    file: Path
    checked: Checked


def export_as(
    kind: Format,
    directory: Path,
    number: int | Literal["ensemble"] | None,
    member: int,
    output: Path,
    *,
    trust_code: bool = False,
) -> Written:
    """Write a trial of a run directory, or its ensemble, to `output` in another format.

    The arguments are those of `export`, and `number` may be "ensemble".

    Raises:
        SetupError: a library is missing, the file does not predict what the model does, or as
        `export`.
        StudyError: the model cannot be converted, or as `export`.
    """
    name, write = _WRITERS[kind]()
    if number != "ensemble":
        trial_of(directory, number)
    refuse_output(output, RunDir(directory))
    with tempfile.TemporaryDirectory() as scratch, staged_at(output) as staged:
        place, trial = Path(scratch) / output.name, None
        if number == "ensemble":
            export_ensemble(directory, place, trust_code=trust_code)
        else:
            trial = export(directory, number, member, place, trust_code=trust_code)
        record = read_saved(first_model(place), trusted=True).record
        config, _ = trial_of(directory, record["trial"])
        with jax_restored(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownCategoryWarning)
            configure_jax(record["data"]["spec"]["dtype"])
            # code in it is the study's own, or was trusted: `export` has just checked that
            saved = load(place, trust_code=True)
            # otherwise the products of a GPU are rounded
            with with_pins(), jax.default_matmul_precision("highest"):
                checked = write(saved, staged, config)
        card = (place / CARD).read_text(encoding="utf-8")
        (staged / CARD).write_text(with_use(card, checked.use), encoding="utf-8", newline="")
    return Written(trial, output / name, checked)


_Write = Callable[[SavedModel, Path, StudyConfig], Checked]


def _stablehlo() -> tuple[str, _Write]:
    from sweeper.export.stablehlo import FILE, check_stablehlo, write_stablehlo

    check_stablehlo()
    return FILE, lambda saved, directory, _config: write_stablehlo(saved, directory)


def _onnx() -> tuple[str, _Write]:
    try:
        from sweeper.export.onnx_model import FILE, write_onnx
    except ImportError as error:
        raise SetupError(missing(error.name or "onnx", "onnx")) from error
    return FILE, lambda saved, directory, config: write_onnx(
        saved, directory, [*_samples(saved, config)]
    )


_WRITERS: dict[Format, Callable[[], tuple[str, _Write]]] = {
    "onnx": _onnx,
    "stablehlo": _stablehlo,
}


def _samples(saved: SavedModel, config: StudyConfig) -> Iterator[Any]:
    """Tables of rows to compare predictions on: odd ones, and validation rows if they are here."""
    yield odd_rows(Transform.of_record(saved.info))
    with suppress(DataError):
        rows = validation_rows(config, _MOST_ROWS)
        saved.features(rows)
        yield rows
