"""`[optimizer.decay]`: which arrays of a model weight decay applies to, and how strongly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    create_model,
)
from pydantic_core import PydanticCustomError

from sweeper.config.kinds import NonEmptyStr, one_or_more, read_as
from sweeper.config.refusals import format_value, refusal
from sweeper.config.table import Flaw, Table
from sweeper.errors import ProblemKind


@dataclass(frozen=True, slots=True)
class Rule:
    """Arrays that match all of its conditions decay by `amount` times the weight decay.

    `key` is its place in `[optimizer.decay]`. `layer` names a class, `leaf` one of its fields, and
    `path` is a pattern for the array's place in the model; empty conditions match everything.
    """

    key: str
    amount: float
    layer: str = ""
    leaf: str = ""
    path: str = ""
    depth: tuple[int, ...] = ()
    ndim: tuple[int, ...] = ()


_NO_AMOUNT = "{value} is not an amount of decay"
_WRITE_AMOUNT = "write true, false or a factor from 0 up"


def _amount(value: object) -> bool | float:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and isfinite(value) and 0 <= value <= 1e38:
        return float(value)
    raise refusal(_NO_AMOUNT, f"{_WRITE_AMOUNT}; for a layer also {{ weight = true, ... }}")


def _layer_decay(value: object) -> object:
    if not isinstance(value, Mapping) or not value:
        return _amount(cast("object", value))
    leaves = cast("Mapping[str, object]", value)
    return {name: _amount_of(name, amount) for name, amount in leaves.items()}


def _amount_of(leaf: str, value: object) -> bool | float:
    try:
        return _amount(value)
    except PydanticCustomError:
        found = f"{leaf} = {_NO_AMOUNT.replace('{value}', format_value(value))}"
        raise refusal(found, _WRITE_AMOUNT) from None


_AMOUNT: dict[str, Any] = {"anyOf": [{"type": "boolean"}, {"type": "number", "minimum": 0}]}
_A_LEAF_EACH: dict[str, Any] = {"type": "object", "additionalProperties": _AMOUNT}

Amount = Annotated[
    bool | float,
    PlainValidator(_amount, json_schema_input_type=bool | Annotated[float, Field(ge=0)]),
]
LayerDecay = Annotated[
    bool | float | dict[str, bool | float],
    PlainValidator(_layer_decay),
    WithJsonSchema({"anyOf": [*_AMOUNT["anyOf"], _A_LEAF_EACH]}),
]
WholeNumbers = Annotated[
    int | tuple[int, ...] | None,
    read_as(
        one_or_more(int),
        "{value} is not an integer",
        "write one, or an array of them",
        ProblemKind.NOT_AN_INTEGER,
    ),
]


class WhereTable(Table):
    """One of `[[optimizer.decay.where]]`; `WHERE` adds its `class`, a reserved word in Python."""

    leaf: NonEmptyStr | None = Field(
        default=None,
        description="name of the array, or of a field that contains it",
        examples=["bias"],
    )
    path: NonEmptyStr | None = Field(
        default=None,
        description="path in the model of the array or of what contains it; * matches any text",
        examples=["layers[0].*", "*.attention", "layers[-1]"],
    )
    depth: WholeNumbers = Field(
        default=None,
        description="index in the first sequence of layers that contains it; the last is -1",
        examples=[0, [0, 1]],
    )
    ndim: WholeNumbers = Field(
        default=None,
        description="number of dimensions of the array, within one model",
        examples=[1],
    )
    decay: Amount = Field(
        description="whether matching arrays decay, or a factor for the weight decay",
        examples=[False, 0.1],
    )

    @property
    def layer(self) -> str:
        """The `class`, or an empty string."""
        return getattr(self, "class") or ""


_text: Any = NonEmptyStr
_class: Any = (
    _text | None,
    Field(
        default=None,
        description="class of the layer: one of eqx.nn, or your own module:Class",
        examples=["layer_norm", "nets:Gate"],
    ),
)
WHERE: type[WhereTable] = create_model(
    "WHERE", __base__=WhereTable, __module__=__name__, **{"class": _class}
)


if TYPE_CHECKING:
    _Where = WhereTable
else:
    _Where = WHERE


def _no_condition(where: tuple[WhereTable, ...]) -> Iterable[Flaw]:
    for index, one in enumerate(where):
        if not any((one.layer, one.leaf, one.path)) and one.depth is None and one.ndim is None:
            hint = "write class, leaf, path, depth or ndim; or other = ... for all other arrays"
            yield Flaw(f"where.{index}", "no condition", hint)


class DecayTable(Table):
    """`[optimizer.decay]`; all other keys are layer classes."""

    rules = (_no_condition,)
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, LayerDecay] = Field(init=False)  # pyright: ignore

    other: Amount | None = Field(
        default=None,
        description="arrays that no other rule matches; default: weights of linear and "
        "convolution layers decay",
        examples=[False],
    )
    where: Annotated[tuple[_Where, ...], Field(strict=False)] = Field(
        default=(),
        description="rules by kind and place of an array; [[optimizer.decay.where]]",
        examples=[[{"path": "layers[0].*", "decay": False}]],
    )

    @property
    def layers(self) -> Mapping[str, bool | float | Mapping[str, bool | float]]:
        """The settings of layer classes, by name."""
        return self.__pydantic_extra__

    @cached_property
    def rules_in_order(self) -> tuple[Rule, ...]:
        """All rules, in the order of the file."""
        return tuple(self._rules())

    @cached_property
    def text(self) -> str:
        """A text that is equal for tables with equal settings."""
        return json.dumps(self.model_dump(mode="json", exclude_none=True), sort_keys=True)

    def _rules(self) -> Iterator[Rule]:
        if self.other is not None:
            yield Rule("other", float(self.other))
        for layer, decay in self.layers.items():
            if isinstance(decay, Mapping):
                for leaf, amount in decay.items():
                    yield Rule(f"{layer}.{leaf}", float(amount), layer, leaf)
            else:
                yield Rule(layer, float(decay), layer)
        for index, one in enumerate(self.where):
            yield Rule(
                f"where.{index}",
                float(one.decay),
                one.layer,
                one.leaf or "",
                one.path or "",
                _several(one.depth),
                _several(one.ndim),
            )


def _several(value: int | tuple[int, ...] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else value


def _a_table(value: object) -> object:
    if value is None or isinstance(value, dict | DecayTable):
        return cast("object", value)
    hint = "write [optimizer.decay]; the decay rate of squared gradients is b2"
    raise refusal("{value} is not a table of decay rules", hint)


# marks such a table, so that a number in its place gets a message about what the table is for
RULES = BeforeValidator(_a_table)
