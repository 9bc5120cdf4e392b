"""`[optimizer]` and `[optimizer.schedule]`: the optimizer and its learning rate over time.

Defaults are those of Optax.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from sweeper.config.decay import RULES, DecayTable
from sweeper.config.kinds import Argument, Count, FunctionName
from sweeper.config.reading import RawTable, RecipeTable, is_table, tables_of
from sweeper.config.table import FIXED, TRACED, Table

ScheduleName = Literal[
    "constant", "cosine", "warmup_cosine", "flat_cosine", "exponential", "one_cycle"
]

# the numbers that each schedule uses, with their defaults; those of one_cycle are Optax's
SHAPES: Mapping[str, Mapping[str, float]] = {
    "constant": {},
    "cosine": {"end": 0.0},
    "warmup_cosine": {"warmup": 0.1, "start": 0.0, "end": 0.0},
    "flat_cosine": {"flat": 0.5, "end": 0.0},
    "exponential": {"end": 0.01},
    "one_cycle": {"warmup": 0.3, "start": 1 / 25, "end": 1 / 25e4},
}

_Share = Annotated[Annotated[float, Field(ge=0, le=1)] | None, TRACED]


class LrScheduleTable(Table):
    """`[optimizer.schedule]`; `optimizer.lr` is the highest rate.

    All numbers are relative to the rate and to the number of steps that the trial trains.
    """

    name: ScheduleName = Field(default="constant", description="how the learning rate changes")
    warmup: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, TRACED] = Field(
        default=None,
        description="share of all steps in which the rate rises; for warmup_cosine (0.1) and "
        "one_cycle (0.3)",
        examples=[0.2],
    )
    start: _Share = Field(
        default=None,
        description="first rate as a share of lr; for warmup_cosine (0) and one_cycle (1/25)",
        examples=[0.1],
    )
    flat: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, TRACED] = Field(
        default=None,
        description="share of all steps in which the rate is lr; for flat_cosine (0.5)",
        examples=[0.3],
    )
    end: _Share = Field(
        default=None,
        description="rate after the last step as a share of lr; for cosine, warmup_cosine and "
        "flat_cosine (0), exponential (0.01) and one_cycle (1/250000)",
        examples=[0.05],
    )


OptimizerName = Literal["adam", "adamw", "rmsprop", "lion", "sgd", "adafactor"]

# float32 holds numbers slightly above 1e38
_Decay = Annotated[float, Field(ge=0, le=1e38), TRACED]
_Fraction = Annotated[float, Field(ge=0, lt=1), TRACED]
_Rate = Annotated[float, Field(gt=0, le=1e38), TRACED]
_Above0 = Annotated[float, Field(gt=0, le=1e38)]
# the same, for settings that only some of the searched optimizers have
_MaybeFraction = Annotated[Annotated[float, Field(ge=0, lt=1)] | None, TRACED]
_MaybeAbove0 = Annotated[_Above0 | None, TRACED]

_NAME = "the optimizer, or your own module:function that returns an Optax optimizer"
_LR = "learning rate"
_CLIP_NORM = "maximum norm of all gradients together; larger ones are scaled down to it"
_CLIP_VALUE = "maximum absolute value of a gradient entry; larger ones are clipped to it"
_WEIGHT_DECAY = "decoupled weight decay, times the learning rate; see [optimizer.decay]"
_DECAY = "which arrays weight decay applies to; default: weights of linear and convolution layers"
_SCHEDULE = "how the learning rate changes"
_B1 = "decay rate of the mean of gradients"
_B2 = "decay rate of the mean of squared gradients"
_EPS = "added to the denominator to keep the division finite"
_MOMENTUM = "decay rate of the sum of gradients"
_NESTEROV = "whether to use Nesterov momentum"
_DECAY_RATE = "exponent with which the decay rate of squared gradients approaches 1"
_THRESHOLD = "maximum root mean square of an array's update"
_FACTORED = "matrices of this size or larger are stored as row and column factors"
_BY_SCALE = "whether an array's updates are scaled by the root mean square of its values"

# settings of every optimizer, including user-defined ones
_ClipNorm = Annotated[_Above0 | None, TRACED, Field(description=_CLIP_NORM, examples=[1.0])]
_ClipValue = Annotated[_Above0 | None, TRACED, Field(description=_CLIP_VALUE, examples=[0.5])]
_Schedule = Annotated[LrScheduleTable, Field(description=_SCHEDULE)]
_Rules = Annotated[DecayTable | None, RULES, FIXED, Field(description=_DECAY)]


class _Keys(Table):
    """The settings of all built-in optimizers: gradients are clipped before the optimizer."""

    # whether it treats each number on its own, so that zero padding changes nothing
    elementwise: ClassVar[bool] = True
    # number of arrays of the size of the parameters in its state
    slots: ClassVar[int] = 1

    lr: _Rate = Field(description=_LR, examples=[1e-3])
    weight_decay: _Decay = Field(default=0.0, description=_WEIGHT_DECAY, examples=[1e-4])
    clip_norm: _ClipNorm = None
    clip_value: _ClipValue = None
    schedule: _Schedule = LrScheduleTable()
    decay: _Rules = None


class _AdamKeys(_Keys):
    """The settings of Adam."""

    slots: ClassVar[int] = 2

    b1: _Fraction = Field(default=0.9, description=_B1)
    b2: _Fraction = Field(default=0.999, description=_B2)
    eps: _Rate = Field(default=1e-8, description=_EPS)


class AdamTable(_AdamKeys):
    """Adam (Kingma & Ba 2015)."""

    name: Annotated[Literal["adam"], FIXED] = Field(description=_NAME)


class AdamWTable(_AdamKeys):
    """Adam with decoupled weight decay, which every optimizer has here: an alias of Adam."""

    name: Annotated[Literal["adamw"], FIXED] = Field(description=_NAME)


class RmspropTable(_Keys):
    """RMSProp; `eps` is added to the root, and `b2` is Optax's `decay`, as in Adam."""

    slots: ClassVar[int] = 2

    name: Annotated[Literal["rmsprop"], FIXED] = Field(description=_NAME)
    b2: _Fraction = Field(default=0.9, description=_B2)
    eps: _Rate = Field(default=1e-8, description=_EPS)
    momentum: _Fraction = Field(default=0.0, description="decay rate of the sum of updates")


