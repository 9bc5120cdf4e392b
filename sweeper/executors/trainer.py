"""Trains one bucket on the device of this process: in a thread of the parent, or in a worker."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import jax

from sweeper.config import Settings, StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.errors import SetupError
from sweeper.executors.branchwise import joined, parted
from sweeper.executors.compiling import Compiled, compile_class
from sweeper.executors.executor import Outcome, Place, Work
from sweeper.executors.lanes import Start, abstract_lanes, judged_columns, result, stack
from sweeper.executors.parts import device_parts
from sweeper.executors.places import on_devices, peak_memory, place_here, place_of
from sweeper.executors.retry import failed
from sweeper.executors.spread import on_each_device
from sweeper.faults import Step, fault_points
from sweeper.programs.build import Programs
from sweeper.programs.checkpoint import LaneFile, LaneName, write_lanes
from sweeper.programs.continued import Start as SavedStart
from sweeper.programs.data_spec import data_spec
from sweeper.programs.program import Layout, Program, State, at_its_best, only_model
from sweeper.programs.segment import Parts, Segment
from sweeper.programs.switch import Switch
from sweeper.programs.tensors import CheckpointError
from sweeper.scheduler import plan
from sweeper.scheduler.buckets import ProgramClass
from sweeper.scheduler.switching import branch_classes
from sweeper.trial import Failure, Reason, Scalar
from sweeper.user_code import RAISED

_log = logging.getLogger("sweeper")


@dataclass(slots=True)
class _Made:
    """A class that is or will be compiled; `seconds` that took, until a bucket was told."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    compiled: Compiled | None = None
    seconds: float = 0.0


