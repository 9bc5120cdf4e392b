"""The settings of one trial: the study's tables with searched values filled in.

A program has the optional settings that its study needs, not those of one trial. If some trials
draw a number, all trials get one; those that do not draw it get the one that means "none".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweeper.config.alternating import AlternatingTable
from sweeper.config.coupled import CoupledTable
from sweeper.config.kinds import flattened, is_function
from sweeper.config.model import ModelTable, PartsTable
from sweeper.config.optimizer import (
    SHAPES,
    OptimizersTable,
    OptimizerTable,
    UserOptimizerTable,
    decays_of,
    each,
)
from sweeper.config.reading import RawTable, RecipeTable, tables_of
from sweeper.config.refusals import missing
from sweeper.config.search import SearchEntry, gives_floats
from sweeper.config.space import table_around
from sweeper.config.study import EDITION, StudyTable
from sweeper.config.table import (
    Flaw,
    Role,
    Table,
    field_of,
    is_left_out,
    settings_with_role,
    value_of,
)
from sweeper.config.train import SupervisedTable, UserProgramTable
from sweeper.trial import Scalar

_SAMPLER_OR_PRUNER = re.compile(r"study\.(sampler|pruner(\.wrapped)*)\.name")
# tables whose own keys are traced if they are floats
WITH_TRACED_ARGUMENTS = (UserOptimizerTable, UserProgramTable)


def arguments_of(
    key: str, table: Table, *, traced: bool, optional: Container[str] = ()
) -> dict[str, Any]:
    """The arguments of user-defined functions and classes, by dotted key under `key`.

    Either those that are traced, or those compiled in. Floats are traced, those of a model's
    function only if they are among `optional`, as in `Settings`.
    """
    if isinstance(table, RecipeTable):
        inner = (
            arguments_of(f"{key}.{name}", own, traced=traced, optional=optional)
            for name, own in tables_of(table).items()
        )
        return {key: value for found in inner for key, value in found.items()}
    every = isinstance(table, WITH_TRACED_ARGUMENTS)
    own = {f"{key}.{name}": value for name, value in getattr(table, "arguments", {}).items()}
    return {
        name: value
        for name, value in own.items()
        if (isinstance(value, float) and (every or name in optional)) is traced
    }


def functions_of_tables(tables: Mapping[str, Table]) -> Iterator[tuple[str, str]]:
    """Functions that build models or optimizers or return rows, by the keys of their tables."""
    for key, table in tables.items():
        if isinstance(table, UserOptimizerTable):
            yield table.name, f"{key}.name"
        elif function := getattr(table, "function", ""):
            yield function, f"{key}.function"


def functions_of_decay(optimizer: Table) -> Iterator[tuple[str, str]]:
    """Layer classes that decay rules name."""
    for key, decay in decays_of(optimizer).items():
        yield from ((rule.layer, key) for rule in decay.rules_in_order if is_function(rule.layer))


def functions_of_study(study: StudyTable) -> Iterator[tuple[str, str]]:
    """User-defined samplers and pruners, also those that a pruner wraps."""
    pruner = {"name": study.pruner.name, **study.pruner.options}
    for key, name in flattened(
        {"sampler": {"name": study.sampler.name}, "pruner": pruner}, "study"
    ):
        if _SAMPLER_OR_PRUNER.fullmatch(key) and isinstance(name, str) and is_function(name):
            yield name, key


HUBER_DELTA = 1.0
GRADIENT_PENALTY = 10.0  # Gulrajani et al. 2017, algorithm 1
CLIP = 0.01  # Arjovsky et al. 2017, algorithm 1
USE_OPTIMIZER_LR = 0.0  # 0 is not a valid learning rate: the phase uses that of the optimizer

# by dotted key without names
_NEUTRAL_VALUES: Mapping[str, float] = {
    "optimizer.clip_norm": math.inf,
    "optimizer.clip_value": math.inf,
    "train.ema": 0.0,
    "train.label_smoothing": 0.0,
    "train.huber_delta": HUBER_DELTA,
    "train.gradient_penalty": GRADIENT_PENALTY,
    "train.clip": CLIP,
    "train.lr": USE_OPTIMIZER_LR,
}


def without_names(key: str) -> str:
    """A dotted key without names: `model.dropout` for `model.b.dropout`."""
    table, *_, setting = key.split(".")
    return f"{table}.{setting}"


def has_neutral_value(key: str) -> bool:
    """Whether there is a number that means "none" for this key."""
    around, _, setting = key.rpartition(".")
    if around.endswith(".schedule"):
        return any(setting in shape for shape in SHAPES.values())
    return without_names(key) in _NEUTRAL_VALUES


def neutral_value(key: str, tables: Mapping[str, Table]) -> float:
    """The value of the setting `key` in a trial that has none."""
    # a schedule that does not use the number ignores it
    return 0.0 if (value := effective_value(key, tables)) is None else value


def effective_value(key: str, tables: Mapping[str, Table]) -> float | None:
    """Like `neutral_value`; None if the trial's schedule does not use the number."""
    around, _, setting = key.rpartition(".")
    if not around.endswith(".schedule"):
        return _NEUTRAL_VALUES[without_names(key)]
    name, _, rest = f"{around}.name".partition(".")
    return SHAPES[value_of(tables[name], rest)].get(setting)


