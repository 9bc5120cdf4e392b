"""Types of values that several tables use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from sweeper.config.refusals import TEXT_IN_QUOTES, refusal
from sweeper.errors import ProblemKind
from sweeper.trial import Scalar

NonEmptyStr = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, eq=False, slots=True)
class ReadBy:
    """Marks a value that its own function reads, and that JSON contains unchanged.

    `PlainValidator` would serialise arrays twice, with a warning. What may be written has the type
    `json_schema_input_type`.
    """

    read: Callable[[object], object]
    json_schema_input_type: Any

    def __get_pydantic_core_schema__(
        self, _source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        form = handler.generate_schema(self.json_schema_input_type)
        return core_schema.no_info_plain_validator_function(
            self.read, json_schema_input_schema=form
        )


def read_as(form: Any, found: str, hint: str, kind: ProblemKind | None = None) -> ReadBy:
    """Accepts values of the type `form`; refuses others with `found` and `hint`."""
    adapter: TypeAdapter[Any] = TypeAdapter(form, config=ConfigDict(strict=True))

    def read(value: object) -> object:
        try:
            return adapter.validate_python(value)
        except ValidationError:
            raise refusal(found, hint, kind) from None

    return ReadBy(read, form)


def one_or_more(kind: Any) -> Any:
    """A value of this type, or an array of several."""
    return kind | Annotated[tuple[kind, ...], Field(strict=False, min_length=1)]


_WRITE_SCALAR = "write true or false, a number or text"


def _argument(value: object) -> object:
    if not isinstance(value, Scalar):
        raise refusal("{value} cannot be an argument", _WRITE_SCALAR, ProblemKind.NOT_A_SCALAR)
    if isinstance(value, float) and not isfinite(value):
        raise PydanticKnownError("finite_number")
    return value


# the form in JSON Schema; `is_function` checks which letters a name may have
_FUNCTION_FORM: Mapping[str, Any] = {"type": "string", "pattern": r"^[^\s:]+:[^\s:]+$"}


def is_function(name: str) -> bool:
    """Whether this names a user-defined function: `module:function`."""
    module, _, function = name.partition(":")
    return all(part.isidentifier() for part in (*module.split("."), function))


def _function_name(text: str) -> str:
    if is_function(text):
        return text
    raise refusal("{value} is not the name of a function", 'write "module:function"')


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


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def _duration(value: object) -> object:
    if isinstance(value, str) and _DURATION.fullmatch(value) and seconds_of(value) > 0:
        return value
    raise refusal("{value} is not a duration", 'write e.g. "90s", "30m" or "2h"')


def seconds_of(duration: str) -> float:
    """The length of a duration such as "90s", "10m" or "2h", in seconds."""
    amount, unit = _DURATION.fullmatch(duration).groups()  # type: ignore[union-attr]
    return float(amount) * _UNITS[unit]


_BINARY = {letter: 1024**power for power, letter in enumerate("KMGT", 1)}
_DECIMAL = {letter: 1000**power for power, letter in enumerate("KMGT", 1)}
_BYTES = re.compile(r"^([1-9][0-9]*(?:\.[0-9]+)?|0\.[0-9]*[1-9][0-9]*) ?(?:([KMGT])(i?))?B$")


def bytes_of(amount: str) -> int:
    """The bytes in an amount of memory such as "2 GiB", "500 MB" or "4096 B"."""
    count, prefix, is_binary = _BYTES.fullmatch(amount).groups()  # type: ignore[union-attr]
    return ceil(float(count) * (_BINARY if is_binary else _DECIMAL).get(prefix, 1))


def items_of(value: object) -> tuple[object, ...] | None:
    """The items of an array; None if it is not an array."""
    return tuple(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else None


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
    hint = 'write e.g. { "model.layer_norm" = true }, or an array of values'
    raise refusal("{value} is not a condition", hint)


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
Duration = Annotated[
    str,
    PlainValidator(_duration),
    WithJsonSchema({"type": "string", "pattern": _DURATION.pattern}),
]
AmountOfMemory = Annotated[
    str,
    read_as(
        Annotated[str, Field(pattern=_BYTES.pattern)],
        "{value} is not an amount of memory",
        'write e.g. "2 GiB" or "500 MB"',
    ),
]
_NO_NAME = "{value} is not a name", f"{TEXT_IN_QUOTES}, or an array of names", ProblemKind.NOT_TEXT
Names = Annotated[str | tuple[str, ...], read_as(one_or_more(str), *_NO_NAME)]
Conditions = Annotated[
    dict[str, tuple[Scalar, ...]],
    ReadBy(_conditions, dict[str, Any]),
    WithJsonSchema({"type": "object", "minProperties": 1}),
]
_IntOrAuto = int | Literal["auto"]
_AUTO = 'write "auto" or an integer from'
_COUNT = Annotated[int, Field(ge=0)] | Literal["auto"]
_SOME = Annotated[int, Field(ge=1)] | Literal["auto"]
CountOrAuto = Annotated[_IntOrAuto, read_as(_COUNT, "{value} is not a count", f"{_AUTO} 0 up")]
SomeOrAuto = Annotated[
    _IntOrAuto, read_as(_SOME, "{value} is not a positive count", f"{_AUTO} 1 up")
]
CountOrShare = Annotated[
    int | float,
    read_as(
        Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0, lt=1)],
        "{value} is not a count or a share",
        "write an integer from 0 up, or a share below 1",
    ),
]
_MAX_COUNT = 10_000_000
MAX_XLA_THREADS = 1024  # with many more, XLA may crash
Count = Annotated[int, Field(ge=1, le=_MAX_COUNT)]
AnyScalar = Annotated[
    Scalar,
    read_as(Scalar, "{value} cannot be a choice", _WRITE_SCALAR, ProblemKind.NOT_A_SCALAR),
]
Argument = Annotated[Scalar, PlainValidator(_argument, json_schema_input_type=Scalar)]
