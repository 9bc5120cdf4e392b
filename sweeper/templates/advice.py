"""What good practice suggests for a table: the settings that `init` writes into a study file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweeper.data.guess import Guess


class Effort(StrEnum):
    """How much to search."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"


@dataclass(frozen=True, slots=True)
class _Budget:
    trials: int
    epochs: int
    widest: int  # units of a hidden layer


_BUDGETS = {
    Effort.QUICK: _Budget(32, 30, 64),
    Effort.NORMAL: _Budget(128, 60, 128),
    Effort.THOROUGH: _Budget(512, 120, 512),
}
# rows for each unit of the widest layer
_ROWS_A_UNIT = 4
_NARROWEST = 16
# the fewest steps of an epoch, and the largest batch from so many rows on
_STEPS, _BATCHES = 8, {0: 64, 20_000: 128, 50_000: 256, 100_000: 512}
# piecewise-linear encoding: bins of a number, rows in each, inputs of a network, rows for each
_MOST_BINS, _FEWEST_BINS, _ROWS_A_BIN, _MOST_INPUTS, _ROWS_AN_INPUT = 32, 4, 50, 1024, 4
# the share of rows of one class from which accuracy says little
_IMBALANCED = 0.85
# training, validation and testing; a class with fewer rows is absent from some part
_PARTS = 3


@dataclass(frozen=True, slots=True)
class Line:
    """A setting and its value; None to leave it out. `why` is its comment, if it needs another."""

    key: str
    value: Any
    why: str = ""


def budget(effort: Effort) -> Iterator[Line]:
    """The settings that only depend on the effort."""
    chosen = _BUDGETS[effort]
    yield Line("study.n_trials", chosen.trials)
    yield Line("train.epochs", chosen.epochs)
    yield _width(chosen.widest)


def advice(guessed: Guess, effort: Effort, *, is_classes: bool) -> Iterator[Line]:
    """The settings for a table of which this much is known."""
    yield from budget(effort)
    widest = _NARROWEST
    while widest < _BUDGETS[effort].widest and 2 * widest * _ROWS_A_UNIT <= guessed.rows:
        widest *= 2
    yield _width(widest)
    largest = next(batch for rows, batch in reversed(_BATCHES.items()) if guessed.rows >= rows)
    yield Line("train.batch_size", max(1, min(largest, guessed.rows // 2 // _STEPS)))
    yield from _numbers(guessed)
    if is_classes and is_imbalanced(guessed) and guessed.rarest >= _PARTS:
        share = f"{guessed.commonest / guessed.rows:.0%}"
        yield Line(
            "study.metric", "val_auroc", f"{share} of rows are of one class: accuracy says little"
        )
        yield Line("train.metrics", ["accuracy", "f1", "auroc"])
        yield Line("data.class_weights", "balanced", "rare classes count as much as frequent ones")


def is_imbalanced(guessed: Guess) -> bool:
    """Whether most rows are of one class."""
    return guessed.commonest >= _IMBALANCED * guessed.rows


def _width(widest: int) -> Line:
    space = {"type": "int", "low": _NARROWEST, "high": widest, "base": 2}
    return Line("search.model.width", space)


def _numbers(guessed: Guess) -> Iterator[Line]:
    """How numbers are encoded: in bins, if there are enough rows for them."""
    inputs = min(_MOST_INPUTS, guessed.rows // _ROWS_AN_INPUT)
    most = min(guessed.rows // _ROWS_A_BIN, inputs // max(1, guessed.numbers))
    bins = _MOST_BINS
    while bins > max(most, _FEWEST_BINS):
        bins //= 2
    if guessed.numbers and bins <= most:
        yield Line("model.n_bins", bins)
        return
    yield Line("model.numbers", None)
    yield Line("model.n_bins", None)
    if guessed.numbers and guessed.rows >= _FEWEST_BINS * _ROWS_A_BIN:
        yield Line("data.scale", "quantile", "to normal deviates of ranks, of the training part")
