"""Trials that start from a saved model: its weights instead of fresh ones, and optimizer state.

All trials of such a study have the structure of the model. Their steps count from 0, so that
learning-rate schedules start again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from sweeper.config import Settings, StudyConfig, parse
from sweeper.config.model import PythonTable
from sweeper.config.optimizer import OptimizersTable
from sweeper.config.settings import arguments_of
from sweeper.config.toml import toml_text
from sweeper.config.train import UserProgramTable
from sweeper.config.trust import NOWHERE, TRUST, is_known
from sweeper.errors import Problem, SetupError, counted
from sweeper.programs.data_spec import DataSpec, blank_of
from sweeper.programs.injected import with_hyperparams_of
from sweeper.programs.optax_state import parameters_of
from sweeper.programs.program import Program, State
from sweeper.programs.saved_file import (
    MODEL,
    OPTIMIZER,
    TRAINED,
    SavedFile,
    read_saved,
    untrained_of,
)

# optimizers that are the same under two names
_SAME = {"adamw": "adam"}


@dataclass(frozen=True, slots=True)
class SavedStart:
    """A saved model that trials start from, and the settings of its trial."""

    file: SavedFile
    settings: Settings

    def has_optimizer_of(self, settings: Settings) -> bool:
        """Whether it contains the state of an optimizer with the name of a trial's."""
        is_same = optimizers_of(self.settings) == optimizers_of(settings)
        is_same = is_same and _own_state(self.settings) == _own_state(settings)
        is_averaged = self.settings.has("train.ema"), settings.has("train.ema")
        return self.file.record["has_optimizer"] and is_same and len({*is_averaged}) == 1


def read_start(path: Path, base_dir: Path) -> SavedStart:
    """The saved model at `path`, which was checked before, with its functions in `base_dir`.

    Raises:
        SweeperError: it is damaged, or its header cannot be read.
    """
    file = read_saved(path, trusted=True)
    return SavedStart(file, settings_of(file, base_dir))


def settings_of(file: SavedFile, base_dir: Path) -> Settings:
    """The settings of the trial that was saved; user modules are in `base_dir`.

    Raises:
        SetupError: it is a file of a run directory, which does not describe its trial.
    """
    return replace(study_of_model(file).settings_of({}), base_dir=base_dir)


def study_of_model(file: SavedFile) -> StudyConfig:
    """The study of the trial that was saved; nothing that it names is looked up.

    Raises:
        SetupError: as `settings_of`.
    """
    if "settings" not in file.record:
        raise alone(file)
    text = toml_text({"edition": 1, **file.record["settings"]})
    return parse(text, NOWHERE / Path(file.name).name)


def check_sizes(file: SavedFile, study: StudyConfig) -> None:
    """Refuse a model of a known package that is larger than the content of the file.

    Raises:
        SetupError: with the argument.
    """
    n_numbers, n_leaves = sum(leaf.size for leaf in file.tensors.values()), len(file.tensors)
    for key, table in study.each("model").items():
        if not isinstance(table, PythonTable) or not is_known(table.function):
            continue
        for name, value in table.arguments.items():
            most = n_leaves if name == "depth" else n_numbers
            if isinstance(value, int) and value > most:
                found = f"{value}, but the file contains {counted(most, 'number')}"
                raise SetupError(Problem(file.name, f"{key}.{name}", found, TRUST))


def alone(file: SavedFile) -> SetupError:
    """The error that a file of a run directory does not describe its trial."""
    hint = "use a directory that `python -m sweeper export` wrote"
    return SetupError(Problem(file.name, "", "only the weights of a run directory", hint))


def spec_of(file: SavedFile) -> DataSpec:
    """What a program needs to know about the data that a saved model was trained on."""
    return DataSpec.from_dict(file.record["data"]["spec"])


def optimizers_of(settings: Settings) -> dict[str, str]:
    """The optimizer of each part of a model; the part is '' for a plain model."""
    table = settings.optimizer
    several = table.by_part if isinstance(table, OptimizersTable) else {"": table}
    return {part: _SAME.get(one.name, one.name) for part, one in several.items()}


