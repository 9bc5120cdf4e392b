"""Values of `[data]` that may be written in several ways."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any, Literal, TypeGuard, get_args

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from sweeper.config.refusals import shown
from sweeper.config.table import Table

_Method = Literal["none", "mean", "median", "most_frequent"]
_METHODS = get_args(_Method)


class Constant(Table):
    """`impute = { constant = 0 }`: the number that stands for every missing one."""

    constant: float


def _names(value: object) -> object:
    names: Any = (value,) if isinstance(value, str) else value
    if _is_array(names) and names and all(_is_name(name) for name in names):
        return tuple(names)
    raise PydanticCustomError("names", "neither a name nor an array of names")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _impute(value: object) -> object:
    if isinstance(value, Constant) or (isinstance(value, str) and value in _METHODS):
        return value
    if _is_table(value) and value.keys() == {"constant"}:
        constant = value["constant"]
        if not _is_number(constant):
            raise PydanticCustomError("constant", "no constant", {"constant": shown(constant)})
        return Constant(constant=float(constant))
    raise PydanticCustomError("impute", "no way to fill gaps")


def _class_weights(value: object) -> object:
    if value in ("none", "balanced"):
        return value
    if _is_table(value) and value:
        if all(_is_number(weight) and weight > 0 for weight in value.values()):
            return {name: float(weight) for name, weight in value.items()}
        raise PydanticCustomError("class_weight", "a weight that is no number above 0")
    raise PydanticCustomError("class_weights", "no weights")


def _is_array(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _is_table(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_number(value: object) -> bool:
    return type(value) is int or (isinstance(value, float) and isfinite(value))


ColumnNames = Annotated[
    tuple[str, ...], BeforeValidator(_names, json_schema_input_type=str | tuple[str, ...])
]
Impute = Annotated[
    _Method | Constant, BeforeValidator(_impute, json_schema_input_type=_Method | Constant)
]
ClassWeights = Annotated[
    Literal["none", "balanced"] | dict[str, float],
    BeforeValidator(
        _class_weights, json_schema_input_type=Literal["none", "balanced"] | dict[str, float]
    ),
]
