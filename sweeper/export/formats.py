"""Exports a trial or an ensemble as one file that other programs run.

The model is first exported and loaded as usual, with all checks of that, and then converted. What
is written is compared with the loaded model before it takes its place.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jax

from sweeper.executors.jax_setup import configure_jax, jax_restored, with_pins
from sweeper.export.card import CARD, with_use
from sweeper.export.conversion import Checked
from sweeper.export.directory import export, refuse_existing, staged_at
from sweeper.export.ensemble_directory import export_ensemble
from sweeper.export.members import first_model
from sweeper.export.saved_model import load
from sweeper.export.stablehlo import FILE, check_stablehlo, write_stablehlo
from sweeper.programs.saved_file import read_saved

Format = Literal["stablehlo"]


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written, of which trial, None for an ensemble, and how it was checked."""

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
    check_stablehlo()
    refuse_existing(output)
    with tempfile.TemporaryDirectory() as scratch, staged_at(output) as staged:
        place, trial = Path(scratch) / output.name, None
        if number == "ensemble":
            export_ensemble(directory, place, trust_code=trust_code)
        else:
            trial = export(directory, number, member, place, trust_code=trust_code)
        record = read_saved(first_model(place), trusted=True).record
        with jax_restored():
            configure_jax(record["data"]["spec"]["dtype"])
            # code in it is the study's own, or was trusted: `export` has just checked that
            saved = load(place, trust_code=True)
            # on a GPU, products have the precision of the study otherwise
            with with_pins(), jax.default_matmul_precision("highest"):
                checked = write_stablehlo(saved, staged)
        card = (place / CARD).read_text(encoding="utf-8")
        (staged / CARD).write_text(with_use(card, checked.use), encoding="utf-8", newline="")
    return Written(trial, output / FILE, checked)