def _own_state(settings: Settings) -> object:
    """The settings that the state of a user-defined program depends on; None for built-in programs.

    The count of steps for a schedule is part of the state.
    """
    if not isinstance(settings.train, UserProgramTable):
        return None
    schedule = settings.sole_optimizer.schedule.name
    return settings.train.program, arguments_of("train", settings.train, traced=False), schedule


@dataclass(frozen=True)
class Continuation:
    """How trials with `settings` start from `start` instead of fresh weights.

    `own` trains them without padding, `saved` is the program of the saved model.
    """

    own: Program
    saved: Program
    start: SavedStart
    settings: Settings

    def state(self, number: int, settings: Settings, replicate: int) -> State:
        """A trial's own state before its first step, in NumPy arrays, at step 0."""
        file, fresh = self.start.file, self.own.layout.init(number, settings, replicate)
        own, (like, like_moments, like_untrained) = self.own.saver, self._like
        judged = own.with_model(fresh, file.tree(MODEL, like))
        untrained = untrained_of(file, like_untrained)
        judged = replace(judged, untrained=_in_precision_of(fresh.untrained, untrained))
        if not self.has_moments:
            return judged
        state = own.with_opt_state(
            judged, file.tree(OPTIMIZER, like_moments), self.start.settings, settings
        )
        if fresh.average is not None:
            state = own.with_model(state, file.tree(TRAINED, like))
            state = replace(state, average=judged.model)
        return state

    def begun(self, fresh: State, state: State) -> State:
        """The state `fresh` at step 0, with what `state` has of the saved model's training."""
        if not self.has_moments:
            return fresh
        optimizer = with_hyperparams_of(fresh.optimizer, state.optimizer)
        return replace(fresh, optimizer=optimizer, average=state.average)

    @cached_property
    def has_moments(self) -> bool:
        """Whether trials start with the saved state of the optimizer."""
        if not self.start.has_optimizer_of(self.settings):
            return False
        saved, own = (_arrays_of_optimizer(one) for one in (self.saved, self.own))
        if self.settings.edition > 3:
            return saved == own
        return [shape for _, shape in saved] == [shape for _, shape in own]

    @cached_property
    def _like(self) -> tuple[PyTree, PyTree, PyTree]:
        """Shapes and dtypes of the model, its optimizer's state and its untrained arrays."""
        blank = blank_of(self.saved.layout.abstract())
        moments = self.saved.saver.opt_state(blank, self.start.settings)
        model = parameters_of(self.saved.saver.model(blank))
        return _as_saved((model, moments, blank.untrained), self.start)


def _arrays_of_optimizer(program: Program) -> list[tuple[str, tuple[int, ...]]]:
    """The name and the shape of each array in the state of a program's optimizers."""
    leaves = jax.tree_util.tree_leaves_with_path(program.layout.abstract().optimizer)
    return [(jax.tree_util.keystr(path[-1:]), leaf.shape) for path, leaf in leaves]


def check_leaves(program: Program, start: SavedStart) -> None:
    """Refuse a saved model whose arrays are not those that `program` trains.

    Raises:
        SetupError: with the differing arrays.
    """
    blank = blank_of(program.layout.abstract())
    like = parameters_of(program.saver.model(blank))
    start.file.tree(MODEL, _as_saved(like, start))
    untrained_of(start.file, blank.untrained)


def _in_precision_of(own: Any, saved: Any) -> Any:
    """The arrays of a saved model in the precision of a trial's `own`."""
    return jax.tree.map(lambda own, saved: np.asarray(saved, own.dtype), own, saved)


def _as_saved(tree: Any, start: SavedStart) -> Any:
    """`tree` in the precision of the saved model, which JAX may not support as set up here."""
    dtype = np.dtype(spec_of(start.file).dtype)

    def as_saved(leaf: Any) -> Any:
        is_float = np.issubdtype(leaf.dtype, np.floating)
        return np.zeros(leaf.shape, dtype if is_float else leaf.dtype)

    return jax.tree.map(as_saved, tree)
