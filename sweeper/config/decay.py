"""`[optimizer.decay]`: which arrays of a model weight decay touches, and how much."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BeforeValidator, ConfigDict, Field, PlainValidator, create_model
from pydantic_core import PydanticCustomError

from sweeper.config.kinds import ReadBy, items_of, one_or_more
from sweeper.config.refusals import format_value
from sweeper.config.table import Flaw, Table


@dataclass(frozen=True, slots=True)
class Rule:
    """Arrays that meet all of its conditions decay by `amount` times the weight decay.

    `key` is where it stands in `[optimizer.decay]`. `layer` names a class, `leaf` a field of it,
    `path` is a pattern of where the array stands in the model; an empty condition is none.
    """

    key: str
    amount: float
    layer: str = ""
    leaf: str = ""
    path: str = ""
    depth: tuple[int, ...] = ()
    ndim: tuple[int, ...] = ()


def _amount(value: object) -> bool | float:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and isfinite(value) and 0 <= value <= 1e38:
        return float(value)
    raise PydanticCustomError("decay_amount", "no amount of decay")


def _layer_decay(value: object) -> object:
    if not isinstance(value, Mapping):
        return _amount(value)
    leaves = cast("Mapping[str, object]", value)
    if not leaves:
        raise PydanticCustomError("decay_amount", "no amount of decay")
    return {name: _amount_of(name, amount) for name, amount in leaves.items()}


def _amount_of(leaf: str, value: object) -> bool | float:
    try:
        return _amount(value)
    except PydanticCustomError:
        context = {"leaf": leaf, "amount": format_value(value)}
        raise PydanticCustomError("decay_of_leaf", "no amount of decay", context) from None


def _whole_numbers(value: object) -> object:
    numbers = items_of(value) or (value,)
    if all(type(number) is int for number in numbers):
        return value if numbers == (value,) else numbers
    raise PydanticCustomError("whole_numbers", "neither a whole number nor an array of them")


_AMOUNT: dict[str, Any] = {"anyOf": [{"type": "boolean"}, {"type": "number", "minimum": 0}]}
_A_LEAF_EACH: dict[str, Any] = {"type": "object", "additionalProperties": _AMOUNT}

Amount = Annotated[
    bool | float,
    PlainValidator(_amount, json_schema_input_type=bool | Annotated[float, Field(ge=0)]),
]
LayerDecay = Annotated[
    bool | float | dict[str, bool | float],
    ReadBy(_layer_decay, {"anyOf": [*_AMOUNT["anyOf"], _A_LEAF_EACH]}),
]
WholeNumbers = Annotated[
    int | tuple[int, ...] | None, ReadBy(_whole_numbers, one_or_more({"type": "integer"}))
]
Word = Annotated[str, Field(min_length=1)]


class WhereTable(Table):
    """One of `[[optimizer.decay.where]]`; its `class` Python keeps for itself: `WHERE` adds it."""

    leaf: Word | None = Field(
        default=None,
        description="name of the array, or of a field that holds it",
        examples=["bias"],
    )
    path: Word | None = Field(
        default=None,
        description="where the array, or what holds it, stands in the model; * is any text",
        examples=["layers[0].*", "*.attention", "layers[-1]"],
    )
    depth: WholeNumbers = Field(
        default=None,
        description="place in the first sequence of layers that holds it: 0, 1, ..., the last -1",
        examples=[0, [0, 1]],
    )
    ndim: WholeNumbers = Field(
        default=None, description="dimensions of the array, of one model alone", examples=[1]
    )
    decay: Amount = Field(
        description="whether such an array decays, or a factor of the weight decay",
        examples=[False, 0.1],
    )

    @property
    def layer(self) -> str:
        """The `class`, empty where there is none."""
        return getattr(self, "class") or ""


_word: Any = Word
_class: Any = (
    _word | None,
    Field(
        default=None,
        description="of the layer: any of eqx.nn, or module:Class of yours",
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
    """`[optimizer.decay]`; all other keys are classes of layers."""

    rules = (_no_condition,)
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, LayerDecay] = Field(init=False)  # pyright: ignore

    other: Amount | None = Field(
        default=None,
        description="arrays that nothing else here is about; without it, weights of linear and "
        "convolution layers decay",
        examples=[False],
    )
    where: Annotated[tuple[_Where, ...], Field(strict=False)] = Field(
        default=(),
        description="arrays by what they are and where they stand; [[optimizer.decay.where]]",
        examples=[[{"path": "layers[0].*", "decay": False}]],
    )

    @property
    def layers(self) -> Mapping[str, bool | float | Mapping[str, bool | float]]:
        """What is written of classes of layers, by name."""
        return self.__pydantic_extra__

    @cached_property
    def rules_in_order(self) -> tuple[Rule, ...]:
        """All rules, in the order of the file."""
        return tuple(self._rules())

    @cached_property
    def text(self) -> str:
        """The same for tables that say the same."""
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
    raise PydanticCustomError("decay_rules", "no table of rules")


# marks a setting that is such a table: a number in its place is told what the place is for
RULES = BeforeValidator(_a_table)
