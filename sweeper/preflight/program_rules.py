"""Tests a user-defined program against the rules that every program must follow.

A few trials are trained for a few epochs, in each way that a study may train them. A broken rule is
reported with its fix. One rule is about state: a lane only keeps the floating-point parameters of a
model and `opt_state`. Counters, flags and keys in a model do not survive a step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import StringIO
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from sweeper.config import Settings, StudyConfig, parse
from sweeper.config.data import SklearnTable
from sweeper.config.train import UserProgramTable
from sweeper.data.dataset import Dataset
from sweeper.data.prepare import prepare
from sweeper.errors import StudyError
from sweeper.executors.device_data import put_data
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.jax_setup import configure_for, jax_restored
from sweeper.executors.lanes import abstract_lanes
from sweeper.executors.open_devices import check_devices
from sweeper.executors.trainer import Trainer
from sweeper.preflight.user_program import check_program, scores_of
from sweeper.programs.build import Programs
from sweeper.programs.checkpoint import LaneFile
from sweeper.programs.data_spec import data_spec
from sweeper.programs.program import Batch, Program, State
from sweeper.programs.segment import segment
from sweeper.programs.user_program import UserDefined
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
    parts = [f"{array}_{part}" for array in "xyw" for part in ("train", "val", "test")]
    few = {name: getattr(data, name)[rows] for name in parts}
    if data.n_folds:
        few |= {name: getattr(data, name) for name in ("x_train", "y_train", "w_train")}
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
    _buckets: Iterator[int] = field(default_factory=count, init=False)

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
        settings = self.config.settings_of({})
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
                found = lane.failure.error_message.partition("\n")[0]
                raise StudyError(self.config.problem("train.program", found, "fix the program"))
        return outcome

    @property
    def program(self) -> Program:
        """A program that was not traced before."""
        return Programs(data_spec(self.config, self.data)).exact(self.config.settings_of({}))

    @property
    def batches(self) -> list[Batch]:
        """The inputs of the first steps of an epoch, without shuffling the rows."""
        size = self.config.train.batch_size
        starts = range(0, len(self.data.x_train) - size + 1, size)[:_BATCHES]
        x, y = self.data.x_train, self.data.y_train
        return [Batch(x[at : at + size], y[at : at + size]) for at in starts]

    def traced(self) -> str:
        """The StableHLO text that a class is compiled from, traced again."""
        program, settings = self.program, self.config.settings_of({})
        parts = put_data(self.config, self.data, settings.train.batch_size)
        lanes = abstract_lanes(program.layout, N_TRIALS, settings)
        # what is printed during tracing is shown when a study starts, so not here
        with redirect_stdout(StringIO()):
            return jax.jit(segment(program, "map")).lower(lanes, parts).as_text()

    def state(self, outcome: Outcome, number: int) -> list[Any]:
        """The arrays of a trial's model at its end."""
        lane = next(lane for lane in outcome.lanes if lane.number == number)
        file = LaneFile(self.directory / lane.checkpoint, outcome.digests[lane.checkpoint])
        like = self.program.layout.exact_abstract(self.config.settings_of({}))
        ended = replace(like, optimizer=None, step=None, average=None, kept=None, patience=None)
        return jax.tree.leaves(file.lane(number, ended))

    @cached_property
    def _trainer(self) -> Trainer:
        return Trainer(self.config, self.data, self.directory)


def changed_paths(program: UserDefined, settings: Settings, batches: Sequence[Batch]) -> list[str]:
    """Paths in the model of arrays that `init`, or `step` with any of these batches, changes."""
    lane, state = program.lane(0, settings), program.init(0, settings)

    @eqx.filter_jit
    def begun(state: State) -> tuple[PyTree, State]:
        return _others(program.begun_by_user(state, lane)[0]), program.begin(state, lane)

    @eqx.filter_jit
    def stepped(state: State, batch: Batch) -> tuple[PyTree, State]:
        moved, _ = program.step(state, batch, lane, jnp.zeros((), jnp.int32))
        return _others(program.stepped_by_user(state, batch, lane)[0]), moved

    built = _others(program.model(state))
    given, state = begun(state)
    changed = _changed(built, given)
    for batch in batches:
        given, state = stepped(state, batch)
        changed |= _changed(built, given)
    return [*changed]


def _others(model: PyTree) -> dict[str, Any]:
    """The arrays of a model that are not parameters, by path."""
    others = eqx.filter(eqx.filter(model, eqx.is_inexact_array, inverse=True), eqx.is_array)
    paths, _ = jax.tree_util.tree_flatten_with_path(others)
    return {jax.tree_util.keystr(path): leaf for path, leaf in paths}


def _changed(built: dict[str, Any], given: dict[str, Any]) -> dict[str, None]:
    """The paths at which two models differ, in the order of the first."""
    paths = dict.fromkeys((*built, *given))
    return {path: None for path in paths if not eqx.tree_equal(built.get(path), given.get(path))}


_MIDDLE = 2  # the epoch after which training stops and resumes
_CALLBACK = re.compile(r".*callback.*")  # lines that contain an address of this process
# parallel lanes sum in another order: float32 has 1e-7, and the steps of a few epochs add up
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
class ProgramFinding:
    """A rule that a program follows, or `found`, how it breaks the rule, and how to fix it."""

    promise: str
    found: str | None = None
    hint: str = ""

    def __str__(self) -> str:
        if self.found is None:
            return f"ok      {self.promise}"
        return f"BROKEN  {self.found}; {self.hint}"


def study_of(program: str, overrides: Sequence[str]) -> StudyConfig:
    """A small study that trains an MLP with `program`, from a module in the current directory.

    Raises:
        StudyError: the overrides do not fit.
    """
    return parse(STUDY, Path.cwd() / program, [f"train.program={program}", *overrides])


