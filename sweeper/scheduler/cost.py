"""The predicted seconds to compile a class and to train a lane in it.

Every prediction is the dot product of features (how often something is done) and constants (the
seconds it takes once). The features are public, so that code that fits the constants to measured
times, by non-negative least squares, always agrees with the predictions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from importlib.resources import files
from typing import Any

from sweeper.scheduler.capacity import LaneLoop

# An accelerator without measured constants is closer to a GPU than to a CPU.
_SHIPPED = {"cpu": "cpu.json"}
_SHIPPED_ELSE = "gpu.json"
# an integer in JSON may be larger
_LARGEST = sys.float_info.max

MEASURED_ROWS = 1024
"""A model is evaluated on this many rows at a time; with many lanes side by side that is a lot."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a lane does, apart from its width and depth.

    - `steps`: per epoch
    - `epochs`: the mean over trials, of all members of a trial together
    - `n_activations`: how many are traced in one program; 1 if the activation is compiled in
    - `optimizer_slots`: the arrays of the size of the parameters that the optimizer keeps, 2 for
      adamw, 1 for sgd
    - `bytes_per_number`: 4 or 8
    - `ensemble_size`: that of a TabM; 0 for an MLP
    - `embedding`: how many numbers are embedded, the frequencies of each, and the size of each
      embedding, which counts among the inputs
    """

    in_size: int
    out_size: int
    batch_size: int
    steps: int
    epochs: float
    val_rows: int
    layer_norm: bool
    dropout: bool
    n_activations: int
    optimizer_slots: int
    bytes_per_number: int
    ensemble_size: int = 0
    embedding: Sequence[int] = (0, 0, 0)


def n_parameters(width: int, depth: int, workload: Workload) -> int:
    """The number of parameters of `depth` hidden layers of `width`; depth 0 is linear."""
    numbers, frequencies, embedded = workload.embedding
    embedding = numbers * (frequencies + embedded * (2 * frequencies + 1))
    if size := workload.ensemble_size:
        scales = workload.in_size + (3 * depth - 1) * width  # with biases
        last = (width + 1) * workload.out_size
        weights = width * (workload.in_size + (depth - 1) * width)
        return embedding + weights + size * (scales + last)
    biases = depth * width + workload.out_size
    norms = 2 * depth * width if workload.layer_norm else 0
    return embedding + _n_weights(width, depth, workload) + biases + norms


def flops(width: int, depth: int, rows: int, workload: Workload) -> int:
    """The additions and multiplications of one forward pass of `rows` rows, in matrices only."""
    numbers, frequencies, embedded = workload.embedding
    of_layers = max(1, workload.ensemble_size) * _n_weights(width, depth, workload)
    return 2 * rows * (of_layers + 2 * numbers * frequencies * embedded)


def _n_weights(width: int, depth: int, workload: Workload) -> int:
    if depth == 0:
        return workload.in_size * workload.out_size
    return width * (workload.in_size + workload.out_size + (depth - 1) * width)


def compile_features(depth: int, workload: Workload, widths: int = 1) -> dict[str, float]:
    """How often each constant counts when a class of `depth` hidden layers is compiled.

    The class runs lanes at this many `widths`.
    """
    layers = depth * widths
    return {
        "compile_base_s": 1,
        "compile_width_s": widths - 1,
        "compile_layer_s": depth,
        "compile_layer_norm_s": layers * workload.layer_norm,
        "compile_dropout_s": layers * workload.dropout,
        "compile_activation_s": layers * (workload.n_activations - 1),
    }


def carry_features(width: int, depth: int, workload: Workload) -> dict[str, float]:
    """How often each constant counts to pass a `map` lane to a class of this size and back."""
    numbers = n_parameters(width, depth, workload) * (1 + workload.optimizer_slots)
    return {"carry_number_s": numbers * workload.bytes_per_number / 4}


def lane_features(
    width: int,
    padded_depth: int,
    depth: int,
    workload: Workload,
    lane_loop: LaneLoop,
    capacity: int,
) -> dict[str, float]:
    """How often each constant counts when one lane trains for all of its epochs.

    The lane runs at this `width` in a class of `padded_depth`, and has `depth` hidden layers. A
    `map` lane runs only its own layers. A `vmap` lane runs all layers, and shares the work that is
    done once per bucket with the other lanes, `capacity` in total.
    """
    loop, layers, lanes = (
        ("step", depth, 1) if lane_loop == "map" else ("vmap", padded_depth, capacity)
    )
    steps = workload.epochs * workload.steps
    forward = flops(width, layers, workload.batch_size, workload)
    evaluation = flops(width, layers, workload.val_rows, workload)
    kept = n_parameters(width, layers, workload) * (1 + workload.optimizer_slots)
    scale = workload.bytes_per_number / 4
    rows = workload.batch_size * max(1, workload.ensemble_size)
    hidden = steps * rows * width * layers * scale
    numbers, frequencies, _ = workload.embedding
    embedded_rows = steps * workload.batch_size + workload.epochs * workload.val_rows
    waves = numbers * frequencies * embedded_rows
    return {
        f"{loop}_base_s": steps / lanes,
        f"{loop}_layer_s": steps * layers / lanes,
        f"{loop}_flop_s": (3 * steps * forward + workload.epochs * evaluation) * scale,
        f"{loop}_parameter_s": steps * kept * scale,
        "step_row_s": steps * workload.batch_size * scale,
        "step_layer_norm_s": hidden * workload.layer_norm,
        "step_dropout_s": hidden * workload.dropout,
        "step_ensemble_s": hidden * (workload.ensemble_size > 0),
        "step_periodic_s": waves * scale,
        "epoch_base_s": workload.epochs / lanes,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """The seconds that operations take once on one backend, all finite and not negative.

    Flops, parameters, rows and units have four bytes; one with eight bytes counts twice. The
    seconds of a `map` lane are seconds of one core. In flops, forward and backward together are
    three times forward. Models of earlier versions may lack the constants with a default.
    """

    backend: str
    compile_base_s: float
    """Compiling, per class."""
    compile_width_s: float = 0.7
    """Compiling, per width after the first at which the class runs lanes."""
    compile_layer_s: float
    """Compiling, per layer of the class."""
    compile_layer_norm_s: float
    """Compiling, per layer and width."""
    compile_dropout_s: float
    """Compiling, per layer and width."""
    compile_activation_s: float
    """Compiling, per layer, width and activation after the first."""
    compile_cached_s: float
    """Loading a class from the cache on disk, instead of all of the above."""
    step_base_s: float
    """A step of a `map` lane."""
    step_layer_s: float
    """A step of a `map` lane, per hidden layer that runs."""
    step_flop_s: float
    """A step of a `map` lane, per flop."""
    step_parameter_s: float
    """A step of a `map` lane, per parameter of the layers that run, and per number that the
    optimizer keeps for it."""
    step_row_s: float = 0.0
    """A step in both loops, per row of a batch."""
    step_layer_norm_s: float
    """A step in both loops, per hidden unit of each row of a batch and each member."""
    step_dropout_s: float
    """Counted like `step_layer_norm_s`."""
    step_ensemble_s: float = 3e-9
    """For the scales and biases of a TabM; counted like `step_layer_norm_s`."""
    step_periodic_s: float = 1.5e-8
    """In both loops, per frequency of each embedded number of a row."""
    epoch_base_s: float
    """An epoch of a `map` lane or a `vmap` bucket."""
    carry_number_s: float = 5e-9
    """Passing a `map` lane to its class and back, per number in its state at the size of the
    class."""
    vmap_base_s: float
    """A step of a `vmap` bucket, shared by its lanes."""
    vmap_layer_s: float
    """A step of a `vmap` bucket, per layer, shared by its lanes."""
    vmap_flop_s: float
    """A step of a `vmap` bucket, per flop of each lane."""
    vmap_parameter_s: float
    """A step of a `vmap` bucket, per parameter of each lane, counted like `step_parameter_s`."""
    start_s: float = 1.8
    """A command before its first compilation and after its last bucket."""
    worker_start_s: float
    """A worker process before its first compilation."""

    def compile_s(self, depth: int, workload: Workload, widths: int = 1) -> float:
        """Seconds to compile a class of `depth` hidden layers, with an empty cache."""
        return self._dot(compile_features(depth, workload, widths))

    def carry_s(self, width: int, depth: int, workload: Workload) -> float:
        """Seconds to pass a `map` lane to a class of this size and back."""
        return self._dot(carry_features(width, depth, workload))

    def lane_s(
        self,
        width: int,
        padded_depth: int,
        depth: int,
        workload: Workload,
        lane_loop: LaneLoop,
        capacity: int,
    ) -> float:
        """Seconds to train one lane for all of its epochs; see `lane_features`."""
        return self._dot(lane_features(width, padded_depth, depth, workload, lane_loop, capacity))

    def _dot(self, features: Mapping[str, float]) -> float:
        return sum(count * getattr(self, name) for name, count in features.items())

    def as_dict(self) -> dict[str, Any]:
        """The model as values for JSON; `from_dict` reads it."""
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> CostModel:
        """The model that `as_dict` wrote.

        Raises:
            ValueError: a field is missing, unknown, not a number, not finite or negative; the
                message names it.
        """
        usual = {field.name: field.default for field in fields(CostModel)}
        needed = [name for name, default in usual.items() if default is MISSING]
        wrong = [f"{name}: missing" for name in needed if name not in values]
        wrong += [f"{name}: unknown constant" for name in values if name not in usual]
        if wrong:
            raise ValueError("; ".join(wrong))
        constants = {name: _seconds(name, values[name]) for name in values if name != "backend"}
        return CostModel(backend=_text("backend", values["backend"]), **constants)


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"{name}: {value!r} is not a string")


def _seconds(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST:
        return float(value)
    raise ValueError(f"{name}: {value!r} is not a finite number of seconds, 0 or more")


def shipped(backend: str) -> CostModel:
    """The constants that the package contains for `backend` ("cpu", "gpu", "tpu", ...)."""
    file = files("sweeper.scheduler") / "costs" / _SHIPPED.get(backend, _SHIPPED_ELSE)
    return CostModel.from_dict(json.loads(file.read_text(encoding="utf-8"))["model"])
