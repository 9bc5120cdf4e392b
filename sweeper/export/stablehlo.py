"""A model as one StableHLO program, which JAX alone calls and other compilers read."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np

from sweeper.config.user_errors import RAISED, describe_error
from sweeper.errors import Problem, SetupError, StudyError
from sweeper.export.conversion import (
    OTHERWISE,
    Checked,
    missing,
    model_function,
    refuse_different,
    relative_difference,
)
from sweeper.export.saved_model import SavedModel

FILE, DESCRIPTION = "model.stablehlo", "model.json"
_PLATFORMS = ("cpu", "cuda", "tpu")
_ROWS = 256


def check_stablehlo() -> None:
    """Refuse to export if JAX cannot serialize programs.

    Raises:
        SetupError: with the package to install.
    """
    if find_spec("flatbuffers") is None:
        raise SetupError(missing("flatbuffers", "stablehlo"))


def write_stablehlo(saved: SavedModel, directory: Path) -> Checked:
    """Write a model as `model.stablehlo`, with `model.json`, and compare them on random features.

    Raises:
        StudyError: it cannot be exported for some platform.
        SetupError: the file does not compute what the model does.
    """
    outputs, spec = model_function(saved), saved.info["data"]["spec"]
    n_features = len(saved.feature_names)
    shape = jax.export.symbolic_shape(f"rows, {n_features}")
    x = jax.ShapeDtypeStruct(shape, spec["dtype"])
    try:
        exported = jax.export.export(jax.jit(outputs), platforms=_PLATFORMS)(x)
        content = bytes(exported.serialize())
    except RAISED as error:
        found = f"the model cannot be exported by JAX: {describe_error(error)}"
        raise StudyError(Problem("", "--format", found, OTHERWISE)) from error
    (directory / FILE).write_bytes(content)
    about = json.dumps(_described(saved, exported), indent=1) + "\n"
    (directory / DESCRIPTION).write_text(about, encoding="utf-8", newline="")
    rows = np.random.default_rng(0).standard_normal((_ROWS, n_features)).astype(spec["dtype"])
    found = np.asarray(jax.export.deserialize(bytearray(content)).call(rows))
    difference = relative_difference(found, np.asarray(jax.jit(outputs)(rows)))
    refuse_different(difference, FILE)
    return Checked(_ROWS, difference, _use(saved))


def _described(saved: SavedModel, exported: Any) -> dict[str, Any]:
    """Inputs and outputs of the program, and how predictions follow from the outputs."""
    data, (outputs,) = saved.info["data"], exported.out_avals
    spec = data["spec"]
    numbers = {
        "names": data["targets"],
        "scale": spec["y_scale"],
        "shift": spec["y_mean"],
        "then": {"none": None, "log": "exp", "log1p": "expm1"}[spec.get("y_transform", "none")],
    }
    classes = {"names": list(saved.class_names), "are_log_odds_of_second": data["one_logit"]}
    return {
        "inputs": {
            "shape": ["rows", len(saved.feature_names)],
            "dtype": spec["dtype"],
            "columns": list(saved.feature_names),
        },
        "outputs": {
            "shape": ["rows", int(outputs.shape[1])],
            "dtype": str(outputs.dtype),
            **({"classes": classes} if saved.class_names else {"numbers": numbers}),
        },
        "platforms": list(exported.platforms),
        "jax": jax.__version__,
        "calling_convention_version": exported.calling_convention_version,
    }


def _use(saved: SavedModel) -> str:
    dtype, n_features = saved.info["data"]["spec"]["dtype"], len(saved.feature_names)
    x64 = ['    jax.config.update("jax_enable_x64", True)'] if dtype == "float64" else []
    outputs = (
        "scaled targets: numbers in the unit of the data are outputs * scale + shift, and then the",
        f"function in `{DESCRIPTION}`, if there is one.",
    )
    if saved.class_names:
        outputs = ("logits of classes; a single one is the log-odds of the second class.",)
    features = ("`features(rows)` of `sweeper.load(...)` returns them. Outputs are",)
    if "members" not in saved.info:  # `load.py` of an ensemble only predicts
        features = (
            "`features(rows)` of `sweeper.load(...)`, or of the `load.py` of an export without",
            "`--format`, returns them. Outputs are",
        )
    return "\n".join(
        [
            "With JAX alone (and flatbuffers, with which it reads programs), in this directory:",
            "",
            "    import jax",
            "    from jax import export",
            "",
            *x64,
            f'    with open("{FILE}", "rb") as file:',
            "        program = export.deserialize(bytearray(file.read()))",
            f"    outputs = program.call(x)  # x: {dtype}, shaped (rows, {n_features})",
            "",
            f"`x` are prepared features, in the order of `columns` in `{DESCRIPTION}`: filled,",
            "scaled and encoded as in training.",
            *features,
            *outputs,
            "",
            f"The program runs on {', '.join(_PLATFORMS)}.",
        ]
    )
