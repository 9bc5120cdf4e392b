"""What every program has to keep to, tried out on a program of the user's own.

A few trials are trained for a few epochs, each way that a study may train them. What does not
hold is told with what to change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import cached_property
from io import StringIO
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np

from sweeper.config import StudyConfig, parse
from sweeper.config.data import SklearnTable
from sweeper.config.own_program import OwnProgramTable
from sweeper.config.refusals import MISSING
from sweeper.data.dataset import Dataset
from sweeper.data.preparation import prepare
from sweeper.errors import Problem, StudyError
from sweeper.executors.compiling import configure_jax
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.lanes import abstract_lanes
from sweeper.executors.parts import device_parts
from sweeper.executors.trainer import Trainer
from sweeper.programs.build import Programs
from sweeper.programs.checkpoint import LaneFile
from sweeper.programs.data_spec import data_spec
from sweeper.programs.own_checks import check_program, scores_of
from sweeper.programs.program import Program
from sweeper.programs.segment import segment
from sweeper.scheduler.buckets import Bucket, Lane, ProgramClass
from sweeper.scheduler.capacity import LaneLoop
from sweeper.scheduler.signature import canonical, compiled_in
from sweeper.trial import TrialSpec

EPOCHS = 4
_MIDDLE = 2  # where training is stopped and goes on
_TRIALS = 3
_BATCHES = 4  # in an epoch
_CALLBACK = re.compile(r".*callback.*")  # lines with an address of this process in them
# lanes side by side sum in another order: float32 has 1e-7, and the steps of a few epochs add up
_SIDE_BY_SIDE = {"float32": 1e-3, "float64": 1e-9}

STUDY = """\
version = 1
[study]
name = "check"
metric = "val_loss"
direction = "minimize"
n_trials = 1
[data]
source = "sklearn"
name = "diabetes"
[model]
depth = 1
width = 8
[optimizer]
name = "adam"
lr = 1e-3
[train]
task = "numbers"
epochs = 4
batch_size = 16
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a program keeps to, or `found`, which breaks it, and how to mend that."""

    promise: str
    found: str | None = None
    mend: str = ""

    def __str__(self) -> str:
        told = f"kept    {self.promise}"
        return told if self.found is None else f"BROKEN  {self.found}; {self.mend}"


def study_of(program: str, overrides: Sequence[str]) -> StudyConfig:
    """A small study that trains an MLP by `program`, of a module in the current directory.

    Raises:
        StudyError: the overrides do not fit.
    """
    return parse(STUDY, Path.cwd() / program, [f"train.program={program}", *overrides])


def premise(config: StudyConfig) -> str:
    """What a program is tried on where no study is named, and how to name another thing."""
    data = config.data
    what = f"scikit-learn's {data.name}" if isinstance(data, SklearnTable) else "the data given"
    mend = "name yours with --study"
    if config.train.task == "numbers":
        mend += ", or write --set train.task=classes --set data.name=iris"
    return f"no study given: an MLP on {what}, whose target is {config.train.task}; {mend}"


def findings(config: StudyConfig, *, knows_metrics: bool = True) -> Iterator[Finding]:
    """Each promise with whether it is kept; where `knows_metrics` is not, the program tells them.

    Raises:
        StudyError: the program cannot be compiled, with the place and the mend.
    """
    if not isinstance(config.train, OwnProgramTable):
        found = f"'{config.train.program}' is a program of this package"
        raise StudyError(config.problem("train.program", found, 'name yours, "module:Class"'))
    configure_jax(config.execution.precision, config.execution.matmul_precision)
    data = _few(prepare(config), config.train.batch_size)
    if not knows_metrics:
        own = config.train.model_copy(update={"metrics": scores_of(config, data)})
        config = config.model_copy(update={"train": own})
    check_program(config, data)
    yield Finding("it can be compiled, and keeps shapes and types from step to step")
    with TemporaryDirectory() as directory:
        trial = _Trials(_short(config), data, Path(directory))
        for promise, kept in _PROMISES.items():
            broken = kept(trial)
            yield Finding(promise) if broken is None else Finding(promise, *broken)


def _few(data: Dataset, batch_size: int) -> Dataset:
    """The first rows of each part: enough for a few batches."""
    rows = slice(batch_size * _BATCHES)
    parts = ("x_train", "y_train", "x_val", "y_val", "x_test", "y_test")
    few = {name: getattr(data, name)[rows] for name in parts}
    if data.n_folds:
        few |= {name: getattr(data, name) for name in ("x_train", "y_train")}
    return replace(data, **few)


def _short(config: StudyConfig) -> StudyConfig:
    """The study with trials of a few epochs, each with one seed."""
    train = config.train.model_copy(update={"epochs": EPOCHS})
    search = {key: one for key, one in config.search.items() if key != "train.epochs"}
    return config.model_copy(update={"train": train, "search": search})


@dataclass(frozen=True)
class _Trials:
    """A few trials of one structure, trained together and apart."""

    config: StudyConfig
    data: Dataset
    directory: Path

    @cached_property
    def together(self) -> Outcome:
        """All of them in one bucket, one after the other."""
        return self.trained(range(_TRIALS))

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
            capacity=_TRIALS * len(self.config.members),
            precision=self.config.execution.precision,
            padded_width=None,
            padded_depth=None,
        )
        files = {} if after is None else {lane.number: lane.checkpoint for lane in after.lanes}
        lanes = tuple(Lane(number, *epochs, files.get(number, "")) for number in numbers)
        digests = {} if after is None else after.digests
        # each time another, for its file is named for it
        bucket = Bucket(next(self._buckets), program.class_id, "inline", lanes)
        work = Work(epochs[0] + 1, bucket, program, specs, digests)
        outcome = self._trainer.train(work, "check", None)
        for lane in outcome.lanes:
            if lane.failure is not None:
                told = str(lane.failure.error_message).strip().rpartition("\n")[2]
                raise StudyError(self.config.problem("train.program", told, "mend the program"))
        return outcome

    @property
    def program(self) -> Program:
        """A program that was not traced before."""
        return Programs(data_spec(self.config, self.data)).exact(self.config.filled({}))

    def traced(self) -> str:
        """What a class is compiled from, traced anew, as StableHLO has it."""
        program, settings = self.program, self.config.filled({})
        parts = device_parts(self.config, self.data, settings.train.batch_size)
        lanes = abstract_lanes(program, _TRIALS, settings)
        # what prints while it is traced is seen at the start of a study, and once is enough
        with redirect_stdout(StringIO()):
            return jax.jit(segment(program, "map")).lower(lanes, parts).as_text()

    def state(self, outcome: Outcome, number: int) -> list[Any]:
        """The arrays that the model of a trial has ended with."""
        lane = next(lane for lane in outcome.lanes if lane.number == number)
        file = LaneFile(self.directory / lane.checkpoint, outcome.digests[lane.checkpoint])
        like = self.program.exact_abstract(self.config.filled({}))
        ended = replace(like, optimizer=None, step=None, average=None, kept=None, patience=None)
        return jax.tree.leaves(file.lane(number, ended))

    @cached_property
    def _buckets(self) -> Iterator[int]:
        return count()

    @cached_property
    def _trainer(self) -> Trainer:
        return Trainer(self.config, self.data, self.directory)


_Broken = tuple[str, str] | None


def _draws_nothing_of_its_own(trial: _Trials) -> _Broken:
    first, again = (_without_callbacks(trial.traced()) for _ in range(2))
    if first == again:
        return None
    return (
        "it is another program each time that it is traced",
        "let nothing in it change between calls: no counters, clocks, or draws but by its key",
    )


def _calls_nobody(trial: _Trials) -> _Broken:
    if not _CALLBACK.search(trial.traced()):
        return None
    return (
        "its compiled loop calls back into Python",
        "remove jax.debug.print, jax.debug.callback, jax.pure_callback and io_callback",
    )


def _stays_finite(trial: _Trials) -> _Broken:
    for lane in trial.together.lanes:
        if lane.diverged_epoch is not None:
            found = f"trial {lane.number} is not finite after epoch {lane.diverged_epoch}"
            return found, "lower the learning rate, or guard what divides, and what takes roots"
    return None


def _is_alone_what_it_is_among_others(trial: _Trials) -> _Broken:
    alone = trial.trained([1])
    if _same(trial.state(alone, 1), trial.state(trial.together, 1)):
        return None
    return (
        "trial 1 ends with other weights among others than alone",
        "let no method keep anything on self or in a module: a lane is its state and its key",
    )


def _is_the_same_side_by_side(trial: _Trials) -> _Broken:
    limit = _SIDE_BY_SIDE[trial.config.execution.precision]
    beside = trial.trained(range(_TRIALS), "vmap")
    for number in range(_TRIALS):
        pairs = zip(trial.state(trial.together, number), trial.state(beside, number), strict=True)
        furthest = max((_distance(one, other) for one, other in pairs), default=0.0)
        if not furthest <= limit:
            return (
                f"the weights of trial {number} differ by {furthest:.1g} of their size under vmap",
                "draw by shapes that do not depend on vmap, and divide by nothing near 0",
            )
    return None


def _goes_on_from_a_checkpoint(trial: _Trials) -> _Broken:
    numbers = range(_TRIALS)
    begun = trial.trained(numbers, epochs=(0, _MIDDLE))
    if any(lane.diverged_epoch is not None for lane in begun.lanes):
        return "there is nothing finite to go on from", "mend what is not finite first"
    resumed = trial.trained(numbers, epochs=(_MIDDLE, EPOCHS), after=begun)
    for number in numbers:
        if not _same(trial.state(resumed, number), trial.state(trial.together, number)):
            return (
                f"trial {number}, stopped after epoch {_MIDDLE}, ends with other weights",
                "keep all that a step goes on from in opt_state: only that is written to disk",
            )
    return None


_PROMISES: Mapping[str, Callable[[_Trials], _Broken]] = {
    "it is compiled once: tracing it again gives the same program": _draws_nothing_of_its_own,
    "no host callback is in it": _calls_nobody,
    "what it reports is finite": _stays_finite,
    "a trial alone ends with the same bits as among others": _is_alone_what_it_is_among_others,
    "lanes side by side (vmap) end with the same weights": _is_the_same_side_by_side,
    "a trial goes on from its checkpoint as if never stopped": _goes_on_from_a_checkpoint,
}


def _without_callbacks(text: str) -> str:
    """The text of a program without what calls back, which another promise is about."""
    return _CALLBACK.sub("", text)


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def _distance(one: Any, other: Any) -> float:
    """How far apart two arrays are, as a share of the size of the first."""
    if np.array_equal(one, other, equal_nan=True):
        return 0.0
    size = float(np.linalg.norm(one)) or 1.0
    return float(np.linalg.norm(np.asarray(one) - np.asarray(other))) / size


def unfit(problems: Sequence[Problem], program: str) -> StudyError:
    """The problems of a study that nobody wrote, told of the program alone."""
    told = [replace(problem, where=program) for problem in problems]
    for index, problem in enumerate(told):
        if problem.found.startswith(MISSING):
            mend = f"write --set {problem.key}=..., or name a study with --study"
            told[index] = replace(problem, mend=mend)
    return StudyError(told)
