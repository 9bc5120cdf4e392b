"""The values of settings searched under `when` in trials that do not draw them.

A program has the parts that its study needs, not those of one trial. If some trials draw a number,
all trials get one; those that do not draw it get the one that means "none".
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping

from sweeper.config.arguments import WITH_TRACED_ARGUMENTS
from sweeper.config.optimizer import SHAPES, UserOptimizerTable, each
from sweeper.config.reading import RawTable
from sweeper.config.refusals import MISSING
from sweeper.config.search import SearchEntry, gives_floats
from sweeper.config.space import table_around
from sweeper.config.table import Flaw, Table, field_of, value_of

HUBER_DELTA = 1.0
GRADIENT_PENALTY = 10.0  # Gulrajani et al. 2017, algorithm 1
CLIP = 0.01  # Arjovsky et al. 2017, algorithm 1
OPTIMIZER_S_RATE = 0.0  # 0 is not a valid learning rate: the phase uses that of the optimizer

# by dotted key without names
_NUMBERS: Mapping[str, float] = {
    "optimizer.clip_norm": math.inf,
    "optimizer.clip_value": math.inf,
    "train.ema": 0.0,
    "train.label_smoothing": 0.0,
    "train.huber_delta": HUBER_DELTA,
    "train.gradient_penalty": GRADIENT_PENALTY,
    "train.clip": CLIP,
    "train.lr": OPTIMIZER_S_RATE,
}


def general(key: str) -> str:
    """A dotted key without names: `model.dropout` for `model.b.dropout`."""
    table, *_, setting = key.split(".")
    return f"{table}.{setting}"


def has_number_without(key: str) -> bool:
    """Whether there is a number that means "none" for this key."""
    around, _, setting = key.rpartition(".")
    if around.endswith(".schedule"):
        return any(setting in shape for shape in SHAPES.values())
    return general(key) in _NUMBERS


def number_without(key: str, tables: Mapping[str, Table]) -> float:
    """The value of the setting `key` in a trial that has none."""
    around, _, setting = key.rpartition(".")
    if not around.endswith(".schedule"):
        return _NUMBERS[general(key)]
    name, _, rest = f"{around}.name".partition(".")
    # a schedule that does not use the number ignores it
    return SHAPES[value_of(tables[name], rest)].get(setting, 0.0)


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


def rateless(
    raw: RawTable, kind: type[Table], searched: Container[str], phases: Iterable[str]
) -> Iterator[Flaw]:
    """User-defined optimizers without a learning rate, if a phase has one in some trials only.

    `raw` and `kind` are the table `[optimizer]` and its type.
    """
    drawn = [rate for name in phases if (rate := f"train.phases.{name}.lr") in searched]
    for key, table, its in each(raw, kind):
        if (
            issubclass(its, UserOptimizerTable)
            and "lr" not in table
            and f"{key}.lr" not in searched
        ):
            for rate in drawn:
                hint = f"write lr = ... in [{key}], for trials that do not draw {rate}"
                yield Flaw(f"{key}.lr", MISSING, hint)
