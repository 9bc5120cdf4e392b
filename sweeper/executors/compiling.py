"""Compiles a class, with a disk cache that later starts of the program use, and runs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sweeper.executors.switch_class import SwitchRunner, device_mesh, spread_lanes, work_of
from sweeper.programs.program import Program
from sweeper.programs.segment import DeviceData, Lanes, Segment, segment
from sweeper.programs.switch import Switch, switch_segment
from sweeper.scheduler.classes import ProgramClass
from sweeper.scheduler.signature import may_draw
from sweeper.scheduler.switching import branch_settings

_CACHE_HIT = "/jax/compilation_cache/cache_hits"
# otherwise parameters are copied in each step, since a loop reads and then changes them
_IN_PLACE = "xla_cpu_copy_insertion_use_region_analysis"
_LEVEL = "xla_backend_optimization_level"
# two threads that trace block each other, and XLA has nothing to do until both are done
_tracing = threading.Lock()
_WHOLE = ""  # the single program of a class without phases


Run = Callable[[Lanes, DeviceData], Segment]
PhaseAt = Callable[[int], str]
"""Maps a lane's epoch to its phase; epochs count from 1."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A class's program, or those of its phases by name; `cache_hit` if all came from disk.

    `memory_bytes` is what the largest needs with its inputs and outputs, on each of its `devices`;
    None if XLA does not say.
    """

    programs: Mapping[str, Run]
    cache_hit: bool
    memory_bytes: int | None
    devices: tuple[Any, ...]

    def run(self, lanes: Lanes, data: DeviceData, phases: Sequence[PhaseAt] = ()) -> Segment:
        """Train the lanes; `phases` are those of each lane, if there is one program per phase."""
        if _WHOLE in self.programs:
            return self.programs[_WHOLE](lanes, data)
        return _run_phases(self.programs, lanes, data, phases)


class _CacheHits(threading.local):
    """Counts programs that this thread took from the cache; JAX reports in that thread."""

    count = 0

    def __call__(self, event: str, **_: Any) -> None:
        self.count += event == _CACHE_HIT


_cache_hits = _CacheHits()
jax.monitoring.register_event_listener(_cache_hits)


def compile_class(
    program_class: ProgramClass,
    program: Program | Switch,
    lanes: Lanes,
    data: DeviceData,
    devices: Sequence[Any],
) -> Compiled:
    """Compile `program` for a class; the function is named after it, for profilers.

    A program of several structures is compiled for all `devices`, others for the first; `data`
    must be on them.
    """
    phases: Mapping[str, Program | Switch] = program.phases
    hits, runs, memory = _cache_hits.count, dict[str, Run](), list[int | None]()
    for phase, own in (phases or {_WHOLE: program}).items():
        name = "_".join(filter(None, ("segment", program_class.class_id, phase)))
        run = _compile_program(own, program_class, name, lanes, data, devices)
        is_spread = isinstance(own, Switch)
        runs[phase] = SwitchRunner(run, work_of(own), len(devices)) if is_spread else run
        memory.append(_memory_bytes(run))
    largest = None if None in memory else max(size for size in memory if size is not None)
    used = tuple(devices) if isinstance(program, Switch) else (devices[0],)
    return Compiled(runs, _cache_hits.count - hits == len(runs), largest, used)


def _compile_program(
    program: Program | Switch,
    program_class: ProgramClass,
    name: str,
    lanes: Lanes,
    data: DeviceData,
    devices: Sequence[Any],
) -> jax.stages.Compiled:
    if isinstance(program, Switch):
        mesh = device_mesh(devices)
        function, lanes = switch_segment(program, mesh), spread_lanes(lanes, mesh)
    else:
        function = segment(program, program_class.lane_loop)
    function.__name__ = function.__qualname__ = name
    options = _on_cpu(program_class) if devices[0].platform == "cpu" else None
    with _tracing:
        lowered = jax.jit(function).lower(lanes, data)
    return lowered.compile(compiler_options=options)


def _on_cpu(program_class: ProgramClass) -> dict[str, str | bool]:
    """XLA's options for a class on a CPU.

    At level 3, the default, LLVM fully unrolls loops over the units of a narrow layer, and then
    does not vectorize them; but it draws random numbers in a loop without branches. So models that
    may draw get level 3, also user-defined ones, which gain nothing from level 2 otherwise.
    """
    branches = branch_settings(program_class) if program_class.branches else ()
    is_drawing = any(map(may_draw, branches or (program_class.settings,)))
    return {_IN_PLACE: True, _LEVEL: "3" if is_drawing else "2"}


def _memory_bytes(run: jax.stages.Compiled) -> int | None:
    needed: Any = run.memory_analysis()
    if needed is None:
        return None
    parts = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
    return sum(getattr(needed, part) for part in parts)


def _run_phases(
    programs: Mapping[str, Run], lanes: Lanes, data: DeviceData, phases: Sequence[PhaseAt]
) -> Segment:
    """Train the lanes; `phases[i]` are those of lane `i`, and spare lanes have none.

    Each call trains the lanes that are in one phase to the end of it, and leaves the others
    unchanged, since the phases of lanes may differ. States stay on the device in between.
    """
    at, stop = np.array(lanes.start), np.array(lanes.stop)
    done: Segment | None = None
    while (live := np.flatnonzero(at < stop)).size:
        behind = live[np.argmin(at[live])]
        phase = phases[behind](int(at[behind]) + 1)
        ends = np.array([_end(phases, phase, i, at[i], stop[i]) for i in range(len(at))], at.dtype)
        trained = programs[phase](replace(lanes, start=at, stop=ends), data)
        moved = jnp.asarray(ends > at)
        done = trained if done is None else _merge_segments(done, trained, moved)
        lanes = replace(lanes, state=trained.state)
        if trained.ended is None:
            at = ends
        else:
            assert trained.last is not None
            is_on = ends > at
            at = np.where(is_on, np.asarray(trained.last), at).astype(at.dtype)
            # lanes that have ended stop; those that ended in an earlier round are first tested
            stop = np.where(is_on & np.asarray(trained.ended), np.minimum(stop, at), stop)
    assert done is not None, "every bucket has a lane that trains"
    return done if done.last is None else replace(done, last=jnp.asarray(at))


def _end(phases: Sequence[PhaseAt], phase: str, lane: int, at: int, stop: int) -> int:
    """The epoch at which a lane's run of this phase ends; its current epoch in another phase."""
    while at < stop and phases[lane](int(at) + 1) == phase:
        at += 1
    return at


def _merge_segments(done: Segment, trained: Segment, moved: jnp.ndarray) -> Segment:
    """All measurements so far; the test scores of a lane are its last ones."""
    test = jnp.where(moved[:, None], trained.test, done.test)
    # each call fills in the epochs that it trained, and the others are 0
    return replace(trained, curves=done.curves + trained.curves, test=test)
