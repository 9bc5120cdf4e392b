"""The approximate memory of a class's program, without compiling it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from sweeper.config import Settings, StudyConfig
from sweeper.config.model import MlpTable, TabMTable
from sweeper.data.dataset import Dataset
from sweeper.data.order import INDEX_BYTES
from sweeper.scheduler.classes import ProgramClass
from sweeper.scheduler.cost import MEASURED_ROWS, Workload, n_parameters
from sweeper.scheduler.forecast import DataSizes, traced_structure, workload_of

_PARTS = ("train", "val", "test")
# arrays of the size of the parameters that a step needs besides model and optimizer: gradients,
# updates and the new parameters
_WORKING_COPIES = 3
# arrays that the compiler keeps for a step, besides the activations of each layer: for the hidden
# layer that the backward pass is at, for the outputs and their gradients, for the scaled inputs of
# the members of a TabM, for the waves and the values of embedded numbers
_HIDDEN_COPIES, _OUTPUT_COPIES, _MEMBER_INPUTS, _WAVES, _EMBEDDED = 4, 3, 2, 8, 5


def memory_bytes(
    config: StudyConfig, data: Dataset, program: ProgramClass, lanes: int
) -> int | None:
    """What a program of this many `lanes` needs on one device: its arguments, results and steps.

    None if it is not of plain MLPs or TabMs, whose arrays are the only ones that are counted.
    """
    from sweeper.sweep.planning import data_sizes  # which imports JAX

    sizes = data_sizes(config, data)
    found = [
        _of_branch(config, data, program, own, sizes, lanes) for own in _settings(config, program)
    ]
    known = [size for size in found if size is not None]
    return max(known) if known and len(known) == len(found) else None


def _settings(config: StudyConfig, program: ProgramClass) -> Iterator[Settings]:
    """The settings that a class compiles in, of each of its branches."""
    for params in program.branches:
        yield config.settings_of(params)
    if not program.branches:
        own = json.loads(program.settings)
        keys = [key for key in config.search if not isinstance(own.get(key, []), list)]
        yield config.settings_of({config.search[key].column(key): own[key] for key in keys})


def _of_branch(
    config: StudyConfig,
    data: Dataset,
    program: ProgramClass,
    settings: Settings,
    sizes: DataSizes,
    lanes: int,
) -> int | None:
    model = settings.model
    if not isinstance(model, MlpTable | TabMTable):
        return None
    work = workload_of(config, settings, sizes, traced_structure(config, program.lane_loop))
    width = program.padded_width or int(model.width)
    depth = program.padded_depth or int(model.depth)
    of_model = n_parameters(width, depth, work)
    state = of_model * (1 + work.optimizer_slots)
    rows = max(_of_training(width, depth, work, settings), _of_measuring(width, work, data))
    order = INDEX_BYTES * config.max_epochs * work.steps * work.batch_size
    own = (of_model * _WORKING_COPIES + rows) * work.bytes_per_number
    if program.lane_loop == "vmap":  # all lanes at once, with copies of their states and orders
        own = lanes * (own + state * work.bytes_per_number + order)
    elif len(config.members) > 1:
        own += order
    arrays = (getattr(data, f"{array}_{part}") for array in "xyw" for part in _PARTS)
    given = sum(array.nbytes for array in arrays) + order * len(config.members)
    return given + 2 * lanes * state * work.bytes_per_number + own


def _of_training(width: int, depth: int, work: Workload, settings: Settings) -> int:
    """The numbers that a step keeps for its batch."""
    columns = work.batch_size * max(1, work.ensemble_size)
    is_kept_before = work.ensemble_size or work.layer_norm or _activation(settings) != "relu"
    layers = depth * (2 if is_kept_before else 1) + _HIDDEN_COPIES
    layers += (depth + 2) * work.dropout  # what is drawn and dropped
    inputs = work.in_size * (work.batch_size + _MEMBER_INPUTS * columns * bool(work.ensemble_size))
    hidden = columns * width * layers * bool(depth)
    outputs = columns * work.out_size * _OUTPUT_COPIES
    return inputs + hidden + outputs + _embedded(work.batch_size, work)


def _of_measuring(width: int, work: Workload, data: Dataset) -> int:
    """The numbers that are kept to measure the metrics on validation or test rows."""
    rows = min(max(data.val_rows, len(data.x_test)), MEASURED_ROWS)
    columns = rows * max(1, work.ensemble_size)
    inputs = rows * work.in_size * bool(data.n_folds)  # gathered for each fold
    return inputs + 2 * columns * (width + work.out_size) + _embedded(rows, work) // 2


def _embedded(rows: int, work: Workload) -> int:
    numbers, frequencies, embedded = work.embedding
    return rows * numbers * (_WAVES * frequencies + _EMBEDDED * embedded)


def _activation(settings: Settings) -> str:
    model = settings.model
    return str(getattr(model, "activation", "relu"))
