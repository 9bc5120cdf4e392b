"""`[trial]`: which trial of a study a file runs again, in which class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from sweeper.config.kinds import MAX_XLA_THREADS, AnyScalar, Count
from sweeper.config.settings import OPTIONAL_PARTS, is_optional
from sweeper.config.table import Flaw, Table

ClassStrategy = Literal["exact", "padded", "process"]


def _size_and_strategy(
    strategy: ClassStrategy,
    width: int | None,
    depth: int | None,
    sizes: Mapping[str, tuple[int, int]],
) -> Iterable[Flaw]:
    if sizes and strategy != "padded":
        yield Flaw("sizes", "room for parts, in a class that pads nothing", "remove it")
    if sizes:
        return
    for name, value in (("width", width), ("depth", depth)):
        if strategy == "padded" and value is None:
            yield Flaw(name, "missing", "write the size that the class is padded to")
        elif strategy != "padded" and value is not None:
            yield Flaw(name, f"{value} for a class that pads nothing", "remove it")


def _run_widths(
    lane_loop: Literal["map", "vmap"],
    width: int | None,
    run_widths: tuple[int, ...],
    sizes: Mapping[str, tuple[int, int]],
) -> Iterable[Flaw]:
    if run_widths and (sizes or lane_loop == "vmap"):
        why = "of parts" if sizes else "whose lanes are side by side"
        yield Flaw("run_widths", f"widths to run at, of a class {why}", "remove it")
    elif run_widths and (run_widths != tuple(sorted({*run_widths})) or run_widths[-1] != width):
        yield Flaw("run_widths", f"{[*run_widths]} for width {width}", "let them ascend to width")


def _unknown_part(parts: tuple[str, ...]) -> Iterable[Flaw]:
    for part in parts:
        if not is_optional(part):
            yield Flaw("parts", f"no part '{part}'", f"write some of {', '.join(OPTIONAL_PARTS)}")


class ClassTable(Table):
    """`[trial.class]`: what is fixed about the program that the trial is a lane of."""

    rules = (_size_and_strategy, _run_widths, _unknown_part)

    strategy: ClassStrategy = Field(description="of the class that trained it")
    lane_loop: Literal["map", "vmap"] = Field(description="how the class runs its lanes")
    capacity: Count = Field(description="lanes of the class; all but one stay empty", examples=[4])
    epochs: Count = Field(
        description="the most that a trial of its study could train", examples=[20]
    )
    width: Count | None = Field(
        default=None, description="to which a padded class pads", examples=[64]
    )
    run_widths: Annotated[tuple[Count, ...], Field(strict=False)] = Field(
        default=(),
        description="widths at which a padded class runs lanes, where there are several",
        examples=[[32, 64]],
    )
    depth: Count | None = Field(
        default=None, description="to which a padded class pads", examples=[4]
    )
    sizes: dict[str, Annotated[tuple[Count, Count], Field(strict=False)]] = Field(
        default={},
        description="width and depth to which a padded class pads each part of a model",
        examples=[{"a": [64, 2]}],
    )
    xla_threads: Annotated[int, Field(ge=1, le=MAX_XLA_THREADS)] | None = Field(
        default=None,
        description="threads that XLA had for the class, on a CPU; by default one a core",
        examples=[8],
    )
    parts: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(),
        description="settings compiled in because their study searches them",
        examples=[["model.dropout"]],
    )
    traced: dict[str, Annotated[tuple[AnyScalar, ...], Field(strict=False)]] = Field(
        default={},
        description="structural settings that the class is told at run time, with all their values",
        examples=[{"model.activation": ["relu", "tanh"]}],
    )


class TrialTable(Table):
    """`[trial]`, written by `sweeper trial`: a study of this one trial, as it was in its study.

    Its third setting is `class`, which Python keeps for itself: `TRIAL` adds it.
    """

    number: Annotated[int, Field(ge=0)] = Field(
        description="the trial's, from which its random draws come", examples=[17]
    )
    epochs: Count = Field(
        description="after which it ends, even where train.epochs is more", examples=[20]
    )

    @property
    def program(self) -> ClassTable:
        """The table `class`."""
        return getattr(self, "class")


_class: Any = (ClassTable, Field(description="the class that trained it"))
TRIAL: type[TrialTable] = create_model(
    "TRIAL", __base__=TrialTable, __module__=__name__, **{"class": _class}
)
