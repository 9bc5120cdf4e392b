"""Tests a user-defined program against the rules that every program must follow.

A few trials are trained for a few epochs, in each way that a study may train them. A broken rule is
reported with its fix. One rule is about state: a lane only keeps the floating-point parameters of a
model and `opt_state`. Counters, flags and keys in a model do not survive a step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from sweeper.config.refusals import MISSING
from sweeper.config.user_program import OwnProgramTable
from sweeper.data.prepare import prepare
from sweeper.errors import Problem, StudyError
from sweeper.executors.jax_setup import configure_for
from sweeper.preflight.trial_runs import EPOCHS, N_TRIALS, TrialRuns, few, short
from sweeper.preflight.user_program import check_program, scores_of
from sweeper.programs.program import Batch, State
from sweeper.programs.user_program import Own


def unkept(program: Own, settings: Settings, batches: Sequence[Batch]) -> list[str]:
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
    return {
        path: None
        for path in (*built, *given)
        if path not in built or path not in given or not _is_equal(built[path], given[path])
    }


def _is_equal(one: Any, other: Any) -> bool:
    return one.dtype == other.dtype and np.array_equal(_words(one), _words(other))


def _words(leaf: Any) -> Any:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


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
        told = f"ok      {self.promise}"
        return told if self.found is None else f"BROKEN  {self.found}; {self.hint}"


def study_of(program: str, overrides: Sequence[str]) -> StudyConfig:
    """A small study that trains an MLP with `program`, from a module in the current directory.

    Raises:
        StudyError: the overrides do not fit.
    """
    return parse(STUDY, Path.cwd() / program, [f"train.program={program}", *overrides])


def premise(config: StudyConfig) -> str:
    """What a program is tested with if no study is given, and how to choose something else."""
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
    """
    if not isinstance(config.train, OwnProgramTable):
        found = f"'{config.train.program}' is a program of this package"
        raise StudyError(config.problem("train.program", found, 'name your own, "module:Class"'))
    configure_for(config)
    data = few(prepare(config), config.train.batch_size)
    if not knows_metrics:
        own = config.train.model_copy(update={"metrics": scores_of(config, data)})
        config = config.model_copy(update={"train": own})
    check_program(config, data)
    yield ProgramFinding("it compiles, and keeps shapes and types from step to step")
    with TemporaryDirectory() as directory:
        trial = TrialRuns(short(config), data, Path(directory))
        for promise, kept in _PROMISES.items():
            broken = kept(trial)
            yield ProgramFinding(promise) if broken is None else ProgramFinding(promise, *broken)


_Broken = tuple[str, str] | None


def _draws_nothing_of_its_own(trial: TrialRuns) -> _Broken:
    first, again = (_without_callbacks(trial.traced()) for _ in range(2))
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
    assert isinstance(program, Own), "only called for such programs"
    changed = unkept(program, trial.config.filled({}), trial.batches)
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


def _without_callbacks(text: str) -> str:
    """The text of a program without callbacks, which another rule is about."""
    return _CALLBACK.sub("", text)


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def _distance(one: Any, other: Any) -> float:
    """The distance between two arrays, relative to the size of the first."""
    if np.array_equal(one, other, equal_nan=True):
        return 0.0
    size = float(np.linalg.norm(one)) or 1.0
    return float(np.linalg.norm(np.asarray(one) - np.asarray(other))) / size


def unfit(problems: Sequence[Problem], program: str) -> StudyError:
    """Problems of a study that nobody wrote, expressed in terms of the program."""
    told = [replace(problem, where=program) for problem in problems]
    for index, problem in enumerate(told):
        if problem.found.startswith(MISSING):
            hint = f"write --set {problem.key}=..., or give a study with --study"
            told[index] = replace(problem, hint=hint)
    return StudyError(told)
