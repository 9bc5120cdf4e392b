"""Measures what compiling and training cost on this machine, and fits the cost model.

Programs are timed as they run in a study, with every thread of this process busy. A second in the
model is therefore a second of one thread while all others also work.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.optimize import nnls

from sweeper.config import Settings, StudyConfig, parse
from sweeper.executors.compiling import compile_class
from sweeper.executors.jax_setup import configure_jax, jax_restored
from sweeper.executors.lanes import abstract_lanes
from sweeper.executors.open_devices import check_devices
from sweeper.process import usable_cores
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.program import Batch
from sweeper.programs.segment import DeviceData, Lanes
from sweeper.scheduler.capacity import LaneLoop
from sweeper.scheduler.classes import ProgramClass
from sweeper.scheduler.cost import (
    CostModel,
    Workload,
    carry_features,
    compile_features,
    lane_features,
    shipped,
)
from sweeper.scheduler.forecast import DataSizes, traced_structure, workload_of
from sweeper.scheduler.signature import canonical, compiled_in, family_of
from sweeper.trial import Scalar

_STUDY = """
version = 1
[study]
name = "calibration"
metric = "val_loss"
direction = "minimize"
n_trials = 1
[data]
source = "sklearn"
name = "digits"
[model]
depth = 1
width = 16
[optimizer]
name = "adamw"
lr = 1e-3
[train]
loss = "cross_entropy"
batch_size = 64
[search]
"""
IN, OUT = 64, 10
LANES: Mapping[LaneLoop, int] = {"map": 2, "vmap": 16}


@dataclass(frozen=True, slots=True)
class Case:
    """A class to time: its size, a lane's own depth, and everything else that costs time.

    The lane runs at `width`; `others` are the class's other widths.
    """

    width: int
    padded_depth: int
    depth: int
    others: tuple[int, ...] = ()
    batch_size: int = 64
    layer_norm: bool = False
    dropout: bool = False
    n_activations: int = 1
    ensemble_size: int = 0
    n_frequencies: int = 0
    lane_loop: LaneLoop = "map"
    rows: int = 2048
    epochs: int = 20

    @property
    def widths(self) -> tuple[int, ...]:
        """All widths that the class runs lanes at."""
        return tuple(sorted({self.width, *self.others}))

    @property
    def sizes(self) -> DataSizes:
        """The sizes of the data that it is trained on."""
        rows = self.rows, self.rows // 8
        return DataSizes(IN, OUT, *rows, n_numbers=IN if self.n_frequencies else 0)

    def config(self) -> StudyConfig:
        """A study with one such trial."""
        names = ["relu", "tanh", "gelu", "silu"][: self.n_activations]
        search = f'model.activation={{type="categorical",choices={names}}}'
        return parse(
            _STUDY,
            Path("calibration"),
            [
                f"model.width={self.width}",
                f"model.depth={self.depth}",
                *(
                    ["model.kind=tabm", f"model.ensemble_size={self.ensemble_size}"]
                    if self.ensemble_size
                    else [f"model.layer_norm={str(self.layer_norm).lower()}"]
                ),
                *(
                    ["model.numbers=plr", f"model.n_frequencies={self.n_frequencies}"]
                    if self.n_frequencies
                    else []
                ),
                "model.embedding_size=4",
                f"model.dropout={0.1 if self.dropout else 0.0}",
                f"train.batch_size={self.batch_size}",
                f"train.epochs={self.epochs}",
                *([f"search.{search}"] if self.n_activations > 1 else []),
            ],
        )


def cases() -> tuple[Case, ...]:
    """Classes that separate the constants of the cost model; about a minute's work."""
    sizes = product((16, 64, 256), ((1, 1), (4, 1), (4, 4)))
    plain = [Case(width, padded, depth) for width, (padded, depth) in sizes]
    batches = [replace(case, batch_size=256) for case in plain if case.width != 64]
    parts = [
        replace(Case(width, 3, 3), **part)
        for width in (32, 128)
        for part in (
            *({"layer_norm": True}, {"dropout": True}, {"n_activations": 3}),
            *({"ensemble_size": 8, "epochs": 4}, {"n_frequencies": 16, "epochs": 4}),
        )
    ]
    side_by_side = [
        Case(width, depth, depth, lane_loop="vmap")
        for width, depth in product((16, 64, 256), (1, 4))
    ]
    several = [
        Case(16, 4, 1, others=(64,)),
        Case(16, 4, 4, others=(64, 256)),
        Case(64, 4, 4, others=(16, 32, 128)),
        Case(128, 3, 3, others=(32,), layer_norm=True),
        Case(32, 3, 3, others=(128,), dropout=True),
    ]
    # with few steps per epoch, the work done once per epoch matters
    few_rows = [
        Case(16, depth, depth, lane_loop=loop, batch_size=16, rows=128, epochs=100)
        for loop, depth in product(LANES, (1, 4))
    ]
    chosen = (*plain, *batches, *parts, *side_by_side, *several, *few_rows)
    # wide ones take long, compared with which the time of a call is negligible
    return tuple(replace(case, epochs=2) if case.width == 256 else case for case in chosen)


