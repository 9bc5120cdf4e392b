"""`[model]`: the network that every trial starts from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sweeper.config.kinds import Count
from sweeper.config.roles import FIXED, TRACED
from sweeper.config.table import Table

Activation = Literal["relu", "tanh", "gelu", "silu", "elu", "sigmoid", "leaky_relu"]


class MlpTable(Table):
    """A multilayer perceptron of `depth` hidden layers; depth 0 is a linear model."""

    kind: Annotated[Literal["mlp"], FIXED] = Field(
        default="mlp", description="a multilayer perceptron"
    )
    depth: Annotated[int, Field(ge=0, le=1000)] = Field(
        description="hidden layers; 0 is a linear model"
    )
    width: Count = Field(description="units of each hidden layer")
    activation: Activation = Field(default="relu", description="after each hidden layer")
    layer_norm: bool = Field(default=False, description="whether hidden layers are normalised")
    dropout: Annotated[float, Field(ge=0, lt=1), TRACED] = Field(
        default=0.0, description="probability that a hidden unit is left out in training"
    )
