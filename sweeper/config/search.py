"""`[search]`: the values from which each searched setting is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import product
from math import isclose, isfinite, prod
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model

from sweeper.config.kinds import AnyScalar, Conditions, Count
from sweeper.config.refusals import format_value, refusal
from sweeper.config.table import Flaw, Table
from sweeper.trial import Scalar

_TYPE = "type of the values"
_LOW = "lowest value"
_HIGH = "highest value"
_STEP = "distance between values, starting at low"
_MAX_INTEGERS = 2**52  # samplers draw them as floats
_MAX_STEPS = 100_000  # more have no effect, and take long to list
_MAX_LISTED = 10_000_000  # as many as a count has; arguments of functions may have more
_LEAST = 1.2e-38
_MOST_COMBINATIONS = 16  # of choices to test with
_LOG = "whether to draw uniformly in the logarithm"


class _Entry(Table):
    """Settings of every search entry; `name` names its column."""

    name: Annotated[str, Field(pattern=r"^\w+$", max_length=100)] | None = Field(
        default=None,
        description="name of the column; default: the last part of the key",
        examples=["units"],
    )
    when: Conditions | None = Field(
        default=None,
        description="other searched settings, each with a value or an array of values: a trial "
        "that lacks one of these values keeps the file's own value, and the column is null",
        examples=[{"model.layer_norm": True}],
    )

    def column(self, key: str) -> str:
        """The results column of the setting `key`."""
        return self.name or key.rpartition(".")[2]


class _RangeEntry(_Entry):
    """A range with extra values; draws either from the range or one of these values."""

    @property
    def or_values(self) -> tuple[Any, ...]:
        """The values of `or`, which is a reserved word in Python."""
        return getattr(self, "or")


def _each_once(values: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    for place, value in enumerate(values):
        if value in values[:place]:
            raise refusal(f"{format_value(value)} occurs twice", "remove one of the two")
    return values


def _range_of(kind: Any) -> type[_RangeEntry]:
    """The base of ranges of integers and ranges of floats."""
    or_values: Any = (
        Annotated[tuple[kind, ...], Field(strict=False), AfterValidator(_each_once)],
        Field(
            default=(),
            description="extra values; each is as likely as the whole range",
            examples=[[0]],
        ),
    )
    return create_model("_Range", __base__=_RangeEntry, **{"or": or_values})


def check_order(low: float, high: float) -> Iterable[Flaw]:
    """Check that a range does not end before it begins."""
    if low > high:
        yield Flaw("low", f"low {low} is above high {high}", "swap the two")


def _log_of_nothing(low: float, log: bool) -> Iterable[Flaw]:
    if log and low <= 0:
        also = f", and or = [{low}] if {low} should be drawn too" if low == 0 else ""
        yield Flaw("low", f"log with low {low}", f"write a number above 0{also}")
    if log and 0 < low < _LEAST:
        found = f"log with low {low}, which 32-bit floats cannot distinguish from 0"
        yield Flaw("low", found, f"write {_LEAST} or more")


def _steps_in_log(step: float | None, log: bool) -> Iterable[Flaw]:
    # integers are 1 apart in any case, floats are not
    if log and step is not None and (isinstance(step, float) or step != 1):
        yield Flaw("step", f"log with step {step}", "remove one of the two")


def _too_fine(low: float, high: float, step: float | None) -> Iterable[Flaw]:
    if step is not None and (_decimal(high) - _decimal(low)) / _decimal(step) > _MAX_STEPS:
        yield Flaw("step", f"step {step} from {low} to {high}", "write a larger one, or remove it")


def _too_wide(low: float, high: float) -> Iterable[Flaw]:
    if not isfinite(high - low):
        found = f"{low} to {high} is wider than the range of floats"
        yield Flaw("high", found, "write a smaller one")


def _too_many(low: int, high: int, step: int, base: int | None, log: bool) -> Iterable[Flaw]:
    """Check that samplers, which draw floats, can tell all integers of a range apart."""
    largest = high if log else (high - low) // step
    if base is None and largest >= _MAX_INTEGERS:
        found = f"{low} to {high} has integers that floats cannot tell apart"
        yield Flaw("high", found, "write a smaller one, or a larger step")


def _base_and_another(base: int | None, step: int, log: bool) -> Iterable[Flaw]:
    if base is not None and (log or step != 1):
        other = "log" if log else f"step {step}"
        yield Flaw("base", f"base with {other}", "remove one of the two")


def _no_power(base: int | None, low: int, high: int) -> Iterable[Flaw]:
    for bound, value in (("low", low), ("high", high)):
        if base is not None and (value < 1 or value & (value - 1)):
            yield Flaw(bound, f"{value} is not a power of 2", "write 1, 2, 4, 8, ...")


def _repeated_choice(choices: tuple[Scalar, ...]) -> Iterable[Flaw]:
    seen: set[Scalar] = set()
    for choice in choices:
        if choice in seen:
            yield Flaw("choices", f"{format_value(choice)} occurs twice", "remove one of the two")
        seen.add(choice)


def _rounded_choice(choices: tuple[Scalar, ...]) -> Iterable[Flaw]:
    """An integer next to floats is recorded as a float, since Parquet columns have one type."""
    if {type(choice) for choice in choices} != {int, float}:
        return
    for choice in choices:
        if isinstance(choice, int) and int(float(choice)) != choice:
            found = f"{choice} next to floats would be recorded as {float(choice):.0f}"
            yield Flaw("choices", found, "write integers only, or a smaller one")


class IntSearch(_range_of(int)):
    """Integers from `low` to `high`, both included; with `base` only its powers."""

    rules = (check_order, _log_of_nothing, _steps_in_log, _base_and_another, _no_power, _too_many)

    type: Literal["int"] = Field(description=_TYPE)
    low: int = Field(description=_LOW, examples=[16])
    high: int = Field(description=_HIGH, examples=[128])
    step: Count = Field(default=1, description=_STEP, examples=[16])
    log: bool = Field(default=False, description=_LOG)
    base: Literal[2] | None = Field(default=None, description="only powers of this number")

    def count(self) -> int:
        """How many values there are."""
        return self._ranged() + sum(not self._in_range(value) for value in self.or_values)

    def values(self) -> tuple[int, ...] | None:
        """All values, ascending; None if there are too many to list."""
        if self.count() > _MAX_LISTED:
            return None
        ranged = self.in_range()
        return tuple(sorted({*ranged, *self.or_values}) if self.or_values else ranged)

    def in_range(self) -> Sequence[int]:
        """The values in the range only, ascending."""
        if self.base is not None:
            return tuple(self.low << power for power in range(self._ranged()))
        return range(self.low, self.high + 1, self.step)

    def has(self, value: Scalar) -> Scalar | None:
        """The value of this entry that equals `value`, or None."""
        is_one = type(value) is int and (value in self.or_values or self._in_range(value))
        return value if is_one else None

    def _ranged(self) -> int:
        if self.base is not None:
            return self.high.bit_length() - self.low.bit_length() + 1
        return (self.high - self.low) // self.step + 1

    def _in_range(self, value: int) -> bool:
        if not self.low <= value <= self.high:
            return False
        return value & (value - 1) == 0 if self.base else (value - self.low) % self.step == 0


class FloatSearch(_range_of(float)):
    """Floats from `low` to `high`; with `step`, only `low` plus multiples of it."""

    rules = (check_order, _too_wide, _log_of_nothing, _steps_in_log, _too_fine)

    type: Literal["float"] = Field(description=_TYPE)
    low: float = Field(description=_LOW, examples=[1e-4])
    high: float = Field(description=_HIGH, examples=[1e-2])
    step: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description=_STEP, examples=[0.1]
    )
    log: bool = Field(default=False, description=_LOG)

    def count(self) -> int | None:
        """How many values there are; None for a continuous range."""
        values = self.values() if self.or_values or self.low == self.high else None
        return self._ranged() if values is None else len(values)

    def values(self) -> tuple[float, ...] | None:
        """All values, ascending; None for a continuous range."""
        ranged = self.in_range()
        if ranged is None and self.low == self.high:
            ranged = (self.low,)
        return None if ranged is None else tuple(sorted({*ranged, *self.or_values}))

    def in_range(self) -> tuple[float, ...] | None:
        """The values in the range only, ascending; None for a continuous range."""
        count = self._ranged()
        return None if count is None else tuple(self.at(index) for index in range(count))

    def at(self, index: int) -> float:
        """The value `index` steps above `low`."""
        return float(_decimal(self.low) + index * _decimal(self.step or 0.0))

    def has(self, value: Scalar) -> Scalar | None:
        """The value of this entry that equals `value`, or None."""
        if isinstance(value, bool | str):
            return None
        number = float(value)
        if number in self.or_values:
            return number
        if not self.low <= number <= self.high:
            return None
        ranged = self.in_range()
        return number if ranged is None else next((v for v in ranged if isclose(v, number)), None)

    def _ranged(self) -> int | None:
        if self.step is None:
            return None
        # in decimals, since (0.3 - 0.0) // 0.1 is 2 in binary floats
        return int((_decimal(self.high) - _decimal(self.low)) / _decimal(self.step)) + 1


class CategoricalSearch(_Entry):
    """One of `choices`, which are not ordered."""

    rules = (_repeated_choice, _rounded_choice)

    type: Literal["categorical"] = Field(description=_TYPE)
    choices: Annotated[tuple[AnyScalar, ...], Field(strict=False, min_length=1)] = Field(
        description="the values, in no particular order", examples=[["relu", "tanh"]]
    )

    def count(self) -> int:
        """How many values there are."""
        return len(self.choices)

    def values(self) -> tuple[Scalar, ...]:
        """The choices as written."""
        return self.choices

    def has(self, value: Scalar) -> Scalar | None:
        """The choice that equals `value`, or None."""
        equal = (one for one in self.choices if one == value)
        return next(
            (one for one in equal if isinstance(one, bool) is isinstance(value, bool)), None
        )


class SameAs(Table):
    """Not drawn: takes the value of another searched setting."""

    same_as: str = Field(
        description="the searched setting to copy the value from; no other keys",
        examples=["model.width"],
    )


SearchEntry = IntSearch | FloatSearch | CategoricalSearch


def _decimal(number: float) -> Decimal:
    return Decimal(repr(number))


def ends(entry: SearchEntry) -> tuple[Scalar, ...]:
    """Values to test with for all values: the choices, or both bounds and the extra values."""
    if isinstance(entry, CategoricalSearch):
        return entry.choices
    return entry.low, entry.high, *entry.or_values


def values_to_try(entries: Mapping[str, SearchEntry]) -> list[dict[str, Scalar]]:
    """Values to test with for several settings, by column: none, all first, all last, and choices.

    These are all combinations if there are few, else each choice next to the first of the others.
    """
    tried = {entry.column(key): ends(entry) for key, entry in entries.items()}
    first, last = ({name: values[place] for name, values in tried.items()} for place in (0, -1))
    choices = {
        entry.column(key): entry.choices
        for key, entry in entries.items()
        if isinstance(entry, CategoricalSearch)
    }
    if prod(map(len, choices.values())) <= _MOST_COMBINATIONS:
        chosen = [dict(zip(choices, some, strict=True)) for some in product(*choices.values())]
    else:
        chosen = [{name: value} for name, values in choices.items() for value in values]
    found = [{}, first, last, *({**first, **some} for some in chosen)]
    return [*{tuple(values.items()): values for values in found}.values()]


def gives_floats(entry: SearchEntry) -> bool:
    """Whether all its values are floats."""
    if isinstance(entry, CategoricalSearch):
        return all(isinstance(choice, float) for choice in entry.choices)
    return isinstance(entry, FloatSearch)