class LionTable(_Keys):
    """Lion (Chen et al. 2023): the sign of the momentum."""

    name: Annotated[Literal["lion"], FIXED] = Field(description=_NAME)
    b1: _Fraction = Field(default=0.9, description="share of the momentum in an update")
    b2: _Fraction = Field(default=0.99, description=_B1)


class SgdTable(_Keys):
    """Stochastic gradient descent."""

    name: Annotated[Literal["sgd"], FIXED] = Field(description=_NAME)
    momentum: _Fraction = Field(default=0.0, description=_MOMENTUM, examples=[0.9])
    nesterov: bool = Field(default=False, description=_NESTEROV)


class AdafactorTable(_Keys):
    """Adafactor (Shazeer & Stern 2018), without momentum."""

    elementwise: ClassVar[bool] = False

    name: Annotated[Literal["adafactor"], FIXED] = Field(description=_NAME)
    decay_rate: _Fraction = Field(default=0.8, description=_DECAY_RATE)
    clipping_threshold: _Rate = Field(default=1.0, description=_THRESHOLD)
    min_dim_size_to_factor: Count = Field(default=128, description=_FACTORED)
    multiply_by_parameter_scale: bool = Field(default=True, description=_BY_SCALE)


class UserOptimizerTable(Table):
    """A user-defined optimizer; all other keys are arguments of the function."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Argument] = Field(init=False)  # pyright: ignore
    elementwise: ClassVar[bool] = False
    slots: ClassVar[int] = 2

    name: Annotated[FunctionName, FIXED] = Field(description=_NAME)
    lr: _MaybeAbove0 = Field(
        default=None,
        description=f"{_LR}, passed to the function at each step according to the schedule",
        examples=[1e-3],
    )
    clip_norm: _ClipNorm = None
    clip_value: _ClipValue = None
    schedule: _Schedule = LrScheduleTable()
    decay: _Rules = None

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the function besides the learning rate, by name."""
        return self.__pydantic_extra__


