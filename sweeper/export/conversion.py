"""A saved model as one function of prepared features, for conversion to other formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from sweeper.config.coupled import CoupledTable
from sweeper.data.transform import Transform
from sweeper.errors import Problem, SetupError, StudyError, counted
from sweeper.export.saved_model import SavedModel
from sweeper.models.mlp import AnyArray
from sweeper.models.user_network import evaluated
from sweeper.process import DISTRIBUTION

# the largest relative difference between the predictions of a file and of its model
TOLERANCE = 1e-5
OTHERWISE = "export without --format: load.py runs every model"

Function = Callable[[Float[AnyArray, "rows features"]], Float[Array, "rows outputs"]]


@dataclass(frozen=True, slots=True)
class Checked:
    """How a file was compared with its model: on how many rows, and the largest difference.

    It is relative to the size of predictions, but absolute if it is one `of_probabilities`, of
    which small ones depend on the rounding of large logits. `use` is Markdown that explains how to
    use the file.
    """

    rows: int
    difference: float
    use: str
    of_probabilities: bool = False

    def __str__(self) -> str:
        on = f"on {counted(self.rows, 'row')}"
        if not self.difference:
            return f"{on} it predicts exactly what the model predicts"
        what = "probabilities" if self.of_probabilities else "predictions"
        size = "" if self.of_probabilities else ", relative to their size"
        most = f"by at most {self.difference:.1g}{size}"
        return f"{on} its {what} differ from those of the model {most}"


def matrix_name(info: Mapping[str, Any]) -> str:
    """The name of the array that all columns come from; empty if they have names of their own.

    `info` is the header of a saved model.
    """
    source = info["settings"]["data"]["source"]
    columns = Transform.of_record(info).columns
    name = columns[0].rpartition("_")[0]
    is_array = source in ("npz", "python") and len(columns) > 1
    return name if is_array and [*columns] == [f"{name}_{i}" for i in range(len(columns))] else ""


def model_function(saved: SavedModel) -> Function:
    """The outputs of a model for rows of features, to be traced by JAX.

    Raises:
        StudyError: it does not make one prediction for each row.
    """
    if isinstance(saved.settings.train, CoupledTable) or not saved.info["data"]["targets"]:
        found = "the models of this study make no joint predictions"
        raise StudyError(Problem("", "--format", found, OTHERWISE))
    part = saved.part_of_data

    def outputs(x: Float[AnyArray, "rows features"]) -> Float[Array, "rows outputs"]:
        found: Any = jax.vmap(lambda x: evaluated(saved.model, x))(x)
        return found if part is None else found[part]

    return outputs


def relative_difference(
    found: NDArray[Any], wanted: NDArray[Any], least_size: float = 0.0
) -> float:
    """The largest difference, relative to each number or to the median size of its column.

    No size counts as less than `least_size`. The difference is infinite if only one of two numbers
    is finite, or if infinite ones differ.
    """
    found, wanted = (np.asarray(each, np.float64) for each in (found, wanted))
    if found.shape != wanted.shape:
        return np.inf
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    if same.all():
        return 0.0
    if not (np.isfinite(found) & np.isfinite(wanted))[~same].all():
        return np.inf
    typical = np.median(np.abs(np.where(np.isfinite(wanted), wanted, 0.0)), axis=0)
    least = np.maximum(typical, least_size)
    size = np.broadcast_to(np.maximum(np.abs(wanted), least), wanted.shape)[~same]
    with np.errstate(divide="ignore"):
        return float(np.max(np.abs(found[~same] - wanted[~same]) / size))


def refuse_different(difference: float, name: str) -> None:
    """Refuse a file whose predictions differ from those of its model.

    Raises:
        SetupError: with the largest difference.
    """
    if not difference <= TOLERANCE:
        found = f"its predictions differ from those of the model by up to {difference:.2g}, "
        found += f"and {TOLERANCE:g} is allowed: it was not kept"
        raise SetupError(Problem(name, "", found, OTHERWISE))


def missing(library: str, extra: str) -> Problem:
    """The problem of a library that is not installed."""
    hint = f"install it: python -m pip install '{DISTRIBUTION}[{extra}]'"
    return Problem("", "--format", f"the package {library} is not installed", hint)