def needs_value(table: type[Table], setting: str, entry: SearchEntry) -> bool:
    """Whether a setting needs a value for trials that do not draw it, because none is known here.

    A number for a user-defined function goes to all trials or to none.
    """
    if is_required(table, setting):
        return True
    around, last = table_around(table, setting), setting.rpartition(".")[2]
    if around is None or not issubclass(around, WITH_TRACED_ARGUMENTS):
        return False
    if last in around.model_fields:
        return issubclass(around, UserOptimizerTable) and last == "lr"
    return gives_floats(entry)


def is_required(table: type[Table], setting: str) -> bool:
    """Whether a setting has no default."""
    field = field_of(table, setting)
    return field is not None and field.is_required()


def check_rates(
    raw: RawTable, kind: type[Table], searched: Container[str], phases: Iterable[str]
) -> Iterator[Flaw]:
    """Check that user-defined optimizers have a learning rate if a phase has one in some trials.

    `raw` and `kind` are the table `[optimizer]` and its type.
    """
    drawn = [rate for name in phases if (rate := f"train.phases.{name}.lr") in searched]
    for key, table, table_type in each(raw, kind):
        if (
            issubclass(table_type, UserOptimizerTable)
            and "lr" not in table
            and f"{key}.lr" not in searched
        ):
            for rate in drawn:
                hint = f"write lr = ... in [{key}], for trials that do not draw {rate}"
                yield missing(f"{key}.lr", hint)


# traced hyperparameters; what a program does with one is left out if the study does not use it
OPTIONAL_SETTINGS = (
    "model.dropout",
    "optimizer.clip_norm",
    "optimizer.clip_value",
    "train.label_smoothing",
    "train.ema",
)

TrainTable = SupervisedTable | AlternatingTable | CoupledTable | UserProgramTable


def optional_settings(
    tables: Mapping[str, Table], is_searched: Callable[[str], bool]
) -> Iterator[str]:
    """The keys of the optional settings that the programs of a study with these tables have.

    This includes numbers without a value in the study that some of its trials draw, and searched
    arguments of a user-defined program with the name of an optional setting.
    """
    for name, table in tables.items():
        if isinstance(table, UserProgramTable):
            own = (f"{name}.{argument}" for argument in table.arguments)
            yield from (key for key in own if key in OPTIONAL_SETTINGS and is_searched(key))
        for setting in settings_with_role(type(table), Role.TRACED):
            key, value = f"{name}.{setting}", value_of(table, setting)
            is_listed, searched = without_names(key) in OPTIONAL_SETTINGS, is_searched(key)
            is_number = value is None and has_neutral_value(key)
            if (is_listed and value) or (searched and (is_listed or is_number)):
                yield key