class Trainer:
    """Compiles each class once and trains its buckets; safe to use from several threads."""

    def __init__(
        self, config: StudyConfig, data: Dataset, checkpoints: Path, start: SavedStart | None = None
    ) -> None:
        self._config = config
        self._start_from = start
        self._data = data
        self._checkpoints = checkpoints
        self._spec = data_spec(config, data)
        self._programs = Programs(self._spec, start)
        self._parts: dict[tuple[int, bool], Parts] = {}
        self._made: dict[str, _Made] = {}
        self._lock = threading.Lock()

    def use(self, data: Dataset) -> None:
        """Train on `data` instead; programs that were compiled for its sizes stay."""
        spec = data_spec(self._config, data)
        with self._lock:
            if spec != self._spec or not data.has_sizes_of(self._data):
                programs = Programs(spec, self._start_from)
                self._spec, self._programs, self._made = spec, programs, {}
            self._data = data
            self._parts.clear()

    def compile(self, program_class: ProgramClass, params: Mapping[str, Scalar]) -> None:
        """Compile a class, once; `params` are those of any of its trials.

        Raises:
            Exception: what building or compiling the program raised.
        """
        with self._lock:
            made = self._made.setdefault(program_class.class_id, _Made())
        with made.lock:
            if made.compiled is not None:
                return
            before = time.perf_counter()
            settings = self._config.filled(params)
            program = self._program(program_class, settings)
            parts = self._parts_for(settings.train.batch_size, program)
            lanes = abstract_lanes(program, program_class.capacity, settings)
            with fault_points(Step.COMPILE):
                made.compiled = compile_class(program_class, program, lanes, parts)
            made.seconds = time.perf_counter() - before

    def train(self, work: Work, place: str, memory_fraction: float | None) -> Outcome:
        """The outcome of `work`; an exception in a program fails its lanes and nothing else.

        So does sys.exit in code of the user's, which is traced here.

        Where it has several structures, it fails those of the structure that raises it.

        Raises:
            SetupError: the disk does not take the lanes' state, which is no fault of theirs.
        """
        started_at = time.time()
        where = place_here(place, memory_fraction)
        try:
            with fault_points(Step.TRAIN):
                return self._train(work, where, started_at)
        except SetupError:
            raise
        except RAISED as error:
            if work.program.branches:
                return self._by_branch(work, place, memory_fraction, error)
            failure = Failure(_reason(error), type(error).__name__, traceback.format_exc())
            return failed(work, failure, where, started_at)

    def _train(self, work: Work, place: Place, started_at: float) -> Outcome:
        settings = [self._config.filled(spec.params) for spec in work.specs]
        program = self._program(work.program, settings[0])
        parts = self._parts_for(settings[0].train.batch_size, program)
        pairs = zip(work.bucket.lanes, settings, strict=True)
        files = self._files(work)
        starts = [self._start(program, lane, its, files) for lane, its in pairs]
        members = self._config.members
        lanes = stack(work, starts, settings, program, members)
        compiled, compile_s = self._compiled_for(work)
        before = time.perf_counter()
        phases = [its.phase_at for its in settings for _ in members]
        spare = [phases[0]] * (work.program.capacity - len(phases))
        segment: Segment = jax.device_get(compiled.run(lanes, parts, [*phases, *spare]))
        train_s = time.perf_counter() - before

        def lanes_of(index: int) -> slice:
            return slice(index * len(members), (index + 1) * len(members))

        file, digest = self._write(work, segment, settings, program)
        judged = judged_columns(program.metrics, self._config.study.objectives)
        return Outcome(
            bucket=work.bucket,
            lanes=tuple(
                replace(
                    result(
                        lane,
                        segment,
                        lanes_of(index),
                        judged,
                        parts.order.shape[2],
                        place_of(lanes_of(index), segment, place, compiled.devices),
                    ),
                    checkpoint=file,
                    retrained=starts[index].retrained,
                )
                for index, lane in enumerate(work.bucket.lanes)
            ),
            digests={file: digest},
            place=on_devices(place, compiled.devices),
            started_at=started_at,
            compile_s=compile_s,
            cache_hit=compiled.cache_hit and compile_s > 0,
            train_s=train_s,
            peak_memory_bytes=peak_memory(compiled.devices),
            attempt=1,
            memory_predicted_bytes=compiled.memory_bytes,
            finished_at=time.time(),
        )

    def _by_branch(
        self, work: Work, place: str, memory_fraction: float | None, error: BaseException
    ) -> Outcome:
        """The outcome of a switch class whose program fails, each of its structures by itself."""
        told = f"{type(error).__name__}: {error}"
        _log.warning("class %s trains one structure at a time: %s", work.program.class_id, told)
        settings = [self._config.filled(spec.params) for spec in work.specs]
        switch = self._program(work.program, settings[0])
        assert isinstance(switch, Switch), "asked of classes with branches"
        branches = branch_classes(work.program)
        parts = parted(work, [branches[switch.branch_of(its)] for its in settings])
        return joined(work, [self.train(part, place, memory_fraction) for part in parts])

    def _program(self, program_class: ProgramClass, settings: Settings) -> Program | Switch:
        """The program of a class; `settings` are those of any of its trials."""
        branches = [self._config.filled(params) for params in program_class.branches]
        if branches:
            return self._programs.of_branches(program_class, branches)
        return self._programs.of_class(program_class, settings)

    def _start(
        self, program: Layout, lane: plan.Lane, settings: Settings, files: Mapping[str, LaneFile]
    ) -> Start:
        """Where the lane goes on; from the first epoch again where its checkpoint is bad.

        A trial is a function of its parameters, so training it again gives the same state.
        """
        members = self._config.members
        file = files.get(lane.checkpoint)
        if file is not None:
            like = program.exact_abstract(settings)
            try:
                own = [file.lane(lane.number, like, index) for index in range(len(members))]
                states = tuple(program.padded(state, settings) for state in own)
                return Start(states, lane.epoch_from)
            except CheckpointError as error:
                _log.warning("trial %d is trained again: %s", lane.number, error)
        fresh = (program.init(lane.number, settings, member.replicate) for member in members)
        return Start(tuple(fresh), 0, retrained=bool(lane.checkpoint))

    def _files(self, work: Work) -> dict[str, LaneFile]:
        """The checkpoints that the lanes of a bucket go on from, but those that are damaged."""
        found: dict[str, LaneFile] = {}
        for name in {lane.checkpoint for lane in work.bucket.lanes if lane.checkpoint}:
            try:
                file = LaneFile(self._checkpoints / name, work.digests[name])
            except CheckpointError as error:
                _log.warning("its trials are trained again: %s", error)
                continue
            if file.other_versions:
                _log.warning("%s was written by %s", name, file.other_versions)
            found[name] = file
        return found

    def _compiled_for(self, work: Work) -> tuple[Compiled, float]:
        """The class's program, and the seconds that compiling took, to the first who asks."""
        self.compile(work.program, work.specs[0].params)
        made = self._made[work.program.class_id]
        with made.lock:
            seconds, made.seconds = made.seconds, 0.0
        assert made.compiled is not None
        return made.compiled, seconds

    def _parts_for(self, batch_size: int, program: Program | Switch) -> Parts:
        """The data on the device, or on all of them, for programs with batches of this size."""
        is_spread = isinstance(program, Switch)
        key = batch_size, is_spread
        with self._lock:
            if key not in self._parts:
                where = on_each_device() if is_spread else None
                self._parts[key] = device_parts(self._config, self._data, batch_size, where)
            return self._parts[key]

    def _write(
        self, work: Work, segment: Segment, settings: Sequence[Settings], program: Layout
    ) -> tuple[str, str]:
        """Write each lane's own state, cut out of its padding.

        Of a lane that has ended only the model is of use, or what its training would go on from
        where that is to be saved, and only until the round is closed.
        """
        lanes = work.bucket.lanes
        file = f"r{work.round:06d}-b{work.bucket.bucket:04d}-t{lanes[0].number:06d}.safetensors"
        states: dict[LaneName, State] = {}
        has_unfinished = False
        n_members = len(self._config.members)
        for index, (lane, spec, its) in enumerate(zip(lanes, work.specs, settings, strict=True)):
            of_trial = slice(index * n_members, (index + 1) * n_members)
            ended = segment.ended is not None and bool(segment.ended[of_trial].all())
            is_unfinished = lane.epoch_to < self._config.epochs_of(spec.params) and not ended
            of_use = at_its_best if its.saves else only_model
            has_unfinished |= is_unfinished
            for member in range(n_members):
                at = index * n_members + member
                state = program.exact(
                    jax.tree.map(lambda leaf, at=at: leaf[at], segment.state), its
                )
                states[lane.number, member] = state if is_unfinished else of_use(state)
        return file, write_lanes(self._checkpoints / file, states, synced=has_unfinished)


def _reason(error: BaseException) -> Reason:
    """XLA tells of memory that ran out by the first word of a general error."""
    is_memory = isinstance(error, MemoryError) or str(error).startswith("RESOURCE_EXHAUSTED")
    return Reason.OOM if is_memory else Reason.ERROR
