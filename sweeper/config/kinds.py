"""Types of values that several tables use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from sweeper.trial import Scalar


def _count_or_auto(value: object) -> object:
    if value == "auto" or (type(value) is int and value >= 0):
        return value
    raise PydanticCustomError("count_or_auto", "not a count or auto")


def _some_or_auto(value: object) -> object:
    if value == "auto" or (type(value) is int and value >= 1):
        return value
    raise PydanticCustomError("some_or_auto", "not a positive count or auto")


def _scalar(value: object) -> object:
    if isinstance(value, Scalar):
        return value
    raise PydanticCustomError("scalar", "not a scalar")


def _argument(value: object) -> object:
    if not isinstance(value, Scalar):
        raise PydanticCustomError("argument", "not a scalar")
    if isinstance(value, float) and not isfinite(value):
        raise PydanticCustomError("finite_number", "not finite")
    return value


def _count_or_share(value: object) -> object:
    is_count = type(value) is int and value >= 0
    if is_count or (type(value) is float and 0 <= value < 1):
        return value
    raise PydanticCustomError("count_or_share", "not a count or a share")


# the form in JSON Schema; `is_function` checks which letters a name may have
_FUNCTION_FORM: Mapping[str, Any] = {"type": "string", "pattern": r"^[^\s:]+:[^\s:]+$"}


def is_function(name: str) -> bool:
    """Whether this names a user-defined function: `module:function`."""
    module, _, function = name.partition(":")
    return all(part.isidentifier() for part in (*module.split("."), function))


def _function_name(text: str) -> str:
    if is_function(text):
        return text
    raise PydanticCustomError("function_name", "not of the form module:function")


@dataclass(frozen=True, slots=True)
class OneOf:
    """Marks a string that is one of `options`, or a user-defined name in this `form`."""

    options: tuple[str, ...]
    form: str = "module:function"

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            self._checked, core_schema.str_schema(strict=True)
        )

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"enum": [*self.options]}, dict(_FUNCTION_FORM)]}

    def _checked(self, text: str) -> str:
        if text in self.options or is_function(text):
            return text
        options = f'{", ".join(self.options)}, or "{self.form}"'
        raise PydanticCustomError("one_of", "no such name", {"options": options})


@dataclass(frozen=True, eq=False, slots=True)
class ReadBy:
    """Marks a value that is read by a function of its own, and is unchanged in JSON.

    `form` is the JSON Schema of what may be written.
    """

    read: Callable[[object], object]
    form: Mapping[str, Any]

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return dict(self.form)


def one_or_more(form: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a value that may occur alone or in an array of several."""
    return {"anyOf": [dict(form), {"type": "array", "items": dict(form), "minItems": 1}]}


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def _duration(value: object) -> object:
    if isinstance(value, str) and _DURATION.fullmatch(value) and seconds_of(value) > 0:
        return value
    raise PydanticCustomError("duration", "not a duration")


def seconds_of(duration: str) -> float:
    """The length of a duration such as "90s", "10m" or "2h", in seconds."""
    amount, unit = _DURATION.fullmatch(duration).groups()  # type: ignore[union-attr]
    return float(amount) * _UNITS[unit]


_BINARY = {letter: 1024**power for power, letter in enumerate("KMGT", 1)}
_DECIMAL = {letter: 1000**power for power, letter in enumerate("KMGT", 1)}
_BYTES = re.compile(r"^([1-9][0-9]*(?:\.[0-9]+)?|0\.[0-9]*[1-9][0-9]*) ?(?:([KMGT])(i?))?B$")


def _amount_of_memory(value: object) -> object:
    if isinstance(value, str) and _BYTES.fullmatch(value):
        return value
    raise PydanticCustomError("amount_of_memory", "not an amount of memory")


def bytes_of(amount: str) -> int:
    """The bytes in an amount of memory such as "2 GiB", "500 MB" or "4096 B"."""
    count, prefix, is_binary = _BYTES.fullmatch(amount).groups()  # type: ignore[union-attr]
    return ceil(float(count) * (_BINARY if is_binary else _DECIMAL).get(prefix, 1))


def items_of(value: object) -> tuple[object, ...] | None:
    """The items of an array; None if it is not an array."""
    return tuple(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else None


def _one_or_more(value: object) -> object:
    if isinstance(value, str):
        return value
    if (names := items_of(value)) and all(isinstance(name, str) for name in names):
        return names
    raise PydanticCustomError("one_or_more", "not a string or an array of strings")


def _conditions(value: object) -> object:
    """The allowed values by dotted key; tables may be nested, as TOML nests keys."""
    found: dict[str, tuple[Scalar, ...]] = {}
    for key, wanted in flattened(value):
        items = items_of(wanted)
        values = tuple(one for one in items or (wanted,) if isinstance(one, Scalar))
        if items == () or len(values) != len(items or (wanted,)):
            break
        found[key] = values
    else:
        if found:
            return found
    raise PydanticCustomError("conditions", "not conditions")


def flattened(value: object, under: str = "") -> list[tuple[str, object]]:
    """The values of a table and of the tables in it, each with its dotted key below `under`."""
    if not isinstance(value, Mapping):
        return [(under, value)]
    table = cast("Mapping[str, object]", value)
    inner = ((f"{under}.{name}" if under else name, one) for name, one in table.items())
    return [pair for key, one in inner for pair in flattened(one, key)]


FunctionName = Annotated[
    str, AfterValidator(_function_name), WithJsonSchema({**_FUNCTION_FORM}, mode="validation")
]
Duration = Annotated[str, ReadBy(_duration, {"type": "string", "pattern": _DURATION.pattern})]
AmountOfMemory = Annotated[
    str, ReadBy(_amount_of_memory, {"type": "string", "pattern": _BYTES.pattern})
]
Names = Annotated[str | tuple[str, ...], ReadBy(_one_or_more, one_or_more({"type": "string"}))]
Conditions = Annotated[
    dict[str, tuple[Scalar, ...]], ReadBy(_conditions, {"type": "object", "minProperties": 1})
]
CountOrAuto = Annotated[
    int | Literal["auto"],
    PlainValidator(
        _count_or_auto, json_schema_input_type=Annotated[int, Field(ge=0)] | Literal["auto"]
    ),
]
SomeOrAuto = Annotated[
    int | Literal["auto"],
    PlainValidator(
        _some_or_auto, json_schema_input_type=Annotated[int, Field(ge=1)] | Literal["auto"]
    ),
]
_COUNT_OR_SHARE: Mapping[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
    ]
}
CountOrShare = Annotated[int | float, ReadBy(_count_or_share, _COUNT_OR_SHARE)]
_MAX_COUNT = 10_000_000
MAX_XLA_THREADS = 1024  # with many more, XLA may crash
Count = Annotated[int, Field(ge=1, le=_MAX_COUNT)]
AnyScalar = Annotated[Scalar, PlainValidator(_scalar, json_schema_input_type=Scalar)]
Argument = Annotated[Scalar, PlainValidator(_argument, json_schema_input_type=Scalar)]