def is_optional(key: str) -> bool:
    """Whether the programs of only some studies have the setting with this dotted key."""
    return without_names(key) in OPTIONAL_SETTINGS or has_neutral_value(key)


@dataclass(frozen=True, slots=True)
class MetricRule:
    """A metric of a trial's epochs, and which of its values are better."""

    metric: str
    maximize: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """One trial's model, optimizer and training.

    `optional` are the keys of those `OPTIONAL_SETTINGS` that are compiled in, of numbers that only
    some trials draw, and of floats that a user-defined model gets at run time. They depend on the
    study, not on the trial: a searched dropout is compiled in even for a trial that drew 0. The
    study also determines `keeps`, the rule for which epoch's weights to keep instead of the last,
    and `stops`, the rule for ending a trial early; both may be None. `saves` says whether the
    optimizer state is needed at the end. `base_dir` is searched first for user modules, and
    `edition` is that of the rules that the study began with.
    """

    model: ModelTable | PartsTable
    optimizer: OptimizerTable | OptimizersTable
    train: TrainTable
    optional: frozenset[str]
    base_dir: Path
    keeps: MetricRule | None = None
    stops: MetricRule | None = None
    saves: bool = False
    edition: int = EDITION

    def has(self, key: str) -> bool:
        """Whether the program has the optional setting with this key."""
        return key in self.optional

    @property
    def sole_optimizer(self) -> OptimizerTable:
        """The optimizer of a model with one part."""
        assert not isinstance(self.optimizer, OptimizersTable)
        return self.optimizer

    def of_part(self, name: str) -> Settings:
        """The settings of one part of the model, as if it were the whole; "" is the whole model."""
        if not name:
            return self
        assert isinstance(self.model, PartsTable)
        tables = f"model.{name}", f"optimizer.{name}"
        optimizer = self.optimizer
        if isinstance(optimizer, OptimizersTable):
            optimizer = optimizer.by_part[name]
        model = self.model.parts[name]
        own = (key for key in self.optional if key.rpartition(".")[0] in (*tables, "optimizer"))
        of_phases = (key for key in self.optional if key.startswith("train.phases."))
        optional = frozenset((*map(without_names, own), *of_phases))
        return replace(self, model=model, optimizer=optimizer, optional=optional)

    def phase_at(self, epoch: int) -> str:
        """The phase in which an epoch, counted from 1, is trained; constant without phases."""
        return self.train.phase_at(epoch) if isinstance(self.train, AlternatingTable) else ""

    def structure(self) -> dict[str, Scalar | tuple[str, ...]]:
        """Everything that is compiled into the trial's program, by dotted key."""
        values = self._values(Role.STRUCTURAL)
        traced = self._values(Role.TRACED)
        others = {key: self.has(key) for key in traced if without_names(key) in OPTIONAL_SETTINGS}
        for name, table in self._tables:
            others |= arguments_of(name, table, traced=False, optional=self.optional)
        decays = decays_of(self.optimizer).items()
        return values | others | {key: decay.text for key, decay in decays}

    def traced(self) -> dict[str, float]:
        """The numbers that the program gets at run time, by dotted key."""
        values = self._values(Role.TRACED)
        for name, table in self._tables:
            values |= arguments_of(name, table, traced=True, optional=self.optional)
        tables = dict(self._tables)
        return {
            key: float(neutral_value(key, tables) if value is None else value)
            for key, value in values.items()
            if self.has(key) or (without_names(key) not in OPTIONAL_SETTINGS and value is not None)
        }

    @property
    def _tables(self) -> tuple[tuple[str, Table], ...]:
        return ("model", self.model), ("optimizer", self.optimizer), ("train", self.train)

    def _values(self, role: Role) -> dict[str, Any]:
        """The settings with this role, by dotted key, in the order of the tables."""
        return {
            f"{table}.{name}": value_of(values, name) if "." in name else getattr(values, name)
            for table, values in self._tables
            for name in settings_with_role(type(values), role)
            if not is_left_out(values, name)
        }
