"""`[optimizer]`: how weights move; defaults are those of Optax."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sweeper.config.roles import FIXED, TRACED
from sweeper.config.table import Table

_Decay = Annotated[float, Field(ge=0), TRACED]
_Fraction = Annotated[float, Field(ge=0, lt=1), TRACED]
_Rate = Annotated[float, Field(gt=0), TRACED]


class AdamWTable(Table):
    """Adam with decoupled weight decay."""

    name: Annotated[Literal["adamw"], FIXED]
    lr: _Rate
    weight_decay: _Decay = 0.0
    b1: _Fraction = 0.9
    b2: _Fraction = 0.999
    eps: _Rate = 1e-8


class SgdTable(Table):
    """Stochastic gradient descent with decoupled weight decay."""

    name: Annotated[Literal["sgd"], FIXED]
    lr: _Rate
    weight_decay: _Decay = 0.0
    momentum: _Fraction = 0.0
    nesterov: bool = False


OptimizerTable = AdamWTable | SgdTable