def premise(config: StudyConfig) -> str:
    """What a program is tested with if no study is given, and how to change that."""
    data = config.data
    what = f"scikit-learn's {data.name}" if isinstance(data, SklearnTable) else "the data given"
    hint = "name yours with --study"
    if config.train.task == "numbers":
        hint += ", or write --set train.task=classes --set data.name=iris"
    return f"no study given: an MLP on {what}, whose target is {config.train.task}; {hint}"


def findings(config: StudyConfig, *, knows_metrics: bool = True) -> Iterator[ProgramFinding]:
    """Each rule and whether it is kept; without `knows_metrics`, the program determines metrics.

    Raises:
        StudyError: the program cannot be compiled, with the place and the fix.
        SetupError: JAX can open no device.
    """
    if not isinstance(config.train, UserProgramTable):
        found = f"'{config.train.program}' is a program of this package"
        raise StudyError(config.problem("train.program", found, 'name your own, "module:Class"'))
    with jax_restored():
        configure_for(config)
        check_devices()
        data = few(prepare(config), config.train.batch_size)
        if not knows_metrics:
            own = config.train.model_copy(update={"metrics": scores_of(config, data)})
            config = config.model_copy(update={"train": own})
        check_program(config, data)
        yield ProgramFinding("it compiles, and keeps shapes and types from step to step")
        with TemporaryDirectory() as directory:
            trial = TrialRuns(short(config), data, Path(directory))
            for promise, kept in _PROMISES.items():
                yield ProgramFinding(promise, *(kept(trial) or ()))


_Broken = tuple[str, str] | None


def _draws_nothing_of_its_own(trial: TrialRuns) -> _Broken:
    # callbacks have a rule of their own
    first, again = (_CALLBACK.sub("", trial.traced()) for _ in range(2))
    if first == again:
        return None
    return (
        "it is a different program each time it is traced",
        "let nothing in it change between calls: no counters or clocks, and draw only with the key",
    )


def _calls_nobody(trial: TrialRuns) -> _Broken:
    if not _CALLBACK.search(trial.traced()):
        return None
    return (
        "its compiled loop calls back into Python",
        "remove jax.debug.print, jax.debug.callback, jax.pure_callback and io_callback",
    )


def _keeps_what_it_changes(trial: TrialRuns) -> _Broken:
    program = trial.program
    assert isinstance(program, UserDefined), "only called for such programs"
    changed = changed_paths(program, trial.config.settings_of({}), trial.batches)
    if not changed:
        return None
    named = ", ".join(f"model{path}" for path in changed)
    return (
        f"it changes {named}, but the next step gets the values that the model was built with",
        "keep it in opt_state: of the model, only floating-point arrays are kept",
    )


def _stays_finite(trial: TrialRuns) -> _Broken:
    for lane in trial.together.lanes:
        if lane.diverged_epoch is not None:
            found = f"trial {lane.number} is not finite after epoch {lane.diverged_epoch}"
            return found, "lower the learning rate, or guard divisions and square roots"
    return None


def _is_alone_what_it_is_among_others(trial: TrialRuns) -> _Broken:
    alone = trial.trained([1])
    if _same(trial.state(alone, 1), trial.state(trial.together, 1)):
        return None
    return (
        "trial 1 ends with different weights among others than alone",
        "store nothing on self or in a module: a lane is only its state and its key",
    )


def _is_the_same_side_by_side(trial: TrialRuns) -> _Broken:
    limit = _SIDE_BY_SIDE[trial.config.execution.precision]
    side_by_side = trial.trained(range(N_TRIALS), "vmap")
    for number in range(N_TRIALS):
        pairs = zip(
            trial.state(trial.together, number), trial.state(side_by_side, number), strict=True
        )
        furthest = max((_distance(one, other) for one, other in pairs), default=0.0)
        if not furthest <= limit:
            return (
                f"under vmap, the weights of trial {number} differ by {furthest:.1g} of their size",
                "draw with shapes that do not depend on vmap, and avoid dividing by values near 0",
            )
    return None


def _goes_on_from_a_checkpoint(trial: TrialRuns) -> _Broken:
    numbers = range(N_TRIALS)
    begun = trial.trained(numbers, epochs=(0, _MIDDLE))
    if any(lane.diverged_epoch is not None for lane in begun.lanes):
        return "there is nothing finite to resume from", "fix what is not finite first"
    resumed = trial.trained(numbers, epochs=(_MIDDLE, EPOCHS), after=begun)
    for number in numbers:
        if not _same(trial.state(resumed, number), trial.state(trial.together, number)):
            return (
                f"trial {number}, resumed after epoch {_MIDDLE}, ends with different weights",
                "keep everything that a step continues from in opt_state: only that is saved",
            )
    return None


_PROMISES: Mapping[str, Callable[[TrialRuns], _Broken]] = {
    "it compiles once: tracing it again gives the same program": _draws_nothing_of_its_own,
    "it contains no host callbacks": _calls_nobody,
    "its metrics are finite": _stays_finite,
    "its changes to the model are kept": _keeps_what_it_changes,
    "a trial alone ends with the same bits as among others": _is_alone_what_it_is_among_others,
    "lanes side by side (vmap) end with the same weights": _is_the_same_side_by_side,
    "a trial resumes from its checkpoint as if never stopped": _goes_on_from_a_checkpoint,
}


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def _distance(one: Any, other: Any) -> float:
    """The distance between two arrays, relative to the size of the first."""
    if np.array_equal(one, other, equal_nan=True):
        return 0.0
    size = float(np.linalg.norm(one)) or 1.0
    return float(np.linalg.norm(np.asarray(one) - np.asarray(other))) / size