# how often each case is trained, alternating with the others, and for how many seconds each time
_ROUNDS, _TRAIN_S = 3, 0.25


@dataclass(frozen=True, slots=True)
class Timing:
    """The measurement of one case: features and seconds of compiling and of training a lane."""

    case: Case
    compile_features: Mapping[str, float]
    compile_s: float
    lane_features: Mapping[str, float]
    lane_s: float


def measure(
    chosen: Sequence[Case], threads: int, report: Callable[[int, int], None]
) -> list[Timing]:
    """Time each case while `threads` of them run; `report` is called with the number done.

    All are compiled before any is trained, since a compiling thread would take more than its core.
    The fastest of several rounds counts, since the speed of a machine changes from minute to
    minute.
    """
    count = (1 + _ROUNDS) * len(chosen)
    done = iter(range(1, count + 1))

    def reported(task: Callable[[], Any]) -> Any:
        result = task()
        report(next(done), count)
        return result

    with ThreadPoolExecutor(threads) as pool:
        compiled = list(pool.map(reported, [partial(_compile_case, case) for case in chosen]))
        training = [partial(_lane_s, ready) for ready in compiled]
        rounds = [list(pool.map(reported, training)) for _ in range(_ROUNDS)]
    return [_timing(ready, min(taken)) for ready, *taken in zip(compiled, *rounds, strict=True)]


def fit(timings: Sequence[Timing], like: CostModel) -> CostModel:
    """The cost model that predicts `timings` with the least relative error.

    Non-negative least squares; constants that no timing depends on keep their value in `like`.
    """
    compiling = [(timing.compile_features, timing.compile_s) for timing in timings]
    training = [(timing.lane_features, timing.lane_s) for timing in timings]
    return replace(like, **_fitted(compiling), **_fitted(training))


def errors(timings: Sequence[Timing], model: CostModel) -> Iterator[tuple[Case, float, float]]:
    """The relative errors of each prediction: of compiling and of training."""
    for timing in timings:
        predicted = (_dot(timing.compile_features, model), _dot(timing.lane_features, model))
        yield (
            timing.case,
            predicted[0] / timing.compile_s - 1,
            predicted[1] / timing.lane_s - 1,
        )


def record(model: CostModel) -> dict[str, Any]:
    """The content of a file of constants: the model, and the machine it was measured on."""
    device = jax.devices()[0].device_kind
    cores = usable_cores()
    fitted_on = f"{device}, {platform.machine()}, {cores} cores, jax {version('jax')}"
    return {"measured": True, "fitted_on": fitted_on, "model": model.as_dict()}


def calibrate(report: Callable[[int, int], None]) -> dict[str, Any]:
    """Measure this machine and fit the cost model to it; `report` is called with the progress.

    Raises:
        SetupError: JAX can open no device.
    """
    with jax_restored():
        configure_jax("float32")
        check_devices()
        jax.config.update("jax_enable_compilation_cache", False)
        timings = measure(cases(), usable_cores(), report)
        return record(fit(timings, shipped(jax.default_backend())))


def _dot(features: Mapping[str, float], model: CostModel) -> float:
    return sum(count * getattr(model, name) for name, count in features.items())