class MixedOptimizerTable(_Keys):
    """The keys of all optimizers, if `name` is searched; a trial uses those of its own."""

    name: OptimizerName = Field(description=_NAME)
    b1: _MaybeFraction = Field(default=None, description=_B1, examples=[0.8])
    b2: _MaybeFraction = Field(default=None, description=_B2, examples=[0.99])
    eps: _MaybeAbove0 = Field(default=None, description=_EPS, examples=[1e-6])
    momentum: _MaybeFraction = Field(default=None, description=_MOMENTUM, examples=[0.9])
    nesterov: bool | None = Field(default=None, description=_NESTEROV, examples=[True])
    decay_rate: _MaybeFraction = Field(default=None, description=_DECAY_RATE, examples=[0.7])
    clipping_threshold: _MaybeAbove0 = Field(default=None, description=_THRESHOLD, examples=[0.5])
    min_dim_size_to_factor: Count | None = Field(default=None, description=_FACTORED, examples=[64])
    multiply_by_parameter_scale: bool | None = Field(
        default=None, description=_BY_SCALE, examples=[False]
    )

    def own(self) -> OptimizerTable:
        """The table of its own optimizer, with that optimizer's defaults."""
        kind = OPTIMIZERS[self.name]
        values = {name: getattr(self, name) for name in kind.model_fields}
        return kind.model_construct(**{k: v for k, v in values.items() if v is not None})


OptimizerTable = (
    AdamTable
    | AdamWTable
    | RmspropTable
    | LionTable
    | SgdTable
    | AdafactorTable
    | UserOptimizerTable
)
OPTIMIZERS: Mapping[str, type[OptimizerTable]] = {
    "adam": AdamTable,
    "adamw": AdamWTable,
    "rmsprop": RmspropTable,
    "lion": LionTable,
    "sgd": SgdTable,
    "adafactor": AdafactorTable,
}


def takes(name: str, setting: str) -> bool:
    """Whether the optimizer with this name has such a setting."""
    return setting.partition(".")[0] in OPTIMIZERS[name].model_fields


# tables of every optimizer
OF_EACH = ("schedule", "decay")


class OptimizersTable(RecipeTable):
    """The optimizers by the name of the part that they train."""

    @property
    def by_part(self) -> Mapping[str, OptimizerTable]:
        """The optimizers by part."""
        return tables_of(self)

    @property
    def elementwise(self) -> bool:
        """Whether each optimizer treats each number on its own."""
        return all(table.elementwise for table in self.by_part.values())

    @property
    def slots(self) -> int:
        """The most arrays of the size of its part's parameters that an optimizer keeps."""
        return max(table.slots for table in self.by_part.values())


def decays_of(optimizer: object) -> Mapping[str, DecayTable]:
    """The decay rules, by the key of their table."""
    tables: dict[str, Any] = {"optimizer": optimizer}
    if isinstance(optimizer, OptimizersTable):
        tables = {f"optimizer.{name}": table for name, table in optimizer.by_part.items()}
    return {f"{key}.decay": table.decay for key, table in tables.items() if table.decay is not None}


def has_several(raw: object) -> bool:
    """Whether a raw `[optimizer]` has several optimizers: it contains tables by name."""
    return is_table(raw) and any(is_table(raw[name]) for name in raw if name not in OF_EACH)


def each(raw: object, kind: type[Table]) -> Iterator[tuple[str, RawTable, type[Table]]]:
    """The raw `[optimizer]`, or each of several, with its key and type."""
    if not is_table(raw):
        return
    if not issubclass(kind, OptimizersTable):
        yield "optimizer", raw, kind
        return
    for name, field in kind.model_fields.items():
        inner: Any = field.annotation
        if is_table(raw.get(name)):
            yield f"optimizer.{name}", raw[name], inner
