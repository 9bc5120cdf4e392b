"""Kinds of value that several tables take."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainValidator
from pydantic_core import PydanticCustomError

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


def _function_name(text: str) -> str:
    module, _, function = text.partition(":")
    if all(name.isidentifier() for name in (*module.split("."), function)):
        return text
    raise PydanticCustomError("function_name", "not of the form module:function")


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
