"""A few trials of one structure, trained together and separately, to check a program's rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import cached_property
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import jax

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.errors import StudyError
from sweeper.executors.device_data import device_parts
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.lanes import abstract_lanes
from sweeper.executors.trainer import Trainer
from sweeper.programs.build import Programs
from sweeper.programs.checkpoint import LaneFile
from sweeper.programs.data_spec import data_spec
from sweeper.programs.program import Batch, Program
from sweeper.programs.segment import segment
from sweeper.scheduler.capacity import LaneLoop
from sweeper.scheduler.classes import Bucket, Lane, ProgramClass
from sweeper.scheduler.signature import canonical, compiled_in
from sweeper.trial import TrialSpec

EPOCHS = 4
N_TRIALS = 3
_BATCHES = 4  # per epoch


def few(data: Dataset, batch_size: int) -> Dataset:
    """The first rows of each split: enough for a few batches."""
    rows = slice(batch_size * _BATCHES)
    parts = ("x_train", "y_train", "x_val", "y_val", "x_test", "y_test")
    few = {name: getattr(data, name)[rows] for name in parts}
    if data.n_folds:
        few |= {name: getattr(data, name) for name in ("x_train", "y_train")}
    return replace(data, **few)


def short(config: StudyConfig) -> StudyConfig:
    """The study with trials of a few epochs, each with one seed."""
    train = config.train.model_copy(update={"epochs": EPOCHS})
    search = {key: one for key, one in config.search.items() if key != "train.epochs"}
    return config.model_copy(update={"train": train, "search": search})


@dataclass(frozen=True)
class TrialRuns:
    """A few trials of one structure, trained together and separately."""

    config: StudyConfig
    data: Dataset
    directory: Path

    @cached_property
    def together(self) -> Outcome:
        """All of them in one bucket, one after the other."""
        return self.trained(range(N_TRIALS))

    def trained(
        self,
        numbers: Sequence[int],
        lane_loop: LaneLoop = "map",
        epochs: tuple[int, int] = (0, EPOCHS),
        after: Outcome | None = None,
    ) -> Outcome:
        """The outcome of a bucket of these trials."""
        specs = tuple(TrialSpec(number, {}, {}, 0) for number in numbers)
        settings = self.config.filled({})
        program = ProgramClass(
            class_id=f"check_{lane_loop}",
            settings=canonical(compiled_in(settings, {})),
            strategy="exact",
            lane_loop=lane_loop,
            capacity=N_TRIALS * len(self.config.members),
            precision=self.config.execution.precision,
            padded_width=None,
            padded_depth=None,
        )
        files = {} if after is None else {lane.number: lane.checkpoint for lane in after.lanes}
        lanes = tuple(Lane(number, *epochs, files.get(number, "")) for number in numbers)
        digests = {} if after is None else after.digests
        # a different number each time, since its file is named after it
        bucket = Bucket(next(self._buckets), program.class_id, "inline", lanes)
        work = Work(epochs[0] + 1, bucket, program, specs, digests)
        outcome = self._trainer.train(work, "check", None)
        for lane in outcome.lanes:
            if lane.failure is not None:
                told = lane.failure.error_message.partition("\n")[0]
                raise StudyError(self.config.problem("train.program", told, "fix the program"))
        return outcome

    @property
    def program(self) -> Program:
        """A program that was not traced before."""
        return Programs(data_spec(self.config, self.data)).exact(self.config.filled({}))

    @property
    def batches(self) -> list[Batch]:
        """The inputs of the steps of an epoch, except for the order of the rows."""
        size = self.config.train.batch_size
        starts = range(0, len(self.data.x_train) - size + 1, size)[:_BATCHES]
        x, y = self.data.x_train, self.data.y_train
        return [Batch(x[at : at + size], y[at : at + size]) for at in starts]

    def traced(self) -> str:
        """The StableHLO text that a class is compiled from, traced again."""
        program, settings = self.program, self.config.filled({})
        parts = device_parts(self.config, self.data, settings.train.batch_size)
        lanes = abstract_lanes(program.layout, N_TRIALS, settings)
        # what is printed during tracing is shown when a study starts, so not here
        with redirect_stdout(StringIO()):
            return jax.jit(segment(program, "map")).lower(lanes, parts).as_text()

    def state(self, outcome: Outcome, number: int) -> list[Any]:
        """The arrays of a trial's model at its end."""
        lane = next(lane for lane in outcome.lanes if lane.number == number)
        file = LaneFile(self.directory / lane.checkpoint, outcome.digests[lane.checkpoint])
        like = self.program.layout.exact_abstract(self.config.filled({}))
        ended = replace(like, optimizer=None, step=None, average=None, kept=None, patience=None)
        return jax.tree.leaves(file.lane(number, ended))

    @cached_property
    def _buckets(self) -> Iterator[int]:
        return count()

    @cached_property
    def _trainer(self) -> Trainer:
        return Trainer(self.config, self.data, self.directory)
