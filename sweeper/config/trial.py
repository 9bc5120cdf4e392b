"""`[trial]`: the trial of a study that a file repeats, and its class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from sweeper.config.kinds import MAX_XLA_THREADS, AnyScalar, Count
from sweeper.config.refusals import missing
from sweeper.config.table import Flaw, Table

ClassStrategy = Literal["exact", "padded", "process"]


def _size_and_strategy(
    strategy: ClassStrategy,
    width: int | None,
    depth: int | None,
    sizes: Mapping[str, tuple[int, int]],
) -> Iterable[Flaw]:
    if sizes and strategy != "padded":
        yield Flaw("sizes", "sizes of parts, but the class is not padded", "remove it")
    if sizes:
        return
    for name, value in (("width", width), ("depth", depth)):
        if strategy == "padded" and value is None:
            yield missing(name, "write the size that the class is padded to")
        elif strategy != "padded" and value is not None:
            yield Flaw(name, f"{value}, but the class is not padded", "remove it")


def _run_widths(
    lane_loop: Literal["map", "vmap"],
    width: int | None,
    run_widths: tuple[int, ...],
    sizes: Mapping[str, tuple[int, int]],
) -> Iterable[Flaw]:
    if run_widths and (sizes or lane_loop == "vmap"):
        why = "has parts" if sizes else "runs its lanes side by side"
        yield Flaw("run_widths", f"several widths, but the class {why}", "remove it")
    elif run_widths and (run_widths != tuple(sorted({*run_widths})) or run_widths[-1] != width):
        yield Flaw(
            "run_widths", f"{[*run_widths]}, but width is {width}", "write them ascending to width"
        )


class ClassTable(Table):
    """`[trial.class]`: the fixed properties of the program that trained the trial."""

    rules = (_size_and_strategy, _run_widths)

    strategy: ClassStrategy = Field(description="strategy of the class")
    lane_loop: Literal["map", "vmap"] = Field(description="how the class runs its lanes")
    capacity: Count = Field(description="lanes of the class; all but one stay empty", examples=[4])
    epochs: Count = Field(description="maximum epochs of a trial in its study", examples=[20])
    width: Count | None = Field(
        default=None, description="width that a padded class pads to", examples=[64]
    )
    run_widths: Annotated[tuple[Count, ...], Field(strict=False)] = Field(
        default=(),
        description="widths at which a padded class runs lanes, if there are several",
        examples=[[32, 64]],
    )
    depth: Count | None = Field(
        default=None, description="depth that a padded class pads to", examples=[4]
    )
    sizes: dict[str, Annotated[tuple[Count, Count], Field(strict=False)]] = Field(
        default={},
        description="width and depth that a padded class pads each part of a model to",
        examples=[{"a": [64, 2]}],
    )
    xla_threads: Annotated[int, Field(ge=1, le=MAX_XLA_THREADS)] | None = Field(
        default=None,
        description="number of XLA threads of the class, on a CPU; default: one per core",
        examples=[8],
    )
    parts: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(),
        description="settings compiled in because the study searches them",
        examples=[["model.dropout"]],
    )
    traced: dict[str, Annotated[tuple[AnyScalar, ...], Field(strict=False)]] = Field(
        default={},
        description="structural settings that the class gets at run time, with all their values",
        examples=[{"model.activation": ["relu", "tanh"]}],
    )


class TrialTable(Table):
    """`[trial]`, written by `sweeper trial`: a study of one trial, as it was in its own study.

    `TRIAL` adds its third setting `class`, a reserved word in Python.
    """

    number: Annotated[int, Field(ge=0)] = Field(
        description="number of the trial, which determines its random draws", examples=[17]
    )
    epochs: Count = Field(
        description="epoch after which it ends, even if train.epochs is larger", examples=[20]
    )

    @property
    def program(self) -> ClassTable:
        """The table `class`."""
        return getattr(self, "class")


_class: Any = (ClassTable, Field(description="the class that trained the trial"))
TRIAL: type[TrialTable] = create_model(
    "TRIAL", __base__=TrialTable, __module__=__name__, **{"class": _class}
)
