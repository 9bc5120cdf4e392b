"""Trains buckets on a device of this process, in a thread of the parent or in a worker."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from sweeper.config import Settings, StudyConfig
from sweeper.config.user_errors import describe_error, error_type, full_error_text, is_raised
from sweeper.data.dataset import Dataset
from sweeper.errors import SetupError, counted
from sweeper.executors.classes import Classes
from sweeper.executors.compiling import Compiled
from sweeper.executors.executor import Outcome, Work, merge_outcomes
from sweeper.executors.jax_setup import keep_configured
from sweeper.executors.lanes import (
    TrialStart,
    has_ended,
    judged_columns,
    lanes_of,
    on_devices,
    peak_memory,
    place_of,
    place_on,
    record_of,
    stack,
    state_of,
)
from sweeper.executors.memory_fallback import (
    CapacityFallback,
    ProgramTooLargeError,
    TooLarge,
    is_out_of_memory,
)
from sweeper.executors.placement import DeviceLock
from sweeper.executors.retry import failed_outcome
from sweeper.executors.switch_class import split_by_class
from sweeper.faults import Step, fault_points
from sweeper.programs.checkpoint import CheckpointError, LaneFile, LaneName, write_lanes
from sweeper.programs.continued import SavedStart
from sweeper.programs.program import Layout, State, at_its_best, only_model, whole
from sweeper.programs.segment import DeviceData, Lanes, Segment
from sweeper.results.timeline import Activity, Timeline
from sweeper.scheduler.classes import Lane, ProgramClass
from sweeper.trial import Failure, LaneRecord, Place, Reason, Scalar

_MAX_CHARACTERS = 200  # of an error
_log = logging.getLogger("sweeper")


class Trainer:
    """Compiles each class once and trains its buckets; thread-safe.

    Programs of several structures run on all `devices`, others on the first; by default these are
    all devices of this process. `device_lock` guards their memory, and is shared with others that
    train there. `timeline` records what is compiled and trained.
    """

    def __init__(
        self,
        config: StudyConfig,
        data: Dataset,
        checkpoints: Path,
        start: SavedStart | None = None,
        devices: Sequence[Any] = (),
        device_lock: DeviceLock | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self._config = config
        self._checkpoints = checkpoints
        self._device_lock = device_lock or DeviceLock()
        self._timeline = timeline or Timeline()
        its_devices = devices or jax.local_devices()
        self.classes = Classes(config, data, start, its_devices, self._timeline)

    def compile(self, program_class: ProgramClass, params: Mapping[str, Scalar]) -> None:
        """Compile a class in advance, once; `params` are those of any of its trials.

        Raises:
            Exception: whatever building or compiling the program raised.
        """
        keep_configured()
        self.classes.prepare(program_class, params)

    def train(self, work: Work, place: str, memory_fraction: float | None) -> Outcome:
        """The outcome of `work`; an exception only fails the trials that raise it.

        A program that cannot be built or compiled fails all of its trials; with several structures,
        only those of the structure that raises the exception. While trials train, half of them are
        masked, in the same program, until the culprit is alone. The same applies to sys.exit in
        user code, which is traced here. If memory is short, lanes train in parts, in smaller
        programs.

        Raises:
            SetupError: the lanes' state cannot be written, which is not their fault.
        """
        where = place_on(self.classes.devices[0], place, memory_fraction)
        return self._fallback(where).train(work)

    def _fallback(self, where: Place) -> CapacityFallback:
        return CapacityFallback(
            attempt=partial(self._attempt, where),
            own=self.classes.own,
            fail=partial(self._fail, where),
            members=len(self._config.members),
            limit=self.classes.limit,
        )

    def _attempt(self, where: Place, work: Work, *, alone: bool) -> Outcome | TooLarge:
        """The outcome of lanes in one program, or that it does not fit."""
        started_at = time.time()
        keep_configured()
        try:
            bucket_id = work.bucket.bucket
            with (
                self._timeline.spending(Activity.BUCKET, bucket_id=bucket_id),
                fault_points(Step.TRAIN),
            ):
                return self._train(work, where, started_at, alone=alone)
        except SetupError:
            raise
        except BaseException as error:
            if not is_raised(error):
                raise
            if is_out_of_memory(error):
                return self._too_large(error)
            has_compiled = self.classes.has_compiled(work.program)
            if has_compiled and len(work.specs) > 1:
                return self._in_halves(work, where, error)
            if work.program.branches and not has_compiled:
                return self._by_branch(work, where, error)
            failure = Failure(Reason.ERROR, error_type(error), full_error_text(error))
            return failed_outcome(work, failure, where, started_at)

    def _too_large(self, error: BaseException) -> TooLarge:
        is_predicted, hint = isinstance(error, ProgramTooLargeError), self.classes.limit.hint
        found = str(error) if is_predicted else f"memory ran out: {_first_line(error)}"
        trace = "" if is_predicted else f"\n\n{traceback.format_exc()}"
        message = f"{found}; {hint}{trace}"
        return TooLarge(found, Failure(Reason.OOM, type(error).__name__, message), is_predicted)

    def _fail(self, where: Place, work: Work, failure: Failure) -> Outcome:
        """The outcome of a trial that does not fit alone."""
        outcome = failed_outcome(work, failure, where, time.time())
        return replace(
            outcome,
            lanes=tuple(replace(one, capacity=work.program.capacity) for one in outcome.lanes),
            compile_s=self.classes.claimed_s(work.program),
            memory_predicted_bytes=self.classes.needed_bytes(work.program),
            finished_at=time.time(),
        )

    def _train(self, work: Work, place: Place, started_at: float, *, alone: bool) -> Outcome:
        settings = [self._config.settings_of(spec.params) for spec in work.specs]
        program = self.classes.program(work.program, settings[0]).layout
        compiled = self.classes.compiled(work.program, work.specs[0].params)
        data = self.classes.data_on_device(
            settings[0].train.batch_size, is_spread=bool(work.program.branches)
        )
        pairs = zip(work.bucket.lanes, settings, strict=True)
        files = self._files(work)
        starts = [
            self._start(program, lane, trial_settings, files) for lane, trial_settings in pairs
        ]
        lanes = stack(work, starts, settings, program, self._config.members)
        segment, train_s = self._run(work, compiled, settings, lanes, data, alone=alone)
        file, digest = self._write(work, segment, settings, program)
        records = self._lane_records(work, segment, program, data, place, compiled.devices)
        compile_s = self.classes.claimed_s(work.program)
        return Outcome(
            bucket=work.bucket,
            lanes=tuple(
                replace(
                    record,
                    checkpoint=file,
                    retrained=start.retrained,
                    capacity=work.program.capacity,
                )
                for record, start in zip(records, starts, strict=True)
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

    def _run(
        self,
        work: Work,
        compiled: Compiled,
        settings: Sequence[Settings],
        lanes: Lanes,
        data: DeviceData,
        *,
        alone: bool,
    ) -> tuple[Segment, float]:
        """The trained lanes, and how many seconds their training took, without waiting for it."""
        phases = [one.phase_at for one in settings for _ in self._config.members]
        spare = [phases[0]] * (work.program.capacity - len(phases))
        with (
            self._device_lock.turn(alone=alone),
            self._timeline.spending(Activity.TRAIN, bucket_id=work.bucket.bucket),
        ):
            before = time.perf_counter()
            segment: Segment = jax.device_get(compiled.run(lanes, data, [*phases, *spare]))
            return segment, time.perf_counter() - before

    def _lane_records(
        self,
        work: Work,
        segment: Segment,
        program: Layout,
        data: DeviceData,
        place: Place,
        devices: Sequence[Any],
    ) -> Iterator[LaneRecord]:
        """The result of each trial of a bucket; its lanes are those of its members."""
        n_members, steps = len(self._config.members), data.order.shape[2]
        judged = judged_columns(program.metrics, self._config.study.objectives)
        for index, lane in enumerate(work.bucket.lanes):
            of_trial = lanes_of(index, n_members)
            where = place_of(of_trial, segment, place, devices)
            yield record_of(lane, segment, of_trial, judged, steps, where)

    def _by_branch(self, work: Work, where: Place, error: BaseException) -> Outcome:
        """The outcome of a switch class that does not compile, training each structure alone."""
        _log.warning(
            "class %s trains one structure at a time: %s",
            work.program.class_id,
            describe_error(error),
        )
        fallback = self._fallback(where)
        parts = split_by_class(work, self.classes.branches_of(work))
        return merge_outcomes(work, [fallback.train(part) for part in parts])

    def _in_halves(self, work: Work, where: Place, error: BaseException) -> Outcome:
        """The outcome of trials of which some raise an exception, training each half by itself."""
        trials = counted(len(work.specs), "trial")
        _log.info("training half of %s at a time: %s", trials, describe_error(error))
        middle = len(work.specs) // 2
        halves = work.only(range(middle)), work.only(range(middle, len(work.specs)))
        fallback = self._fallback(where)
        return merge_outcomes(work, [fallback.train(half) for half in halves])

    def _start(
        self, program: Layout, lane: Lane, settings: Settings, files: Mapping[str, LaneFile]
    ) -> TrialStart:
        """Where the lane continues; from the first epoch again if its checkpoint is damaged.

        A trial is a function of its parameters, so training it again gives the same state.
        """
        members = self._config.members
        file = files.get(lane.checkpoint)
        if file is not None:
            like = program.exact_abstract(settings)
            try:
                own = [file.lane(lane.number, like, index) for index in range(len(members))]
                states = tuple(program.padded(state, settings) for state in own)
                return TrialStart(states, lane.epoch_from)
            except CheckpointError as error:
                _log.warning("trial %d is trained again: %s", lane.number, error)
        # the first of each structure of a user-defined model also compiles a program
        with self._timeline.spending(Activity.INITIALIZE):
            fresh = [program.init(lane.number, settings, one.replicate) for one in members]
        return TrialStart(tuple(fresh), 0, retrained=bool(lane.checkpoint))

    def _files(self, work: Work) -> dict[str, LaneFile]:
        """The checkpoints from which the lanes of a bucket continue, without damaged ones."""
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

    def _write(
        self, work: Work, segment: Segment, settings: Sequence[Settings], program: Layout
    ) -> tuple[str, str]:
        """Write each lane's own state, without padding.

        A lane that has ended only needs the model, or what training would continue from if that is
        to be saved, and only until the round is closed.
        """
        lanes = work.bucket.lanes
        named = f"r{work.round:06d}-b{work.bucket.bucket:04d}-t{lanes[0].number:06d}"
        file = f"{named}{work.checkpoint_suffix}.safetensors"
        states: dict[LaneName, State] = {}
        has_unfinished = False
        n_members = len(self._config.members)
        for index, (lane, spec, trial_settings) in enumerate(
            zip(lanes, work.specs, settings, strict=True)
        ):
            of_trial = lanes_of(index, n_members)
            is_last = lane.epoch_to >= self._config.epochs_of(spec.params)
            is_finished = is_last or has_ended(segment, of_trial)
            has_unfinished |= not is_finished
            of_finished = at_its_best if trial_settings.saves else only_model
            of_use = of_finished if is_finished else whole
            for member in range(n_members):
                state = state_of(of_trial.start + member, segment)
                states[lane.number, member] = program.exact(state, trial_settings, of_use)
        return file, write_lanes(self._checkpoints / file, states, synced=has_unfinished)


def _first_line(error: BaseException) -> str:
    """The first line of an error; XLA goes on to list its largest buffers."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:_MAX_CHARACTERS].rstrip(".")
