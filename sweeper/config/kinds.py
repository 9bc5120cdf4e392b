"""Kinds of value that several tables take."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, PlainValidator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from sweeper.trial import Scalar


def _count_or_auto(value: object) -> object:
    if value == "auto" or (type(value) is int and value >= 0):
        return value
    raise PydanticCustomError("count_or_auto", "neither a count nor auto")


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


def is_function(name: str) -> bool:
    """Whether this names a function of the user's: `module:function`."""
    module, _, function = name.partition(":")
    return all(part.isidentifier() for part in (*module.split("."), function))


def _function_name(text: str) -> str:
    if is_function(text):
        return text
    raise PydanticCustomError("function_name", "not of the form module:function")


@dataclass(frozen=True, slots=True)
class OneOf:
    """Marks a text that is one of `options`, or names a function of the user's."""

    options: tuple[str, ...]

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            self._checked, core_schema.str_schema(strict=True)
        )

    def _checked(self, text: str) -> str:
        if text in self.options or is_function(text):
            return text
        options = ", ".join(self.options)
        raise PydanticCustomError("one_of", "no such name", {"options": options})


CountOrAuto = Annotated[
    int | Literal["auto"],
    PlainValidator(
        _count_or_auto, json_schema_input_type=Annotated[int, Field(ge=0)] | Literal["auto"]
    ),
]
Count = Annotated[int, Field(ge=1, le=10_000_000)]
AnyScalar = Annotated[Scalar, PlainValidator(_scalar, json_schema_input_type=Scalar)]
FunctionName = Annotated[str, AfterValidator(_function_name)]
Argument = Annotated[Scalar, PlainValidator(_argument, json_schema_input_type=Scalar)]
