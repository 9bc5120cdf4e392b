"""`[optimizer]`: how weights move; defaults are those of Optax."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sweeper.config.roles import FIXED, TRACED
from sweeper.config.table import Table

# the largest that float32 holds is above 1e38
_Decay = Annotated[float, Field(ge=0, le=1e38), TRACED]
_Fraction = Annotated[float, Field(ge=0, lt=1), TRACED]
_Rate = Annotated[float, Field(gt=0, le=1e38), TRACED]
_Clip = Annotated[float, Field(gt=0, le=1e38)]

_NAME = "the optimizer"
_LR = "learning rate"
_CLIP = "largest norm of all gradients together; larger ones are scaled down to it"
_WEIGHT_DECAY = "decoupled, times the learning rate; of the weights of linear layers"


class AdamWTable(Table):
    """Adam with decoupled weight decay."""

    name: Annotated[Literal["adamw"], FIXED] = Field(description=_NAME)
    lr: _Rate = Field(description=_LR, examples=[1e-3])
    weight_decay: _Decay = Field(default=0.0, description=_WEIGHT_DECAY, examples=[1e-4])
    clip_norm: Annotated[_Clip | None, TRACED] = Field(
        default=None, description=_CLIP, examples=[1.0]
    )
    b1: _Fraction = Field(default=0.9, description="decay of the mean of gradients")
    b2: _Fraction = Field(default=0.999, description="decay of the mean of squared gradients")
    eps: _Rate = Field(default=1e-8, description="keeps the division by their root finite")


class SgdTable(Table):
    """Stochastic gradient descent with decoupled weight decay."""

    name: Annotated[Literal["sgd"], FIXED] = Field(description=_NAME)
    lr: _Rate = Field(description=_LR, examples=[1e-3])
    weight_decay: _Decay = Field(default=0.0, description=_WEIGHT_DECAY, examples=[1e-4])
    clip_norm: Annotated[_Clip | None, TRACED] = Field(
        default=None, description=_CLIP, examples=[1.0]
    )
    momentum: _Fraction = Field(
        default=0.0, description="decay of the sum of gradients", examples=[0.9]
    )
    nesterov: bool = Field(default=False, description="whether momentum is Nesterov's")


OptimizerTable = AdamWTable | SgdTable
