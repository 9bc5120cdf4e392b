"""`[model]`: the network that every trial starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from sweeper.config.kinds import Argument, Count, FunctionName
from sweeper.config.roles import DECLARED, FIXED, TRACED
from sweeper.config.table import Table
from sweeper.trial import Scalar

ModelKind = Literal["mlp", "python", "parts"]
OneKind = Literal["mlp", "python"]
Activation = Literal["relu", "tanh", "gelu", "silu", "elu", "sigmoid", "leaky_relu"]


class _MlpKeys(Table):
    """The keys of a multilayer perceptron."""

    depth: Annotated[int, Field(ge=0, le=1000)] = Field(
        description="hidden layers; 0 is a linear model", examples=[2]
    )
    width: Count = Field(description="units of each hidden layer", examples=[64])
    activation: Activation = Field(default="relu", description="after each hidden layer")
    layer_norm: bool = Field(default=False, description="whether hidden layers are normalised")
    dropout: Annotated[float, Field(ge=0, lt=1), TRACED] = Field(
        default=0.0,
        description="probability that a hidden unit is left out in training",
        examples=[0.1],
    )


class _PythonKeys(Table):
    """A function of the user's, and what else it is given: keys that no table has."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Argument] = Field(init=False)  # pyright: ignore

    function: Annotated[FunctionName, FIXED] = Field(
        description="module:function, which builds it; given all other keys of [model]",
        examples=["nets:build"],
    )
    fixed_start: Annotated[bool, FIXED, DECLARED] = Field(
        default=False,
        description="whether trials are meant to start from the same weights, whatever the key, as "
        "those of a pretrained model do",
        examples=[True],
    )


class MlpTable(_MlpKeys):
    """A multilayer perceptron of `depth` hidden layers; depth 0 is a linear model."""

    kind: Annotated[Literal["mlp"], FIXED] = Field(
        default="mlp", description="a multilayer perceptron"
    )


class PythonTable(_PythonKeys):
    """What the user's `function` builds."""

    kind: Annotated[Literal["python"], FIXED] = Field(description="a model of your own")

    @property
    def arguments(self) -> Mapping[str, Scalar]:
        """What the function is given besides sizes and a key, by name."""
        return self.__pydantic_extra__


class MixedTable(_MlpKeys, _PythonKeys):
    """Both, where `kind` is searched; what is a key of the MLP's is not given to the function."""

    model_config = ConfigDict(extra="allow")

    kind: OneKind = Field(description="which of them")

    def own(self) -> MlpTable | PythonTable:
        """The table of its kind, without the keys of the other."""
        if self.kind == "mlp":
            return MlpTable.model_construct(**_values(self, MlpTable))
        values: dict[str, Any] = _values(self, PythonTable) | self.__pydantic_extra__
        return PythonTable.model_construct(**values)


ModelTable = MlpTable | PythonTable


def concerns(table: Table, name: str, kind: ModelKind) -> bool:
    """Whether a key of this `[model]` is of use for models of `kind`."""
    if isinstance(table, MixedTable):
        return (name in _MlpKeys.model_fields) is (kind == "mlp")
    return getattr(table, "kind", None) == kind


def _values(table: Table, like: type[Table]) -> dict[str, Any]:
    return {name: getattr(table, name) for name in like.model_fields}
