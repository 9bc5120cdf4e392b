"""What a study file and a backend determine about planning, before the first trial is proposed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sweeper.config import StudyConfig
from sweeper.config.model import ModelKind
from sweeper.scheduler.capacity import LaneLoop
from sweeper.scheduler.classes import Policy, Switching
from sweeper.scheduler.forecast import Forecast, traced_structure
from sweeper.scheduler.population import one_of_each
from sweeper.scheduler.switching import MAX_BRANCHES

_PARALLEL_BEFORE = 32  # until edition 2
# if results decide which trials continue or come next, a generation is this part of all trials
_GENERATIONS = 8
# rounds per trial, and the least seconds of training per round, in all threads together
_ROUNDS = 4
_WORTH_S = 60.0


def policy_of(
    config: StudyConfig,
    rungs: Iterable[int],
    forecast: Forecast,
    n_trials: int,
    devices: int = 1,
) -> Policy:
    """The policy of a study with this forecast; `rungs` are those of the pruner.

    `n_trials` is the highest number that the study was ever asked to run: a lower number changes no
    class. `devices` are those of this process.
    """
    return Policy(
        strategy=config.execution.strategy,
        lane_loop=forecast.lane_loop,
        precision=config.execution.precision,
        trials_a_structure={
            kind: _expected(config, kind, n_trials, forecast.lane_loop) for kind in config.kinds
        },
        forecast=forecast,
        stops=_stops(config, tuple(rungs), forecast),
        members=len(config.members),
        given=config.trial and config.trial.program,
        switching=_switching(config, forecast.lane_loop, n_trials, devices),
    )


@dataclass(frozen=True, slots=True)
class Parallel:
    """How many trials train at a time, and why."""

    trials: int
    why: str


def default_parallel(config: StudyConfig, backend: str, n_trials: int) -> Parallel:
    """How many of `n_trials` train at a time on `backend` ("cpu", "gpu", ...) by default.

    The fewer they are, the sooner a sampler or pruner has results, but the less busy a device is; a
    CPU needs few. The number of devices has no influence, or rows would depend on it.
    """
    if config.edition < 3:
        return Parallel(_PARALLEL_BEFORE, f"the default of edition {config.edition}")
    sampler, pruner = config.study.sampler, config.study.pruner
    is_cpu, generation = backend == "cpu", n_trials // _GENERATIONS
    least, most = (4, 32) if is_cpu else (32, 1024)
    if sampler.learns and config.search:
        trials = min(max(generation, least), most)
        return Parallel(trials, f"few, so that {sampler.name} learns from earlier trials")
    if not is_cpu:
        return Parallel(most, "many, since this device trains them in little more time than one")
    if pruner.name != "none":
        return Parallel(
            min(max(generation, least), most), f"few, so that {pruner.name} finds a good trial soon"
        )
    return Parallel(most, "enough to keep a CPU busy")


def _switching(
    config: StudyConfig, lane_loop: LaneLoop, n_trials: int, devices: int
) -> Switching | None:
    if config.trial is not None or config.execution.strategy != "switch":
        return None
    traced = traced_structure(config, lane_loop)
    return Switching(
        space=one_of_each(config, traced, n_trials, MAX_BRANCHES),
        lanes=min(n_trials, config.parallel) * len(config.members),
        devices=devices,
    )


def _expected(config: StudyConfig, kind: ModelKind, n_trials: int, lane_loop: LaneLoop) -> float:
    structures = config.n_structures_of(kind, traced_structure(config, lane_loop))
    return n_trials / len(config.kinds) / structures if structures else 0.0


def lane_loop_of(config: StudyConfig, backend: str) -> LaneLoop:
    """How lanes run on `backend` ("cpu", "gpu", ...).

    On a CPU `map`: its results do not depend on capacity, bit for bit, and absent lanes cost
    nothing. Lanes of switch classes run one after the other on every backend: side by side, each
    would run every branch.
    """
    if config.trial is not None:
        return config.trial.program.lane_loop
    if config.execution.lane_loop != "auto":
        return config.execution.lane_loop
    if config.execution.strategy == "switch":
        return "map"
    return "map" if backend == "cpu" else "vmap"


def _stops(config: StudyConfig, rungs: tuple[int, ...], forecast: Forecast) -> tuple[int, ...]:
    """The epochs at which a round may end: the pruner's rungs, else quarters of the epochs.

    Without a pruner, rounds are long enough that each is worth committing.
    """
    parts = _ROUNDS
    if config.study.pruner.name == "none":
        wave_s = forecast.train_s(min(config.parallel, config.study.n_trials))
        parts = _ROUNDS if wave_s is None else max(1, round(min(_ROUNDS, wave_s / _WORTH_S)))
    return config.schedule.round_ends(config.max_epochs, rungs, parts)
