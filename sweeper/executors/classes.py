"""The programs of a study's classes on a device of this process, each compiled once."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jax.sharding import SingleDeviceSharding

from sweeper.config import Settings, StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.executors.compiling import Compiled, compile_class
from sweeper.executors.device_data import put_data, reordered
from sweeper.executors.executor import Work
from sweeper.executors.lanes import abstract_lanes
from sweeper.executors.memory_fallback import Limit, ProgramTooLargeError, limit_on
from sweeper.executors.switch_class import on_each
from sweeper.faults import Step, fault_points
from sweeper.programs.build import Programs
from sweeper.programs.continued import SavedStart
from sweeper.programs.data_spec import data_spec
from sweeper.programs.program import Program
from sweeper.programs.segment import DeviceData
from sweeper.programs.switch import Switch
from sweeper.results.timeline import Activity, Timeline
from sweeper.scheduler.capacity import halve
from sweeper.scheduler.classes import ProgramClass
from sweeper.scheduler.signature import canonical, short_hash
from sweeper.scheduler.switching import branch_classes
from sweeper.trial import Scalar

# a program takes some MiB; one that was dropped is loaded again from the compile cache
_MOST_KEPT = 256


@dataclass(slots=True)
class _Made:
    """A class that is or will be compiled, for one capacity."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    compiled: Compiled | None = None


class Classes:
    """Builds and compiles classes, and keeps their data on the device; thread-safe.

    Classes with several structures run on all `devices`, others on the first. Of many programs,
    those that were not used for the longest time are dropped.
    """

    def __init__(
        self,
        config: StudyConfig,
        data: Dataset,
        start: SavedStart | None,
        devices: Sequence[Any],
        timeline: Timeline,
    ) -> None:
        self.devices = tuple(devices)
        self.timeline = timeline
        self._config = config
        self._data = data
        self.programs = Programs(data_spec(config, data), start)
        self._on_device: dict[tuple[int, bool], DeviceData] = {}
        self._made: dict[tuple[str, int], _Made] = {}
        self._unclaimed_s: dict[str, float] = {}
        self._limit: Limit | None = None
        self._lock = threading.Lock()

    @property
    def limit(self) -> Limit:
        """The most memory that a program may take; only call this when a device is open."""
        if self._limit is None:
            self._limit = limit_on(self.devices[0], self._config)
        return self._limit

    def prepare(self, program_class: ProgramClass, params: Mapping[str, Scalar]) -> None:
        """Compile a class in advance, for as many lanes as it may have at a time.

        Raises:
            Exception: whatever building or compiling the program raised.
        """
        capacity: int | None = program_class.capacity
        while capacity is not None:
            try:
                self.compiled(replace(program_class, capacity=capacity), params)
            except ProgramTooLargeError:
                capacity = halve(capacity, len(self._config.members))
            else:
                return

    def compiled(self, program_class: ProgramClass, params: Mapping[str, Scalar]) -> Compiled:
        """The compiled program of a class; `params` are those of any of its trials.

        Raises:
            ProgramTooLargeError: it needs more memory than allowed.
            Exception: whatever building or compiling the program raised.
        """
        made = self._used(program_class)
        with made.lock:
            if made.compiled is None:
                made.compiled = self._compile(program_class, params)
        self.limit.check(made.compiled.memory_bytes, program_class.capacity)
        return made.compiled

    def _used(self, program_class: ProgramClass) -> _Made:
        """A class, which is now the last used; drops the first of those beyond what is kept.

        A thread that still uses a program keeps it until it is done. A round has at most a class
        for each trial, so that none of it is dropped before its end.
        """
        key = program_class.class_id, program_class.capacity
        with self._lock:
            self._made[key] = self._made.pop(key, None) or _Made()
            while len(self._made) > max(_MOST_KEPT, 2 * (self._config.schedule.parallel or 0)):
                del self._made[next(iter(self._made))]
            return self._made[key]

    def needed_bytes(self, program_class: ProgramClass) -> int | None:
        """The memory of a class's program according to the compiler, if it was compiled."""
        compiled = self._known(program_class)
        return None if compiled is None else compiled.memory_bytes

    def has_compiled(self, program_class: ProgramClass) -> bool:
        """Whether a class's program was compiled."""
        return self._known(program_class) is not None

    def _known(self, program_class: ProgramClass) -> Compiled | None:
        with self._lock:
            made = self._made.get((program_class.class_id, program_class.capacity))
        return None if made is None else made.compiled

    def claimed_s(self, program_class: ProgramClass) -> float:
        """The seconds that compiling a class took, for the first caller; then 0."""
        with self._lock:
            return self._unclaimed_s.pop(program_class.class_id, 0.0)

    def program(self, program_class: ProgramClass, settings: Settings) -> Program | Switch:
        """The program of a class; `settings` are those of any of its trials."""
        branches = [self._config.settings_of(params) for params in program_class.branches]
        if branches:
            return self.programs.of_branches(program_class, branches)
        return self.programs.of_class(program_class, settings)

    def own(self, work: Work) -> Work | None:
        """A trial of a padded or switch class, moved to a class of its own structure; else None."""
        program = work.program
        if program.branches:
            exact = self.branches_of(work)[0]
        elif program.padded_width is not None:
            settings = self._config.settings_of(work.specs[0].params)
            structure = short_hash(canonical(settings.structure()))
            exact = replace(
                program,
                class_id=f"{program.class_id}-{structure}",
                strategy="exact",
                padded_width=None,
                padded_depth=None,
                run_widths=(),
                padded_parts="",
            )
        else:
            return None
        return replace(work, program=exact)

    def branches_of(self, work: Work) -> list[ProgramClass]:
        """The class of each trial's own structure in a class with branches."""
        settings = [self._config.settings_of(spec.params) for spec in work.specs]
        switch = self.program(work.program, settings[0])
        assert isinstance(switch, Switch), "only called for classes with branches"
        branches = branch_classes(work.program)
        return [branches[switch.branch_of(trial_settings)] for trial_settings in settings]

    def data_on_device(self, batch_size: int, *, is_spread: bool) -> DeviceData:
        """The data on the first device, or spread over all, for batches of this size."""
        key = batch_size, is_spread
        with self._lock:
            if key not in self._on_device:
                one = SingleDeviceSharding(self.devices[0])
                where = on_each(self.devices) if is_spread else one
                there = (data for known, data in self._on_device.items() if known[1] == is_spread)
                placed = next(there, None)
                if placed is None:
                    placed = put_data(self._config, self._data, batch_size, where)
                else:
                    placed = reordered(placed, self._config, self._data, batch_size, where)
                self._on_device[key] = placed
            return self._on_device[key]

    def _compile(self, program_class: ProgramClass, params: Mapping[str, Scalar]) -> Compiled:
        before = time.perf_counter()
        with self.timeline.spending(Activity.COMPILE, class_id=program_class.class_id) as span:
            settings = self._config.settings_of(params)
            program = self.program(program_class, settings)
            is_spread = bool(program_class.branches)
            data = self.data_on_device(settings.train.batch_size, is_spread=is_spread)
            lanes = abstract_lanes(program.layout, program_class.capacity, settings)
            with fault_points(Step.COMPILE):
                compiled = compile_class(program_class, program, lanes, data, self.devices)
            if compiled.cache_hit:
                span.activity = Activity.LOAD
        with self._lock:
            spent_s = self._unclaimed_s.get(program_class.class_id, 0.0)
            self._unclaimed_s[program_class.class_id] = spent_s + time.perf_counter() - before
        return compiled
