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

    kind: Annotated[Literal["mlp"], FIXED] = "mlp"
    depth: Annotated[int, Field(ge=0)]
    width: Count
    activation: Activation = "relu"
    layer_norm: bool = False
    dropout: Annotated[float, Field(ge=0, lt=1), TRACED] = 0.0