def _fitted(rows: Sequence[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    names = [field.name for field in fields(CostModel)]
    used = [name for name in names if any(features.get(name) for features, _ in rows)]
    # each row is divided by its seconds, so that small and large programs count equally
    matrix = np.array([[features.get(name, 0) / s for name in used] for features, s in rows])
    scale = matrix.max(axis=0)
    constants, _ = nnls(matrix / scale, np.ones(len(rows)))
    return dict(zip(used, (constants / scale).tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class _Ready:
    """A compiled case: what compiling took, and a call that trains all of its lanes."""

    case: Case
    work: Workload
    capacity: int
    compile_s: float
    run: Callable[[], Any]


def _lane_s(ready: _Ready) -> float:
    """Train the lanes repeatedly for a while; returns the median seconds per lane."""
    _seconds(ready.run)  # the first call may take longer
    taken_s: list[float] = []
    while sum(taken_s) < _TRAIN_S:
        taken_s.append(_seconds(ready.run))
    return float(np.median(taken_s)) / ready.capacity


def _timing(ready: _Ready, lane_s: float) -> Timing:
    case, work = ready.case, ready.work
    size = case.width, case.padded_depth, case.depth
    training = lane_features(*size, work, case.lane_loop, ready.capacity)
    if case.lane_loop == "map":
        training |= carry_features(case.widths[-1], case.padded_depth, work)
    compiling = compile_features(case.padded_depth, work, len(case.widths))
    return Timing(case, compiling, ready.compile_s, training, lane_s)


def _compile_case(case: Case) -> _Ready:
    """The compiled program of a case with lanes to train in it, and how long compiling took."""
    config = case.config()
    settings = config.settings_of({})
    traced = traced_structure(config, case.lane_loop)
    program_class = _class_of(case, settings, traced)
    units = (0.0,), (1.0,)
    numbers = case.sizes.n_numbers
    spec = DataSpec(IN, OUT, case.rows, *units, False, "float32", 0, n_numbers=numbers)
    program = Programs(spec).of_class(program_class, settings)
    abstract = abstract_lanes(program.layout, program_class.capacity, settings)
    data = _random_data(case)
    before = time.perf_counter()
    devices = jax.local_devices()
    compiled = compile_class(program_class, program, abstract, data, devices)
    compile_s = time.perf_counter() - before
    first, stop = np.array(0, np.int32), np.array(case.epochs, np.int32)
    lanes = [
        Lanes(
            program.layout.init(index, settings),
            program.layout.lane(index, settings),
            first,
            first,
            stop,
        )
        for index in range(program_class.capacity)
    ]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *lanes)
    return _Ready(
        case,
        workload_of(config, settings, case.sizes, traced),
        program_class.capacity,
        compile_s,
        partial(compiled.run, stacked, data),
    )


def _class_of(
    case: Case, settings: Settings, traced: Mapping[str, Sequence[Scalar]]
) -> ProgramClass:
    """The class of a case: exact if its depth and its padded depth are 1, else padded."""
    is_padded = (case.padded_depth, case.depth) != (1, 1)
    exact, family = compiled_in(settings, traced), family_of(settings, traced)
    return ProgramClass(
        class_id="calibration",
        settings=(family or "") if is_padded else canonical(exact),
        strategy="padded" if is_padded else "exact",
        lane_loop=case.lane_loop,
        capacity=LANES[case.lane_loop],
        precision="float32",
        padded_width=case.widths[-1] if is_padded else None,
        padded_depth=case.padded_depth if is_padded else None,
        run_widths=case.widths if case.others else (),
    )


def _random_data(case: Case) -> DeviceData:
    rng = np.random.default_rng(0)

    def batch(rows: int) -> Batch:
        x = rng.normal(size=(rows, IN)).astype(np.float32)
        return Batch(x, rng.integers(OUT, size=rows).astype(np.int32))

    steps = case.rows // case.batch_size
    order = np.stack([rng.permutation(case.rows) for _ in range(case.epochs)])
    rows = order[:, : steps * case.batch_size].reshape(1, case.epochs, steps, -1)
    data = DeviceData(batch(case.rows), batch(case.sizes.val_rows), batch(0), rows.astype(np.int32))
    return jax.device_put(data)


def _seconds(call: Callable[[], Any]) -> float:
    before = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - before
